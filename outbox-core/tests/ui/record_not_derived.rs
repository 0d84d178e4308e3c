//! A tracked type is no record.

use outbox_core::conformance::Memory;

// What a backend crate offers as `outbox!`.
macro_rules! outbox {
    ($($t:tt)*) => {
        outbox_macros::registry!([::outbox_core::private] [Memory] $($t)*)
    };
}

struct PaymentOutbox;

fn main() {
    let tracking = outbox! {
        "payments" => PaymentOutbox
    };
    drop(tracking);
}
