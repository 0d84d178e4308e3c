//! A consumer is no handler of the service.

use outbox_core::conformance::Memory;
use outbox_macros::SqliteOutbox as Outbox;

// What a backend crate offers as `outbox!`.
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
    #[field(marks)]
    marks: i64,
}

struct Ship;
struct Mail;

fn main() {
    let tracking = outbox! {
        "payments" => PaymentOutbox,
        consumers: { 0 => Ship, 1 => Mial },
    };
    let _ = (tracking.layer(), tracking.publish_layer());
}
