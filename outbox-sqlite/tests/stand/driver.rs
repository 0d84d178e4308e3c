//! What the tests need of a driver: to open a pool, and to run SQL on its connections by hand.

use outbox_sqlite::outbox::Backend;

/// A pool to open.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The database, as a URI.
    pub url: String,
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

    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.url.push_str("?mode=ro");
        self
    }
}

pub trait Driver: Backend {
    fn open(opening: Opening) -> impl Future<Output = Self::Pool> + Send;

    fn close(pool: Self::Pool) -> impl Future<Output = ()> + Send;

    /// Runs SQL outside the driver's own notion of a transaction.
    fn execute(conn: &mut Self::Connection, sql: &'static str) -> impl Future<Output = ()> + Send;
}

#[cfg(feature = "sqlx")]
mod through_sqlx {
    use outbox_sqlite::Sqlite;
    use sqlx::AssertSqlSafe;
    use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePool, SqlitePoolOptions};

    use super::{Driver, Opening};

    impl Driver for Sqlite {
        async fn open(opening: Opening) -> SqlitePool {
            let options = SqlitePoolOptions::new().max_connections(opening.size);
            options
                .after_connect(move |conn, _| {
                    let setup = AssertSqlSafe(opening.setup.clone());
                    Box::pin(async { sqlx::raw_sql(setup).execute(conn).await.map(drop) })
                })
                .connect_lazy_with(SqliteConnectOptions::new().filename(opening.url))
        }

        async fn close(pool: SqlitePool) {
            pool.close().await;
        }

        async fn execute(conn: &mut SqliteConnection, sql: &'static str) {
            sqlx::raw_sql(sql).execute(conn).await.unwrap();
        }
    }
}

#[cfg(feature = "rusqlite")]
mod through_rusqlite {
    use deadpool_sqlite::{Config, Hook, Pool, Runtime};
    use outbox_sqlite::{Rusqlite, RusqliteConnection};

    use super::{Driver, Opening};

    impl Driver for Rusqlite {
        async fn open(opening: Opening) -> Pool {
            let config = Config::new(opening.url);
            let pool = config.builder(Runtime::Tokio1).unwrap();
            pool.max_size(opening.size as usize)
                .post_create(Hook::async_fn(move |conn, _| {
                    let setup = opening.setup.clone();
                    Box::pin(async move {
                        let set_up = conn.interact(move |conn| conn.execute_batch(&setup));
                        set_up.await.unwrap().unwrap();
                        Ok(())
                    })
                }))
                .build()
                .unwrap()
        }

        async fn close(pool: Pool) {
            pool.close();
        }

        async fn execute(conn: &mut RusqliteConnection, sql: &'static str) {
            let executed = conn.interact(|conn| conn.execute_batch(sql)).await;
            executed.unwrap().unwrap();
        }
    }
}
