//! The record of a payment: a row of the table `outbox`. Its insert is in the file of each driver.

use chrono::{DateTime, Utc};
use outbox_sqlite::Outbox;

/// A payment that was published, and whether it was processed.
#[derive(Debug, Outbox)]
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
