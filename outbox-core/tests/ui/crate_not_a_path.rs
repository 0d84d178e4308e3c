//! The backend's crate is no path.

use outbox_macros::SqliteOutbox as Outbox;

#[derive(Outbox)]
#[outbox(crate = "outbox-core", table = "outbox", publish)]
struct PaymentOutbox {
    #[field(id)]
    id: i64,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
}

fn main() {}
