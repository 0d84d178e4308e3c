//! Which columns hold a record, and what a table that does not fit is told of.
#![cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

mod stand;

use std::fmt::{self, Display};
use std::str::FromStr;

use outbox_core::conformance::{
    Service, Sink, Stand, StandRecord, assert_closed, headers, publish, registry,
};
use outbox_postgres::outbox::{Consumer, Mark, Outbox, OutboxSpec, Publish, Record, Statements};
use ruststream::{HeaderMap, OutgoingMessage};
use stand::{Driver, PostgresStand, StandId, cases, table};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

cases! {
    an_id_of_another_type_than_its_column_fails_the_publish_and_names_both,
    an_id_that_the_type_cannot_hold_fails_the_publish_and_says_which,
    an_id_that_does_not_find_its_row_again_fails_the_publish,
    a_column_that_does_not_take_its_part_fails_the_publish_and_names_both,
    a_column_that_is_missing_fails_the_publish_and_is_named,
    an_id_goes_its_way_through_every_column_that_holds_it,
    an_id_that_the_column_cannot_hold_is_absent,
    domains_are_the_type_below,
    headers_are_kept_as_json_too,
    a_table_in_a_schema_with_odd_names_is_quoted,
}

/// What a driver under test does: it runs the statements of these records.
trait Tested:
    Driver
    + Statements<Odd>
    + Statements<StandRecord>
    + Statements<StandRecord<i16>>
    + Statements<StandRecord<i32>>
    + Statements<StandRecord<u64>>
    + Statements<StandRecord<PaymentId>>
    + Statements<StandRecord<Uuid>>
    + Statements<StandRecord<Hyphenated>>
    + Statements<StandRecord<String>>
{
}

impl<D> Tested for D where
    D: Driver
        + Statements<Odd>
        + Statements<StandRecord>
        + Statements<StandRecord<i16>>
        + Statements<StandRecord<i32>>
        + Statements<StandRecord<u64>>
        + Statements<StandRecord<PaymentId>>
        + Statements<StandRecord<Uuid>>
        + Statements<StandRecord<Hyphenated>>
        + Statements<StandRecord<String>>
{
}

/// What a publish as a record of `R` comes to, on a stand whose table has such columns. Nothing is
/// sent without a record.
async fn publish_to<D, R>(table: &str) -> Result<(), String>
where
    D: Driver + Statements<R> + Statements<StandRecord>,
    R: Publish<D> + Mark<D>,
{
    let stand = PostgresStand::<D>::with(table).await;
    let sink = Sink::accepting();
    let outbox = Outbox::<D, _>::new(stand.pool(1).await).register::<R>("payments");
    let publisher = outbox.wrap(sink.clone());
    let result = publish(&publisher, "payments", b"1", HeaderMap::new()).await;
    assert_eq!(sink.sent().len(), usize::from(result.is_ok()));
    result
}

/// What a failure to publish says: that nothing was sent, the column, and what it has and needs.
fn assert_names(error: &str, column: &str, types: &[&str]) {
    assert!(error.contains("not sent"), "{error}");
    assert!(error.contains(&format!("the column `{column}`")), "{error}");
    for named in types {
        assert!(error.contains(named), "{named}: {error}");
    }
}

async fn refuses_id<D, Id>(column: &str, types: &[&str])
where
    D: Driver + Statements<StandRecord<Id>> + Statements<StandRecord>,
    StandRecord<Id>: Publish<D> + Mark<D>,
{
    let refused = publish_to::<D, StandRecord<Id>>(&table(column, false)).await;
    assert_names(&refused.unwrap_err(), "id", types);
}

async fn an_id_of_another_type_than_its_column_fails_the_publish_and_names_both<D: Tested>() {
    refuses_id::<D, i64>("serial PRIMARY KEY", &["int4", "i64", "int8"]).await;
    refuses_id::<D, i64>("smallserial PRIMARY KEY", &["int2", "i64", "int8"]).await;
    refuses_id::<D, i64>("numeric DEFAULT 1", &["numeric", "i64", "int8"]).await;
    refuses_id::<D, String>(
        "uuid DEFAULT gen_random_uuid()",
        &["uuid", "String", "text"],
    )
    .await;
    refuses_id::<D, Uuid>("text DEFAULT gen_random_uuid()", &["text", "Uuid", "uuid"]).await;
    refuses_id::<D, Hyphenated>("bigserial", &["int8", "Hyphenated", "text or uuid"]).await;
    refuses_id::<D, u64>("numeric DEFAULT 1", &["numeric", "int8"]).await;
    refuses_id::<D, u64>("bigint[] DEFAULT '{1}'", &["int8[]", "int8"]).await;
}

async fn an_id_that_the_type_cannot_hold_fails_the_publish_and_says_which<D: Tested>() {
    refuses_id::<D, u64>("bigint DEFAULT -1", &["int8", "`-1`", "u64"]).await;
    refuses_id::<D, u64>("text DEFAULT 'x'", &["text", "`x`", "u64"]).await;
    refuses_id::<D, i64>("bigint DEFAULT NULL", &["int8", "NULL"]).await;
}

