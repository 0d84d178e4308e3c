//! Consumers stand behind their name, deliveries anywhere; a handler is named by any path.

#![deny(warnings, missing_docs, unused_qualifications)]

use outbox_core::conformance::Memory;
use outbox_macros::SqliteOutbox as Outbox;

macro_rules! outbox {
    ($($t:tt)*) => {
        outbox_macros::registry!([::outbox_core::private] [Memory] $($t)*)
    };
}

#[derive(Outbox)]
#[outbox(crate = "outbox_core", table = "outbox", publish)]
struct PaymentOutbox {
    #[field(id)]
    id: i64,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
    #[field(processed_at)]
    processed_at: Option<String>,
    #[field(marks, column = "consumed_by")]
    marks: i32,
}

mod handlers {
    pub(crate) struct Ship;
    pub(crate) struct Mail;
}

use handlers::Ship;

fn main() {
    let registry = outbox! {
        "payments.card" => PaymentOutbox,
        consumers: { 0 => Ship, 30 => handlers::Mail },
        deliveries: ["payments.*" => PaymentOutbox],
        "refunds" => PaymentOutbox,
    };
    let registry = registry
        .register::<PaymentOutbox>("returns")
        .consumer::<Ship>(0)
        .deliver::<PaymentOutbox>("returns.>");
    let names = format!("{registry:?}");
    assert!(names.contains("payments.*"), "{names}");
    let _ = (registry.layer(), registry.publish_layer());
}
