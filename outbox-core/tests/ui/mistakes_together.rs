//! All mistakes of a struct are reported at once.

use outbox_core::Outbox as Registry;
use outbox_core::conformance::Memory;
use outbox_macros::SqliteOutbox as Outbox;

#[derive(Outbox)]
#[outbox(crate = "outbox_core", publish, table = "", shema = "app")]
struct PaymentOutbox {
    #[field(id)]
    id: i64,
    #[field(nam)]
    name: String,
    #[field(payload, column = "id")]
    payload: Vec<u8>,
    #[field(id)]
    number: i64,
}

fn main() {
    // The refused record is used: only the refusal may be reported.
    let _ = Registry::<Memory>::deferred().register::<PaymentOutbox>("payments");
}
