//! Postgres through sqlx.

use outbox_postgres::{Postgres, SCHEMA, outbox};
use ruststream::OutgoingMessage;
use sqlx::postgres::{PgConnection, PgPool};

use super::{COUNT, Database};
use crate::error::Error;
use crate::record::PaymentOutbox;

impl outbox::Publish<Postgres> for PaymentOutbox {
    async fn publish(conn: &mut PgConnection, msg: &OutgoingMessage<'_>) -> sqlx::Result<i64> {
        sqlx::query_scalar("INSERT INTO outbox (name, payload) VALUES ($1, $2) RETURNING id")
            .bind(msg.name())
            .bind(msg.payload())
            .fetch_one(conn)
            .await
    }
}

impl Database for Postgres {
    const DRIVER: &str = "sqlx";

    async fn open(url: &str) -> Result<PgPool, Error> {
        let pool = PgPool::connect(url).await?;
        sqlx::raw_sql(SCHEMA).execute(&pool).await?;
        Ok(pool)
    }

    async fn count(pool: &PgPool) -> Result<(i64, i64), Error> {
        Ok(sqlx::query_as(COUNT).fetch_one(pool).await?)
    }

    async fn close(pool: &PgPool) {
        pool.close().await;
    }
}
