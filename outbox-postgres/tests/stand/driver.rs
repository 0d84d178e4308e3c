//! What the tests need of a driver: to open a pool, and to run SQL on its connections by hand.

use outbox_postgres::outbox::Backend;

/// A pool to open.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The URL of the server.
    pub server: String,
    /// The database's name.
    pub database: String,
    /// The most connections.
    pub size: u32,
    /// What is run on each new connection: settings other than the driver's defaults.
    pub setup: String,
}

impl Opening {
    #[must_use]
    pub fn size(mut self, size: u32) -> Self {
        self.size = size;
        self
    }

    #[must_use]
    pub fn setup(mut self, sql: impl Into<String>) -> Self {
        self.setup = sql.into();
        self
    }
}

pub trait Driver: Backend {
    fn open(opening: Opening) -> impl Future<Output = Self::Pool> + Send;

    /// Runs SQL outside the driver's own notion of a transaction.
    ///
    /// # Errors
    ///
    /// Whatever the database answers.
    fn try_execute(
        conn: &mut Self::Connection,
        sql: &'static str,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// As [`try_execute`](Self::try_execute), which must succeed.
    fn execute(conn: &mut Self::Connection, sql: &'static str) -> impl Future<Output = ()> + Send {
        async move { Self::try_execute(conn, sql).await.unwrap() }
    }
}

#[cfg(feature = "sqlx")]
mod through_sqlx {
    use outbox_postgres::Postgres;
    use sqlx::AssertSqlSafe;
    use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};

    use super::{Driver, Opening};

    impl Driver for Postgres {
        async fn open(opening: Opening) -> PgPool {
            let server: PgConnectOptions = opening.server.parse().unwrap();
            let options = PgPoolOptions::new().max_connections(opening.size);
            options
                .after_connect(move |conn, _| {
                    let setup = AssertSqlSafe(opening.setup.clone());
                    Box::pin(async { sqlx::raw_sql(setup).execute(conn).await.map(drop) })
                })
                .connect_lazy_with(server.database(&opening.database))
        }

        async fn try_execute(conn: &mut PgConnection, sql: &'static str) -> sqlx::Result<()> {
            sqlx::raw_sql(sql).execute(conn).await.map(drop)
        }
    }
}

#[cfg(feature = "tokio-postgres")]
mod through_tokio_postgres {
    use deadpool_postgres::{ClientWrapper, Hook, HookError, Manager, Pool};
    use outbox_postgres::{TokioPostgres, TokioPostgresError};
    use tokio_postgres::{Config, NoTls};

    use super::{Driver, Opening};

    impl Driver for TokioPostgres {
        async fn open(opening: Opening) -> Pool {
            let mut config: Config = opening.server.parse().unwrap();
            config.dbname(&opening.database);
            Pool::builder(Manager::new(config, NoTls))
                .max_size(opening.size as usize)
                .post_create(Hook::async_fn(move |conn, _| {
                    let setup = opening.setup.clone();
                    Box::pin(async move {
                        let set_up = conn.batch_execute(&setup).await;
                        set_up.map_err(HookError::Backend)
                    })
                }))
                .build()
                .unwrap()
        }

        async fn try_execute(
            conn: &mut ClientWrapper,
            sql: &'static str,
        ) -> Result<(), TokioPostgresError> {
            Ok(conn.batch_execute(sql).await?)
        }
    }
}
