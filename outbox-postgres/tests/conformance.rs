//! Each driver passes the suite.
#![cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

mod stand;

/// The suite for a driver, in both kinds of table and with ids of each type.
macro_rules! passes {
    ($driver:ty) => {
        mod mark {
            use super::*;
            outbox_core::conformance!(PostgresStand<$driver>);
        }

        mod delete {
            use super::*;
            outbox_core::conformance!(PostgresStand<$driver, i64, true>);
        }

        mod consumers {
            use super::*;
            outbox_core::conformance_consumers!(PostgresStand<$driver, i64, false, true>);
        }

        mod storm {
            use super::*;
            outbox_core::conformance_storm!(PostgresStand<$driver>);
        }

        mod uuid {
            use super::*;
            outbox_core::conformance_ids!(PostgresStand<$driver, ::uuid::Uuid>);
        }

        mod uuid_delete {
            use super::*;
            outbox_core::conformance_ids!(PostgresStand<$driver, ::uuid::Uuid, true>);
        }

        mod hyphenated {
            use super::*;
            outbox_core::conformance_ids!(PostgresStand<$driver, ::uuid::fmt::Hyphenated>);
        }

        mod text {
            use super::*;
            outbox_core::conformance_ids!(PostgresStand<$driver, String>);
        }
    };
}

#[cfg(feature = "sqlx")]
mod sqlx {
    use outbox_postgres::Postgres;

    use crate::stand::PostgresStand;

    passes!(Postgres);
}

#[cfg(feature = "tokio-postgres")]
mod tokio_postgres {
    use outbox_postgres::TokioPostgres;

    use crate::stand::PostgresStand;

    passes!(TokioPostgres);
}
