//! SQLite through sqlx.

use outbox_sqlite::{SCHEMA, Sqlite, outbox};
use ruststream::OutgoingMessage;
use sqlx::SqliteConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool};

use super::{COUNT, Database};
use crate::error::Error;
use crate::record::PaymentOutbox;

impl outbox::Publish<Sqlite> for PaymentOutbox {
    async fn publish(conn: &mut SqliteConnection, msg: &OutgoingMessage<'_>) -> sqlx::Result<i64> {
        sqlx::query_scalar("INSERT INTO outbox (name, payload) VALUES (?, ?) RETURNING id")
            .bind(msg.name())
            .bind(msg.payload())
            .fetch_one(conn)
            .await
    }
}

impl Database for Sqlite {
    const DRIVER: &str = "sqlx";

    async fn open(url: &str) -> Result<SqlitePool, Error> {
        let options = url
            .parse::<SqliteConnectOptions>()?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal);
        let pool = SqlitePool::connect_with(options).await?;
        sqlx::raw_sql(SCHEMA).execute(&pool).await?;
        Ok(pool)
    }

    async fn count(pool: &SqlitePool) -> Result<(i64, i64), Error> {
        Ok(sqlx::query_as(COUNT).fetch_one(pool).await?)
    }

    async fn close(pool: &SqlitePool) {
        pool.close().await;
    }
}
