//! SQLite through rusqlite, its own driver, on a pool of deadpool's.

use deadpool_sqlite::{Config, Hook, HookError, Pool, Runtime};
use outbox_sqlite::Rusqlite;

use crate::database::BUSY_TIMEOUT;
use crate::{Driver, Kind, Result};

impl Driver for Rusqlite {
    const KIND: Kind = Kind::Sqlite;

    fn open(url: &str, size: u32) -> Result<Pool> {
        let path = url.strip_prefix("sqlite://");
        let path = path.ok_or("the URL does not begin with sqlite://")?;
        let pool = Config::new(path).builder(Runtime::Tokio1)?;
        // The file keeps its journal mode.
        let pool = pool
            .max_size(size as usize)
            .post_create(Hook::async_fn(|conn, _| {
                Box::pin(async {
                    let set = conn.interact(|conn| conn.busy_timeout(BUSY_TIMEOUT)).await;
                    let set = set.map_err(|error| HookError::message(error.to_string()))?;
                    set.map_err(HookError::Backend)
                })
            }));
        Ok(pool.build()?)
    }

    async fn close(pool: &Pool) {
        pool.close();
    }
}
