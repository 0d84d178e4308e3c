//! A registry takes its names in the order written, and its settings wherever they stand.

#![deny(warnings, missing_docs, unused_qualifications)]

use outbox_core::Outbox as Registry;
use outbox_core::conformance::{Memory, MemoryPool};
use outbox_macros::SqliteOutbox as Outbox;

mod records {
    use super::Outbox;

    #[derive(Outbox)]
    #[outbox(crate = "outbox_core", table = "outbox", publish)]
    pub(crate) struct PaymentOutbox {
        #[field(id)]
        id: i64,
        #[field(name)]
        name: String,
        #[field(payload)]
        payload: Vec<u8>,
    }
}

struct NoDriver;

macro_rules! outbox {
    ($($t:tt)*) => {
        outbox_macros::registry!([::outbox_core::private] [NoDriver] $($t)*)
    };
}

/// Two registries may stand in one scope, and one may be passed on as an expression.
fn names(registry: &impl std::fmt::Debug) -> String {
    format!("{registry:?}")
}

fn main() {
    let _ = NoDriver;
    let payments = "payments";
    let first = names(&outbox! {
        "refunds" => records::PaymentOutbox,
        driver: Memory,
        "payments" => records::PaymentOutbox,
    });
    assert!(first.contains(r#"["refunds", "payments"]"#), "{first}");
    assert!(first.contains("pool: false"), "{first}");

    let pool = MemoryPool::new(1);
    let second =
        outbox! { pool: pool.clone(), "payments" => records::PaymentOutbox, driver: Memory };
    assert!(names(&second).contains("pool: true"));
    let _: Registry<Memory, _> = second.handle::<records::PaymentOutbox>(payments);
}
