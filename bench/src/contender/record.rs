//! The records of this outbox: one whose insert is derived, and one with the service's own.

#![allow(
    dead_code,
    reason = "the outbox needs the fields' roles, not the fields"
)]

use chrono::{DateTime, Utc};
use deadpool_postgres::ClientWrapper;
use outbox_postgres::{Postgres, TokioPostgres, TokioPostgresError};
use outbox_sqlite::{Outbox, Rusqlite, RusqliteConnection, RusqliteError, Sqlite, outbox};
use ruststream::OutgoingMessage;
use sqlx::{PgConnection, SqliteConnection};

use super::hand::{INSERT_POSTGRES, INSERT_SQLITE};

#[derive(Outbox)]
#[outbox(table = "outbox", publish)]
pub(super) struct Derived {
    #[field(id)]
    id: i64,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
    #[field(processed_at)]
    processed_at: Option<DateTime<Utc>>,
}

#[derive(Outbox)]
#[outbox(table = "outbox")]
pub(super) struct Own {
    #[field(id)]
    id: i64,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
    #[field(processed_at)]
    processed_at: Option<DateTime<Utc>>,
}

impl outbox::Publish<Sqlite> for Own {
    async fn publish(conn: &mut SqliteConnection, msg: &OutgoingMessage<'_>) -> sqlx::Result<i64> {
        let insert = sqlx::query_scalar(INSERT_SQLITE).bind(msg.name());
        insert.bind(msg.payload()).fetch_one(conn).await
    }
}

impl outbox::Publish<Rusqlite> for Own {
    async fn publish(
        conn: &mut RusqliteConnection,
        msg: &OutgoingMessage<'_>,
    ) -> Result<i64, RusqliteError> {
        let values = (msg.name().to_owned(), msg.payload().to_vec());
        let inserted = conn.interact(move |conn| {
            let mut insert = conn.prepare_cached(INSERT_SQLITE)?;
            insert.query_one(values, |row| row.get(0))
        });
        Ok(inserted.await??)
    }
}

impl outbox::Publish<Postgres> for Own {
    async fn publish(conn: &mut PgConnection, msg: &OutgoingMessage<'_>) -> sqlx::Result<i64> {
        let insert = sqlx::query_scalar(INSERT_POSTGRES).bind(msg.name());
        insert.bind(msg.payload()).fetch_one(conn).await
    }
}

impl outbox::Publish<TokioPostgres> for Own {
    async fn publish(
        conn: &mut ClientWrapper,
        msg: &OutgoingMessage<'_>,
    ) -> Result<i64, TokioPostgresError> {
        let insert = conn.prepare_cached(INSERT_POSTGRES).await?;
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&msg.name(), &msg.payload()];
        Ok(conn.query_one(&insert, &values).await?.try_get(0)?)
    }
}
