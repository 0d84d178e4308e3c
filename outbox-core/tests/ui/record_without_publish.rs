//! A record that is tracked has no insert.

use outbox_core::conformance::Memory;
use outbox_macros::SqliteOutbox as Outbox;
use ruststream::memory::prelude::*;

// What a backend crate offers as `outbox!`.
macro_rules! outbox {
    ($($t:tt)*) => {
        outbox_macros::registry!([::outbox_core::private] [Memory] $($t)*)
    };
}

#[derive(Outbox)]
#[outbox(crate = "outbox_core", table = "outbox")]
struct PaymentOutbox {
    #[field(id)]
    id: i64,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
}

fn main() {
    let tracking = outbox! {
        "payments" => PaymentOutbox
    };

    // Taking what a service needs from the registry adds no error of its own.
    let _ = (tracking.layer(), tracking.publish_layer());
    let _ = tracking.handle::<PaymentOutbox>("payments");
    let _ = tracking.wrap(MemoryBroker::new().publisher());
}
