//! What the check of a SQLite table names: columns, types and indexes.

#![cfg(feature = "sqlx")]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

use outbox_core::conformance::StandRecord;
use outbox_sqlite::Sqlite;
use outbox_sqlite::outbox::{Mark, Outbox, Publish, Statements};
use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqlitePoolOptions;

/// What the check says of a table that `sql` makes.
async fn checked<const DELETES: bool>(sql: &str) -> Result<(), String> {
    check::<StandRecord<i64, DELETES>>(sql).await
}

async fn check<R>(sql: &str) -> Result<(), String>
where
    R: Publish<Sqlite> + Mark<Sqlite>,
    Sqlite: Statements<R>,
{
    let pool = SqlitePoolOptions::new().max_connections(1);
    let pool = pool.connect("sqlite::memory:").await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&pool)
        .await
        .unwrap();
    let outbox = Outbox::<Sqlite>::new(pool).register::<R>("payments");
    outbox
        .check_tables()
        .await
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn the_shipped_tables_fit() {
    checked::<false>(outbox_sqlite::SCHEMA).await.unwrap();
    checked::<true>(outbox_sqlite::SCHEMA_DELETE).await.unwrap();
}

#[tokio::test]
async fn everything_that_does_not_fit_is_named_at_once() {
    let table = "CREATE TABLE outbox (id TEXT, name TEXT, payload REAL, processed_at BLOB)";
    let error = checked::<false>(table).await.unwrap_err();
    for said in [
        "its column `id` is `TEXT`, where the record needs INTEGER",
        "its column `payload` is `REAL`, where the record needs BLOB",
        "it has no column `headers`: add it",
        "its column `processed_at` is `BLOB`, where the record needs TEXT",
        "its column `id` is not the primary key",
        "CREATE INDEX outbox_open ON outbox (name, id) WHERE processed_at IS NULL",
    ] {
        assert!(error.contains(said), "{said}\n{error}");
    }
    assert_eq!(error.split("; ").count(), 6, "and nothing else: {error}");
}

#[tokio::test]
async fn an_index_of_every_row_does_not_find_the_open_ones() {
    let table = outbox_sqlite::SCHEMA.replace(" WHERE processed_at IS NULL", "");
    let error = checked::<false>(&table).await.unwrap_err();
    assert!(error.contains("no index finds its open records"), "{error}");
    let table = table.replace("(name, id)", "(name, processed_at)");
    checked::<false>(&table).await.unwrap();
}

#[tokio::test]
async fn the_column_of_the_marks_is_checked_where_the_record_has_one() {
    type Marked = StandRecord<i64, false, true>;
    let error = check::<Marked>(outbox_sqlite::SCHEMA).await.unwrap_err();
    assert!(
        error.contains("it has no column `marks`: add it"),
        "{error}"
    );
    let with = |ty: &str| {
        format!(
            "{}; ALTER TABLE outbox ADD marks {ty}",
            outbox_sqlite::SCHEMA
        )
    };
    let error = check::<Marked>(&with("TEXT")).await.unwrap_err();
    let said = "its column `marks` is `TEXT`, where the record needs INTEGER";
    assert!(error.contains(said), "{error}");
    check::<Marked>(&with("INTEGER")).await.unwrap();
}
