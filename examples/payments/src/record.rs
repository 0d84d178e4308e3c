//! The record of a payment: a row of the table `outbox`, and how it is written.

use chrono::{DateTime, Utc};
use outbox_sqlite::{Outbox, Sqlite, outbox};
use ruststream::OutgoingMessage;
use sqlx::SqliteConnection;

/// A payment that was published, and whether it was processed.
#[derive(Debug, Outbox, sqlx::FromRow)]
#[outbox(table = "outbox")]
pub struct PaymentOutbox {
    /// Travels with the message.
    #[field(id)]
    pub id: i64,
    /// What the message was published under.
    #[field(name)]
    pub name: String,
    /// The message.
    #[field(payload)]
    pub payload: Vec<u8>,
    /// `None` while the record is open.
    #[field(processed_at)]
    pub processed_at: Option<DateTime<Utc>>,
}

impl outbox::Publish<Sqlite> for PaymentOutbox {
    async fn publish(conn: &mut SqliteConnection, msg: &OutgoingMessage<'_>) -> sqlx::Result<i64> {
        sqlx::query_scalar("INSERT INTO outbox (name, payload) VALUES (?, ?) RETURNING id")
            .bind(msg.name())
            .bind(msg.payload())
            .fetch_one(conn)
            .await
    }
}
