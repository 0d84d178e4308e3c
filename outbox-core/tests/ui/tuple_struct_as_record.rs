//! A record has fields without names.

use outbox_core::Outbox as Registry;
use outbox_core::conformance::Memory;
use outbox_macros::SqliteOutbox as Outbox;

#[derive(Outbox)]
#[outbox(crate = "outbox_core", publish, table = "outbox")]
struct PaymentOutbox(
    #[field(id)] i64,
    #[field(name)] String,
    #[field(payload)] Vec<u8>,
);

fn main() {
    // The refused record is used: only the refusal may be reported.
    let _ = Registry::<Memory>::deferred().register::<PaymentOutbox>("payments");
}
