//! A named test for each case of this database's own, on each driver.

use outbox_core::conformance::{on, skip};

use super::missing;

/// Runs a case that needs a server.
pub async fn run(case: impl Future<Output = ()>) {
    match missing() {
        Some(missing) => skip(&missing),
        None => on(case).await,
    }
}

macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        #[cfg(feature = "sqlx")]
        mod sqlx {
            $(
                #[tokio::test]
                async fn $case() {
                    $crate::stand::run(super::$case::<outbox_postgres::Postgres>()).await;
                }
            )*
        }

        #[cfg(feature = "tokio-postgres")]
        mod tokio_postgres {
            $(
                #[tokio::test]
                async fn $case() {
                    $crate::stand::run(super::$case::<outbox_postgres::TokioPostgres>()).await;
                }
            )*
        }
    };
}

pub(crate) use cases;
