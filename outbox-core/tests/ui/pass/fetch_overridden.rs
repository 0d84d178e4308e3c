//! With `custom` the service implements `Mark` and overrides nothing but the fetch.

#![deny(warnings)]

use outbox_core::conformance::Memory;
use outbox_core::{Backend, Mark, Statements, Stored};
use outbox_macros::SqliteOutbox as Outbox;

#[derive(Outbox)]
#[outbox(crate = "outbox_core", table = "outbox", publish, custom)]
struct PaymentOutbox {
    #[field(id)]
    id: i64,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
}

impl Mark<Memory> for PaymentOutbox {
    async fn fetch(
        conn: &mut <Memory as Backend>::Connection,
        id: &i64,
    ) -> Result<Option<Stored>, <Memory as Backend>::Error> {
        <Memory as Statements<Self>>::fetch(conn, id).await
    }
}

fn main() {
    let tracking = outbox_macros::registry!(
        [::outbox_core::private] [Memory] "payments" => PaymentOutbox
    );
    let _ = (tracking.layer(), tracking.publish_layer());
}
