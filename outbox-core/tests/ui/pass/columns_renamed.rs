//! A column is named by `column`, else by sqlx's `rename`, else by its `rename_all`, else by its field.

#![deny(warnings)]

use outbox_core::{OutboxSpec, Record};
use outbox_macros::SqliteOutbox as Outbox;

#[derive(Outbox)]
#[outbox(crate = "outbox_core", table = "Payments")]
#[sqlx(default, rename_all = "camelCase")]
struct PaymentOutbox {
    #[field(id, column = "key")]
    #[sqlx(rename = "number")]
    id: i64,
    #[sqlx(try_from = "String", rename = "channel")]
    #[field(name)]
    name: String,
    #[field(payload)]
    #[sqlx(json(nullable), default)]
    message_bytes: Vec<u8>,
    #[field(column = "sentWith", headers)]
    headers: Option<String>,
    #[field(processed_at)]
    r#final: Option<i64>,
}

fn main() {
    let spec = OutboxSpec::new("Payments", "key", "channel", "messageBytes")
        .headers("sentWith")
        .processed_at("final");
    assert_eq!(PaymentOutbox::SPEC, spec);
}
