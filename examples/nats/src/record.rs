//! The record of a payment: a row of the table `outbox`.

use chrono::{DateTime, Utc};
use outbox_sqlite::Outbox;

/// A payment that was published, and whether it was processed.
#[derive(Debug, Outbox, sqlx::FromRow)]
#[outbox(table = "outbox", publish)]
pub struct PaymentOutbox {
    /// Travels with the message.
    #[field(id)]
    pub id: i64,
    /// The subject that the message was published to.
    #[field(name)]
    pub name: String,
    /// The message.
    #[field(payload)]
    pub payload: Vec<u8>,
    /// The message's headers, sent again with it.
    #[field(headers)]
    pub headers: Option<String>,
    /// `None` while the record is open.
    #[field(processed_at)]
    pub processed_at: Option<DateTime<Utc>>,
}
