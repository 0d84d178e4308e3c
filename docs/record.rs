//! The record of a payment: a row of the table `outbox`.

use outbox_sqlite::Outbox;

/// A payment that was published. The outbox needs the roles, not the struct.
#[derive(Outbox)]
#[outbox(table = "outbox", publish)]
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
    /// The message's headers.
    #[field(headers)]
    pub headers: Option<String>,
    /// `None` while the record is open.
    #[field(processed_at)]
    pub processed_at: Option<String>,
}
