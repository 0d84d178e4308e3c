//! A name as a type is tracked twice.

use outbox_core::conformance::Memory;
use outbox_core::{Outbox as Registry, TrackedName};
use outbox_macros::SqliteOutbox as Outbox;

#[derive(Outbox)]
#[outbox(crate = "outbox_core", table = "outbox", publish)]
struct PaymentOutbox {
    #[field(id)]
    id: i64,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
}

struct Payments;

impl TrackedName for Payments {
    const NAME: &'static str = "payments";
}

fn main() {
    let tracking = Registry::<Memory>::deferred()
        .track::<PaymentOutbox, Payments>()
        .track::<PaymentOutbox, Payments>();
    let _ = (tracking.layer(), tracking.publish_layer());
}
