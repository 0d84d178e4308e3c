//! A record has a type parameter.

use outbox_core::Outbox as Registry;
use outbox_core::conformance::Memory;
use outbox_macros::SqliteOutbox as Outbox;

#[derive(Outbox)]
#[outbox(crate = "outbox_core", publish, table = "outbox")]
struct PaymentOutbox<T> {
    #[field(id)]
    id: i64,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
    note: T,
}

fn main() {
    // The refused record is used: only the refusal may be reported.
    let _ = Registry::<Memory>::deferred().register::<PaymentOutbox<String>>("payments");
}