async fn an_id_that_does_not_find_its_row_again_fails_the_publish<D: Tested>() {
    let upper = "text DEFAULT upper(gen_random_uuid()::text) PRIMARY KEY";
    refuses_id::<D, Hyphenated>(upper, &["text", "Hyphenated"]).await;
    refuses_id::<D, u64>("text DEFAULT '007'", &["text", "`007`", "u64"]).await;
}

async fn a_column_that_does_not_take_its_part_fails_the_publish_and_names_both<D: Tested>() {
    for (column, has, needs) in [
        ("name", "int4", "text"),
        ("name", "text[]", "text"),
        ("payload", "text", "bytea"),
        ("payload", "jsonb", "bytea"),
        ("headers", "bytea", "text, json or jsonb"),
    ] {
        let table = table("bigserial", false);
        let table = format!("{table}; ALTER TABLE outbox DROP {column}, ADD {column} {has}");
        let refused = publish_to::<D, StandRecord>(&table).await;
        assert_names(&refused.unwrap_err(), column, &[has, needs]);
    }
}

async fn a_column_that_is_missing_fails_the_publish_and_is_named<D: Tested>() {
    let table = table("bigserial", false) + "; ALTER TABLE outbox DROP payload";
    let error = publish_to::<D, StandRecord>(&table).await.unwrap_err();
    assert!(
        error.contains("not sent") && error.contains("payload"),
        "{error}"
    );
}

/// An id of the service's own, with no traits of a driver.
#[derive(Clone, Copy)]
struct PaymentId(i64);

impl Display for PaymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for PaymentId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

macro_rules! no_column_of_its_own {
    ($($id:ty),*) => {
        $(
            impl StandId for $id {
                const COLUMN: &'static str = "";
            }
        )*
    };
}

no_column_of_its_own!(i16, i32, u64, PaymentId);

/// A record is published, found, closed, and sent again by an id of this type in such a column.
async fn goes_its_way<D, Id: StandId>(column: &str)
where
    D: Driver + Statements<StandRecord<Id>>,
{
    let extension = "CREATE EXTENSION citext;".to_owned();
    let stand = PostgresStand::<D, Id>::with(&(extension + &table(column, false))).await;
    let outbox = registry::<PostgresStand<D, Id>>();
    outbox.set_pool(stand.pool(2).await).unwrap();
    let left = stand.store("payments", Some(b"1"), None).await;
    let mut service = Service::<PostgresStand<D, Id>>::with(outbox).start().await;
    assert_eq!(service.next().await.id(), Some(left.as_str()), "{column}");
    service.publish("payments", b"2").await.unwrap();
    assert_eq!(service.next().await.payload, b"2", "{column}");
    service.stop().await;
    assert_closed(&stand, 2).await;
}

async fn an_id_goes_its_way_through_every_column_that_holds_it<D: Tested>() {
    goes_its_way::<D, i16>("smallserial PRIMARY KEY").await;
    goes_its_way::<D, i32>("serial PRIMARY KEY").await;
    goes_its_way::<D, u64>("bigserial PRIMARY KEY").await;
    goes_its_way::<D, PaymentId>("serial PRIMARY KEY").await;
    goes_its_way::<D, Hyphenated>("uuid PRIMARY KEY DEFAULT gen_random_uuid()").await;
    goes_its_way::<D, String>("varchar(40) PRIMARY KEY DEFAULT gen_random_uuid()").await;
    goes_its_way::<D, String>("citext PRIMARY KEY DEFAULT gen_random_uuid()").await;
}

/// What a header says that no column of this type holds is in no row.
async fn an_id_that_the_column_cannot_hold_is_absent<D: Tested>() {
    let stand = PostgresStand::<D, PaymentId>::with(&table("serial PRIMARY KEY", false)).await;
    let pool = stand.pool(1).await;
    let mut conn = D::acquire(&pool).await.unwrap();
    let id = PaymentId(i64::MAX);
    let stored = <D as Statements<StandRecord<PaymentId>>>::fetch(&mut conn, &id).await;
    assert_eq!(stored.unwrap(), None);
    let marked =
        <D as Statements<StandRecord<PaymentId>>>::mark(&mut conn, &id, Consumer::SOLE).await;
    assert!(!marked.unwrap());
    // Until the column has grown, under statements that were prepared before.
    let grow = "ALTER TABLE outbox ALTER id TYPE bigint;
                INSERT INTO outbox (id, name) VALUES (9223372036854775807, 'payments')";
    stand.execute(grow).await;
    let stored = <D as Statements<StandRecord<PaymentId>>>::fetch(&mut conn, &id).await;
    assert!(!stored.unwrap().unwrap().processed);
    let marked =
        <D as Statements<StandRecord<PaymentId>>>::mark(&mut conn, &id, Consumer::SOLE).await;
    assert!(marked.unwrap());
}

