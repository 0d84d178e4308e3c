//! Two required roles are missing.

use outbox_core::Outbox as Registry;
use outbox_core::conformance::Memory;
use outbox_macros::SqliteOutbox as Outbox;

#[derive(Outbox)]
#[outbox(crate = "outbox_core", publish, table = "outbox")]
struct PaymentOutbox {
    #[field(id)]
    id: i64,
    name: String,
    payload: Vec<u8>,
}

fn main() {
    // The refused record is used: only the refusal may be reported.
    let _ = Registry::<Memory>::deferred().register::<PaymentOutbox>("payments");
}
