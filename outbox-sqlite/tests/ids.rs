//! Ids that are kept as text: what is kept must be what their type writes.

#![cfg(feature = "sqlx")]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

use outbox_core::conformance::{Sink, StandRecord, on, publish};
use outbox_sqlite::Sqlite;
use outbox_sqlite::outbox::Outbox;
use ruststream::HeaderMap;
use sqlx::sqlite::SqlitePoolOptions;
use uuid::fmt::Hyphenated;

type Uuids = StandRecord<Hyphenated, true>;

/// A message that carried it would find no record: where records are deleted, it would be
/// acknowledged without its handler.
#[tokio::test]
async fn an_id_that_its_type_writes_otherwise_fails_the_publish_and_is_reported_by_the_start() {
    on(async {
        let pool = SqlitePoolOptions::new().max_connections(1);
        let pool = pool.connect("sqlite::memory:").await.unwrap();
        let table = "CREATE TABLE outbox (id TEXT PRIMARY KEY DEFAULT (hex(randomblob(16))),
                     name TEXT, payload BLOB, headers TEXT)";
        sqlx::raw_sql(table).execute(&pool).await.unwrap();
        let outbox = Outbox::<Sqlite>::new(pool.clone()).register::<Uuids>("payments");
        let sink = Sink::accepting();
        let tracked = outbox.wrap(sink.clone());
        let error = publish(&tracked, "payments", b"1", HeaderMap::new())
            .await
            .unwrap_err();
        assert!(
            error.contains("keep ids as the type writes them"),
            "{error}"
        );
        let row = "INSERT INTO outbox (name, payload) VALUES ('payments', x'00')";
        sqlx::raw_sql(row).execute(&pool).await.unwrap();
        let error = outbox.republish()(sink.clone())
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("keep ids as the type writes them"),
            "{error}"
        );
        assert!(sink.asked().is_empty(), "nothing was sent");
    })
    .await;
}