async fn domains_are_the_type_below<D: Tested>() {
    let stand = PostgresStand::<D>::with(
        "CREATE DOMAIN payment_id AS bigint; CREATE DOMAIN label AS varchar(20);
         CREATE SEQUENCE ids;
         CREATE TABLE outbox (
             id payment_id PRIMARY KEY DEFAULT nextval('ids'), name label, payload bytea,
             headers text, processed_at timestamptz
         )",
    )
    .await;
    let outbox = registry::<PostgresStand<D>>();
    outbox.set_pool(stand.pool(2).await).unwrap();
    let mut service = Service::<PostgresStand<D>>::with(outbox).start().await;
    service.publish("payments", b"1").await.unwrap();
    service.next().await;
    service.stop().await;
    assert_closed(&stand, 1).await;
}

async fn headers_are_kept_as_json_too<D: Tested>() {
    for kept_as in ["json", "jsonb"] {
        let change = format!("; ALTER TABLE outbox ALTER headers TYPE {kept_as} USING NULL");
        let table = table(i64::COLUMN, false) + &change;
        let stand = PostgresStand::<D>::with(&table).await;
        let outbox = registry::<PostgresStand<D>>();
        outbox.set_pool(stand.pool(2).await).unwrap();
        let publisher = outbox.wrap(Sink::accepting());
        let sent = headers(&[("tenant", b"acme \"\\ \xc3\xa4"), ("bytes", b"\xff")]);
        publish(&publisher, "payments", b"1", sent.clone())
            .await
            .unwrap();
        let sink = Sink::accepting();
        outbox.republish()(sink.clone()).await.unwrap();
        let again = sink.sent().remove(0).headers;
        for (name, value) in sent.iter() {
            assert_eq!(again.get(name), Some(value), "{kept_as}: {name}");
        }
    }
    // The one text that `jsonb` does not take is refused before anything is sent.
    let table =
        table(i64::COLUMN, false) + "; ALTER TABLE outbox ALTER headers TYPE jsonb USING NULL";
    let stand = PostgresStand::<D>::with(&table).await;
    let outbox = registry::<PostgresStand<D>>();
    outbox.set_pool(stand.pool(2).await).unwrap();
    let publisher = outbox.wrap(Sink::accepting());
    let nul = publish(&publisher, "payments", b"1", headers(&[("nul", b"\0")])).await;
    let error = nul.unwrap_err();
    assert!(
        error.contains("not sent") && error.contains("Unicode"),
        "{error}"
    );
}

/// A record in a table whose every name has to be quoted.
struct Odd;

impl Record for Odd {
    type Id = i64;
    const SPEC: OutboxSpec = OutboxSpec::new("my \"table\"", "Select", "from", "a payload")
        .schema("Order")
        .headers("user")
        .processed_at("when it was");
}

impl<D: Statements<Self>> Mark<D> for Odd {}

impl<D: Statements<Self>> Publish<D> for Odd {
    async fn publish(conn: &mut D::Connection, msg: &OutgoingMessage<'_>) -> Result<i64, D::Error> {
        <D as Statements<Self>>::insert(conn, msg).await
    }
}

async fn a_table_in_a_schema_with_odd_names_is_quoted<D: Tested>() {
    let table = r#"CREATE SCHEMA "Order";
        CREATE TABLE "Order"."my ""table""" (
            "Select" bigserial PRIMARY KEY, "from" text, "a payload" bytea, "user" text,
            "when it was" timestamptz
        )"#;
    let stand = PostgresStand::<D>::with(table).await;
    let pool = stand.pool(1).await;
    let outbox = Outbox::<D, _>::new(pool.clone()).register::<Odd>("payments");
    let publisher = outbox.wrap(Sink::accepting());
    for _ in 0..2 {
        publish(&publisher, "payments", b"1", HeaderMap::new())
            .await
            .unwrap();
    }
    let mut conn = D::acquire(&pool).await.unwrap();
    D::begin(&mut conn, std::time::Duration::from_secs(1))
        .await
        .unwrap();
    assert!(
        <D as Statements<Odd>>::mark(&mut conn, &1, Consumer::SOLE)
            .await
            .unwrap()
    );
    assert!(
        !<D as Statements<Odd>>::mark(&mut conn, &1, Consumer::SOLE)
            .await
            .unwrap()
    );
    D::commit(&mut conn).await.unwrap();
    let processed = <D as Statements<Odd>>::fetch(&mut conn, &1).await.unwrap();
    assert!(processed.unwrap().processed);
    drop(conn);
    let sink = Sink::accepting();
    outbox.republish()(sink.clone()).await.unwrap();
    let ids: Vec<_> = sink
        .sent()
        .iter()
        .map(|sent| sent.id().map(str::to_owned))
        .collect();
    assert_eq!(ids, [Some("2".to_owned())]);
}
