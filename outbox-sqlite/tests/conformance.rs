//! Each driver passes the suite.
#![cfg(any(feature = "rusqlite", feature = "sqlx"))]

mod stand;

/// The suite for a driver, in both kinds of table and with ids of each type.
macro_rules! passes {
    ($driver:ty, $hyphenated:ty) => {
        mod mark {
            use super::*;
            outbox_core::conformance!(SqliteStand<$driver>);
        }

        mod delete {
            use super::*;
            outbox_core::conformance!(SqliteStand<$driver, i64, true>);
        }

        mod consumers {
            use super::*;
            outbox_core::conformance_consumers!(SqliteStand<$driver, i64, false, true>);
        }

        mod storm {
            use super::*;
            outbox_core::conformance_storm!(SqliteStand<$driver>);
        }

        mod uuid {
            use super::*;
            outbox_core::conformance_ids!(SqliteStand<$driver, ::uuid::Uuid>);
        }

        mod uuid_delete {
            use super::*;
            outbox_core::conformance_ids!(SqliteStand<$driver, ::uuid::Uuid, true>);
        }

        mod hyphenated {
            use super::*;
            outbox_core::conformance_ids!(SqliteStand<$driver, $hyphenated>);
        }

        mod text {
            use super::*;
            outbox_core::conformance_ids!(SqliteStand<$driver, String>);
        }
    };
}

#[cfg(feature = "sqlx")]
mod sqlx {
    use ::uuid::fmt::Hyphenated;
    use outbox_sqlite::Sqlite;

    use crate::stand::SqliteStand;

    passes!(Sqlite, Hyphenated);
}

#[cfg(feature = "rusqlite")]
mod rusqlite {
    use std::fmt::{self, Display};
    use std::str::FromStr;

    use ::rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
    use ::uuid::fmt::Hyphenated;
    use outbox_sqlite::Rusqlite;

    use crate::stand::{SqliteStand, StandId};

    passes!(Rusqlite, Text);

    /// A UUID that is kept as text: a type of the service's own, since the driver has none.
    struct Text(Hyphenated);

    impl Display for Text {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }
    }

    impl FromStr for Text {
        type Err = ::uuid::Error;

        fn from_str(text: &str) -> Result<Self, Self::Err> {
            text.parse().map(Self)
        }
    }

    impl ToSql for Text {
        fn to_sql(&self) -> ::rusqlite::Result<ToSqlOutput<'_>> {
            Ok(self.0.to_string().into())
        }
    }

    impl FromSql for Text {
        fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
            value.as_str()?.parse().map_err(FromSqlError::other)
        }
    }

    impl StandId for Text {
        const COLUMN: &'static str = <Hyphenated as StandId>::COLUMN;

        type Seen = Hyphenated;
    }
}
