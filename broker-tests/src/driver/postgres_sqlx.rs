//! Postgres through sqlx.

use outbox_postgres::Postgres;
use sqlx::postgres::{PgPool, PgPoolOptions};

use crate::{Driver, Kind, Result};

impl Driver for Postgres {
    const KIND: Kind = Kind::Postgres;

    fn open(url: &str, size: u32) -> Result<PgPool> {
        let pool = PgPoolOptions::new().max_connections(size);
        Ok(pool.connect_lazy(url)?)
    }

    async fn close(pool: &PgPool) {
        pool.close().await;
    }
}
