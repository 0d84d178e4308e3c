//! A record has every role, a schema, and a field of the service's own.

#![deny(warnings, missing_docs, unused_qualifications, unreachable_pub)]

use outbox_core::{OutboxSpec, Record};
use outbox_macros::SqliteOutbox as Outbox;

#[derive(Outbox)]
#[outbox(crate = "outbox_core", table = "outbox", schema = "app")]
struct PaymentOutbox {
    #[field(id)]
    id: i64,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
    #[field(headers)]
    headers: Option<String>,
    #[field(processed_at)]
    processed_at: Option<i64>,
    #[expect(dead_code, reason = "the derive does not touch what has no role")]
    note: String,
}

fn main() {
    let spec = OutboxSpec::new("outbox", "id", "name", "payload")
        .schema("app")
        .headers("headers")
        .processed_at("processed_at");
    assert_eq!(PaymentOutbox::SPEC, spec);
    let _: <PaymentOutbox as Record>::Id = 7_i64;
}
