//! A tracked type is no record.

use outbox_core::conformance::Memory;
use ruststream::memory::prelude::*;

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

    // Whatever uses the registry is silent: one mistake, one error.
    let _ = tracking.handle::<PaymentOutbox>("payments");
    let _ = tracking.wrap(MemoryBroker::new().publisher());
    let _ = RustStream::new(AppInfo::new("payments", "0.1.0"))
        .layer(tracking.layer())
        .publish_layer(tracking.publish_layer())
        .with_broker(MemoryBroker::new(), |b| {
            b.after_startup(Publish, tracking.republish());
        });
}
