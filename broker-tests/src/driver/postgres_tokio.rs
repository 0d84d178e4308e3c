//! Postgres through tokio-postgres, its own driver, on a pool of deadpool's.

use deadpool_postgres::{Manager, Pool};
use outbox_postgres::TokioPostgres;
use tokio_postgres::NoTls;

use crate::{Driver, Kind, Result};

impl Driver for TokioPostgres {
    const KIND: Kind = Kind::Postgres;

    fn open(url: &str, size: u32) -> Result<Pool> {
        let manager = Manager::new(url.parse()?, NoTls);
        Ok(Pool::builder(manager).max_size(size as usize).build()?)
    }

    async fn close(pool: &Pool) {
        pool.close();
    }
}
