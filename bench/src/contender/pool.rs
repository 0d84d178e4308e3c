//! The pools of all sides: the same size, the same patience, the same durability.

use deadpool_postgres::{Manager, Pool as PostgresObjects};
use deadpool_sqlite::{Config, Hook, HookError, Pool as SqliteObjects, Runtime};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use tokio_postgres::NoTls;

use crate::Result;
use crate::database::{PATIENCE, POOL, SQLITE_SETUP};

pub(super) fn sqlite(url: &str) -> Result<SqlitePool> {
    let options: SqliteConnectOptions = url.parse()?;
    let options = options
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(PATIENCE);
    let pool = SqlitePoolOptions::new()
        .max_connections(POOL)
        .acquire_timeout(PATIENCE)
        .idle_timeout(None)
        .max_lifetime(None);
    Ok(pool.connect_lazy_with(options))
}

pub(super) fn rusqlite(url: &str) -> Result<SqliteObjects> {
    let path = url.strip_prefix("sqlite://");
    let path = path.ok_or("the URL does not begin with sqlite://")?;
    let setup = Hook::async_fn(|conn, _| {
        Box::pin(async {
            let set_up = conn.interact(|conn| {
                conn.busy_timeout(PATIENCE)?;
                conn.execute_batch(SQLITE_SETUP)
            });
            let set_up = set_up.await;
            let set_up = set_up.map_err(|error| HookError::message(error.to_string()))?;
            set_up.map_err(HookError::Backend)
        })
    });
    let pool = Config::new(path).builder(Runtime::Tokio1)?;
    Ok(pool.max_size(POOL as usize).post_create(setup).build()?)
}

pub(super) fn postgres(url: &str) -> Result<PgPool> {
    let pool = PgPoolOptions::new()
        .max_connections(POOL)
        .acquire_timeout(PATIENCE)
        .idle_timeout(None)
        .max_lifetime(None);
    Ok(pool.connect_lazy(url)?)
}

pub(super) fn tokio_postgres(url: &str) -> Result<PostgresObjects> {
    let manager = Manager::new(url.parse()?, NoTls);
    let pool = PostgresObjects::builder(manager).max_size(POOL as usize);
    Ok(pool.build()?)
}
