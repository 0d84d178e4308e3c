//! Postgres through tokio-postgres, its own driver, on a pool of deadpool's.

use deadpool_postgres::{ClientWrapper, Manager, Pool};
use outbox_postgres::{SCHEMA, TokioPostgres, TokioPostgresError, outbox};
use ruststream::OutgoingMessage;
use tokio_postgres::NoTls;

use super::{COUNT, Database};
use crate::error::Error;
use crate::record::PaymentOutbox;

impl outbox::Publish<TokioPostgres> for PaymentOutbox {
    async fn publish(
        conn: &mut ClientWrapper,
        msg: &OutgoingMessage<'_>,
    ) -> Result<i64, TokioPostgresError> {
        let insert = "INSERT INTO outbox (name, payload) VALUES ($1, $2) RETURNING id";
        let insert = conn.prepare_cached(insert).await?;
        let row = conn
            .query_one(&insert, &[&msg.name(), &msg.payload()])
            .await?;
        Ok(row.try_get(0)?)
    }
}

impl Database for TokioPostgres {
    const DRIVER: &str = "native";

    async fn open(url: &str) -> Result<Pool, Error> {
        let pool = Pool::builder(Manager::new(url.parse()?, NoTls)).build()?;
        pool.get().await?.batch_execute(SCHEMA).await?;
        Ok(pool)
    }

    async fn count(pool: &Pool) -> Result<(i64, i64), Error> {
        let row = pool.get().await?.query_one(COUNT, &[]).await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }

    async fn close(pool: &Pool) {
        pool.close();
    }
}
