//! An id has no text that could travel in a header.

use outbox_core::Outbox as Registry;
use outbox_core::conformance::Memory;
use outbox_macros::SqliteOutbox as Outbox;

struct Number(i64);

impl std::str::FromStr for Number {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

#[derive(Outbox)]
#[outbox(crate = "outbox_core", publish, table = "outbox")]
struct PaymentOutbox {
    #[field(id)]
    id: Number,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
}

fn main() {
    // The refused record is used: only the refusal may be reported.
    let _ = Registry::<Memory>::deferred().register::<PaymentOutbox>("payments");
}
