//! What the check of a Postgres table names: columns, types and indexes.
#![cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

mod stand;

use outbox_core::conformance::StandRecord;
use outbox_postgres::outbox::{Mark, Outbox, Publish, Statements};
use stand::{Driver, PostgresStand, cases};

cases! {
    the_shipped_tables_fit,
    everything_that_does_not_fit_is_named_at_once,
    an_index_of_every_row_does_not_find_the_open_ones,
    the_column_of_the_marks_is_checked_where_the_record_has_one,
}

type Kept = StandRecord<i64, false>;
type Deleted = StandRecord<i64, true>;
type Marked = StandRecord<i64, false, true>;

/// What the check says of tables that `sql` makes.
async fn checked<D: Driver + Statements<Kept>>(sql: &str) -> Result<(), String> {
    check::<D, Kept>(sql).await
}

async fn check<D: Driver + Statements<R>, R: Publish<D> + Mark<D>>(
    sql: &str,
) -> Result<(), String> {
    let stand: PostgresStand<D> = PostgresStand::with(sql).await;
    let pool = D::open(stand.opening().size(1)).await;
    let outbox = Outbox::<D>::new(pool).register::<R>("payments");
    outbox
        .check_tables()
        .await
        .map_err(|error| error.to_string())
}

async fn the_shipped_tables_fit<D: Driver + Statements<Kept> + Statements<Deleted>>() {
    checked::<D>(outbox_postgres::SCHEMA).await.unwrap();
    let stand: PostgresStand<D> = PostgresStand::with(outbox_postgres::SCHEMA_DELETE).await;
    let pool = D::open(stand.opening().size(1)).await;
    let outbox = Outbox::<D>::new(pool).register::<Deleted>("payments");
    outbox.check_tables().await.unwrap();
}

async fn everything_that_does_not_fit_is_named_at_once<D: Driver + Statements<Kept>>() {
    let table = "CREATE TABLE outbox (id serial, name text, payload text, processed_at timestamp)";
    let error = checked::<D>(table).await.unwrap_err();
    for said in [
        "its column `id` is `int4`, where the record needs int8",
        "its column `payload` is `text`, where the record needs bytea",
        "it has no column `headers`: add it",
        "its column `processed_at` is `timestamp`, where the record needs timestamptz",
        "its column `id` is not the primary key",
        "CREATE INDEX outbox_open ON outbox (name, id) WHERE processed_at IS NULL",
    ] {
        assert!(error.contains(said), "{said}\n{error}");
    }
    assert_eq!(error.split("; ").count(), 6, "and nothing else: {error}");
}

async fn an_index_of_every_row_does_not_find_the_open_ones<D: Driver + Statements<Kept>>() {
    let table = outbox_postgres::SCHEMA.replace(" WHERE processed_at IS NULL", "");
    let error = checked::<D>(&table).await.unwrap_err();
    assert!(error.contains("no index finds its open records"), "{error}");
}

async fn the_column_of_the_marks_is_checked_where_the_record_has_one<D>()
where
    D: Driver + Statements<Marked>,
{
    let error = check::<D, Marked>(outbox_postgres::SCHEMA).await;
    let error = error.unwrap_err();
    assert!(
        error.contains("it has no column `marks`: add it"),
        "{error}"
    );
    let with = |ty: &str| {
        format!(
            "{}; ALTER TABLE outbox ADD marks {ty}",
            outbox_postgres::SCHEMA
        )
    };
    let error = check::<D, Marked>(&with("text")).await.unwrap_err();
    let said = "its column `marks` is `text`, where the record needs integer or bigint";
    assert!(error.contains(said), "{error}");
    check::<D, Marked>(&with("bigint")).await.unwrap();
}
