//! What is true of SQLite alone: journals, busy timeouts, the shared cache, files, times and plans.
#![cfg(any(feature = "rusqlite", feature = "sqlx"))]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

mod stand;

use std::pin::pin;
use std::time::Duration;

use ::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use ::sqlx::{AssertSqlSafe, Connection, Row as _};
use chrono::{DateTime, Utc};
use outbox_core::conformance::{Builder, Logs, Service, Stand, StandRecord, publish, registry};
use outbox_sqlite::outbox::{Mark, Outbox, OutboxSpec, Publish, Record, Statements};
use ruststream::memory::MemoryBroker;
use ruststream::runtime::HandlerOutcome;
use ruststream::{HeaderMap, OutgoingMessage};
use stand::{Driver, Opening, SqliteStand};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;
use tracing::Level;

/// A named test for each case, on a driver.
macro_rules! cases {
    ($driver:ty) => {
        cases! { $driver;
            a_handler_that_wrote_in_its_transaction_gets_write_lock_held,
            a_handler_that_only_read_is_recorded,
            a_lock_that_somebody_lets_go_in_time_is_waited_for,
            with_a_rollback_journal_an_open_read_is_write_lock_held,
            a_shared_cache_in_memory_bounds_the_wait_too,
            an_id_that_came_back_before_its_commit_failed_is_not_sent,
            a_read_only_database_fails_the_publish_and_says_why,
            a_full_disk_fails_the_publish_and_says_why,
            a_record_that_does_not_fit_its_table_fails_the_publish_and_names_the_column,
            a_payload_that_is_kept_as_text_is_sent_again,
            processed_at_is_the_databases_clock_in_utc,
        }
    };
    ($driver:ty; $($case:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $case() {
                outbox_core::conformance::on(super::$case::<$driver>()).await;
            }
        )*
    };
}

#[cfg(feature = "sqlx")]
mod sqlx {
    cases!(outbox_sqlite::Sqlite);
}

#[cfg(feature = "rusqlite")]
mod rusqlite {
    cases!(outbox_sqlite::Rusqlite);
}

const JOURNALS: [SqliteJournalMode; 2] = [SqliteJournalMode::Wal, SqliteJournalMode::Delete];

/// Busy timeouts: of none, of both drivers' default, and one that never ends.
const BUSY: [&str; 3] = [
    "PRAGMA busy_timeout = 0",
    "PRAGMA busy_timeout = 5000",
    "PRAGMA busy_timeout = 360000000",
];

const LOCK_WAIT: Duration = Duration::from_millis(400);

/// What a driver under test does: it runs the statements of the stand's record.
trait Tested: Driver + Statements<StandRecord> {}

impl<D: Driver + Statements<StandRecord>> Tested for D {}

/// A service of the cases on a pool.
fn service_on<D: Tested>(pool: &D::Pool) -> Builder<SqliteStand<D>> {
    let outbox = registry::<SqliteStand<D>>().lock_wait(LOCK_WAIT);
    outbox.set_pool(pool.clone()).unwrap();
    Service::with(outbox)
}

/// What a publish comes to in a handler that ran `sql` in a transaction and did not commit it yet.
/// The payment is sent if and only if it was recorded.
async fn publish_within<D: Tested>(pool: &D::Pool, sql: &'static str) -> Result<(), String> {
    let (told, mut result) = unbounded_channel();
    let of_handler = pool.clone();
    let mut service = service_on::<D>(pool)
        .handler(move |delivery, out| {
            let (told, pool) = (told.clone(), of_handler.clone());
            Box::pin(async move {
                if delivery.name == "audit" {
                    let mut conn = D::acquire(&pool).await.unwrap();
                    D::execute(&mut conn, "BEGIN").await;
                    D::execute(&mut conn, sql).await;
                    let published = out.publish("payments", b"1", HeaderMap::new()).await;
                    D::execute(&mut conn, "COMMIT").await;
                    told.send(published).unwrap();
                }
                HandlerOutcome::retry_after(Duration::from_hours(1))
            })
        })
        .start()
        .await;
    service.publish("audit", b"").await.unwrap();
    service.next().await;
    let published = timeout(Duration::from_secs(20), result.recv()).await;
    let published = published.expect("the wait is bounded").unwrap();
    if published.is_ok() {
        assert_eq!(service.next().await.payload, b"1");
    }
    service.assert_nothing_sent("payments").await;
    service.stop().await;
    published
}

async fn count(conn: &mut SqliteConnection) -> i64 {
    ::sqlx::query_scalar("SELECT count(*) FROM outbox")
        .fetch_one(conn)
        .await
        .unwrap()
}

async fn a_handler_that_wrote_in_its_transaction_gets_write_lock_held<D: Tested>() {
    for journal in JOURNALS {
        for busy in BUSY {
            let stand = SqliteStand::<D>::with_journal(journal).await;
            stand.execute("CREATE TABLE orders (id)").await;
            let pool = D::open(stand.opening().setup(busy)).await;
            let error = publish_within::<D>(&pool, "INSERT INTO orders VALUES (1)")
                .await
                .unwrap_err();
            assert!(error.contains("write lock"), "{journal:?} {busy}: {error}");
            assert!(
                error.contains("first statement"),
                "it says what to do: {error}"
            );
            // The connections that waited are clean, and nothing is written later.
            let service = service_on::<D>(&pool).leaving_open().start().await;
            service.publish("payments", b"2").await.unwrap();
            service.stop().await;
            D::close(pool).await;
            let rows = stand.rows().await;
            assert_eq!(rows.len(), 1, "{journal:?} {busy}: {rows:?}");
            assert_eq!(rows[0].payload.as_deref(), Some(b"2".as_slice()));
        }
    }
}

async fn a_lock_that_somebody_lets_go_in_time_is_waited_for<D: Tested>() {
    for journal in JOURNALS {
        for busy in BUSY {
            let stand = SqliteStand::<D>::with_journal(journal).await;
            let pool = D::open(stand.opening().setup(busy)).await;
            let service = service_on::<D>(&pool).leaving_open();
            let patient = service.registry(|outbox| outbox.lock_wait(Duration::from_secs(20)));
            let service = patient.start().await;
            let lock = stand.lock().await;
            {
                let mut publish = pin!(service.publish("payments", b"1"));
                let waits = timeout(Duration::from_millis(50), &mut publish).await;
                assert!(waits.is_err(), "{journal:?} {busy}: {waits:?}");
                SqliteStand::<D>::unlock(lock).await;
                publish.await.unwrap();
            }
            service.stop().await;
            D::close(pool).await;
            assert_eq!(stand.rows().await.len(), 1, "{journal:?} {busy}");
        }
    }
}

async fn a_handler_that_only_read_is_recorded<D: Tested>() {
    for busy in BUSY {
        let stand = SqliteStand::<D>::open().await;
        stand.execute("CREATE TABLE orders (id)").await;
        let pool = D::open(stand.opening().setup(busy)).await;
        publish_within::<D>(&pool, "SELECT count(*) FROM orders")
            .await
            .unwrap();
        D::close(pool).await;
        assert_eq!(stand.rows().await.len(), 1, "{busy}");
    }
}

/// There a reader holds up every commit, so the insert is not even begun.
async fn with_a_rollback_journal_an_open_read_is_write_lock_held<D: Tested>() {
    for busy in BUSY {
        let stand = SqliteStand::<D>::with_journal(SqliteJournalMode::Delete).await;
        stand
            .execute("CREATE TABLE orders (id); INSERT INTO orders VALUES (1)")
            .await;
        let pool = D::open(stand.opening().setup(busy)).await;
        let error = publish_within::<D>(&pool, "SELECT count(*) FROM orders")
            .await
            .unwrap_err();
        assert!(error.contains("write lock"), "{busy}: {error}");
        D::close(pool).await;
        assert!(
            stand.rows().await.is_empty(),
            "{busy}: nothing was written later"
        );
    }
}

async fn a_shared_cache_in_memory_bounds_the_wait_too<D: Tested>() {
    let name = D::NAME;
    let opening = Opening {
        url: format!("file:a_shared_cache_of_{name}?mode=memory&cache=shared"),
        size: 4,
        setup: String::new(),
    };
    // It lives as long as this connection does.
    let options = SqliteConnectOptions::new().filename(&opening.url);
    let mut conn = SqliteConnection::connect_with(&options).await.unwrap();
    let tables = stand::table::<i64>(false) + "; CREATE TABLE orders (id)";
    ::sqlx::raw_sql(AssertSqlSafe(tables))
        .execute(&mut conn)
        .await
        .unwrap();
    let pool = D::open(opening).await;
    let error = publish_within::<D>(&pool, "INSERT INTO orders VALUES (1)")
        .await
        .unwrap_err();
    assert!(error.contains("write lock"), "{error}");
    publish_within::<D>(&pool, "SELECT count(*) FROM orders")
        .await
        .unwrap();
    assert_eq!(count(&mut conn).await, 1, "nothing was written later");
}

/// A service's own insert, read no further than the id: it comes back before the statement ends.
struct OwnInsert;

impl Record for OwnInsert {
    type Id = i64;
    const SPEC: OutboxSpec = StandRecord::<i64>::SPEC;
}

impl<D: Statements<Self>> Mark<D> for OwnInsert {}

const OWN_INSERT: &str = "INSERT INTO outbox (name, payload) VALUES (?, ?) RETURNING id";

#[cfg(feature = "sqlx")]
impl Publish<outbox_sqlite::Sqlite> for OwnInsert {
    async fn publish(
        conn: &mut SqliteConnection,
        msg: &OutgoingMessage<'_>,
    ) -> ::sqlx::Result<i64> {
        ::sqlx::query_scalar(OWN_INSERT)
            .bind(msg.name())
            .bind(msg.payload())
            .fetch_one(conn)
            .await
    }
}

#[cfg(feature = "rusqlite")]
impl Publish<outbox_sqlite::Rusqlite> for OwnInsert {
    async fn publish(
        conn: &mut outbox_sqlite::RusqliteConnection,
        msg: &OutgoingMessage<'_>,
    ) -> Result<i64, outbox_sqlite::RusqliteError> {
        let row = (msg.name().to_owned(), msg.payload().to_vec());
        let id = conn.interact(|conn| conn.query_row(OWN_INSERT, row, |row| row.get(0)));
        Ok(id.await??)
    }
}

async fn an_id_that_came_back_before_its_commit_failed_is_not_sent<D>()
where
    D: Tested + Statements<OwnInsert>,
    OwnInsert: Publish<D>,
{
    let stand = SqliteStand::<D>::with_journal(SqliteJournalMode::Delete).await;
    stand.store("other", Some(b"0"), None).await;
    let pool = D::open(stand.opening().setup("PRAGMA busy_timeout = 50")).await;
    let mut reader = stand.connect().await;
    let mut read = reader.begin().await.unwrap();
    assert_eq!(count(&mut read).await, 1);

    let broker = MemoryBroker::new();
    let outbox = Outbox::<D, _>::new(pool)
        .lock_wait(LOCK_WAIT)
        .register::<OwnInsert>("payments");
    let publisher = outbox.wrap(broker.publisher());
    let error = publish(&publisher, "payments", b"1", HeaderMap::new())
        .await
        .unwrap_err();
    assert!(error.contains("was not sent"), "{error}");
    read.rollback().await.unwrap();
    assert_eq!(
        stand.rows().await.len(),
        1,
        "no record, so nothing may have been sent"
    );

    publish(&publisher, "payments", b"2", HeaderMap::new())
        .await
        .unwrap();
    assert_eq!(stand.rows().await.len(), 2);
}

async fn a_read_only_database_fails_the_publish_and_says_why<D: Tested>() {
    let stand = SqliteStand::<D>::open().await;
    let id = stand.store("payments", Some(b"1"), None).await;
    let pool = D::open(stand.opening().read_only()).await;
    let logs = Logs::capture();
    let mut service = service_on::<D>(&pool).start().await;
    let error = service.publish("payments", b"2").await.unwrap_err();
    assert!(
        error.contains("not sent") && error.contains("readonly"),
        "{error}"
    );
    // The record can be read but not marked: the handler runs once, loudly.
    let delivery = service.next().await;
    assert_eq!(delivery.id(), Some(id.as_str()));
    assert!(service.stop().await.is_empty(), "no hot loop");
    assert!(stand.rows().await[0].open);
    let loud = logs.lines(Level::ERROR, &["could not be marked", "readonly", &id]);
    assert_eq!(loud.len(), 1);
}

async fn a_full_disk_fails_the_publish_and_says_why<D: Tested>() {
    let stand = SqliteStand::<D>::open().await;
    let pool = D::open(stand.opening().setup("PRAGMA max_page_count = 8")).await;
    let service = service_on::<D>(&pool).leaving_open().start().await;
    let error = service
        .publish("payments", &vec![7; 100_000])
        .await
        .unwrap_err();
    assert!(
        error.contains("not sent") && error.contains("full"),
        "{error}"
    );
    service.publish("payments", b"small").await.unwrap();
    let sent = service.stop().await;
    assert!(
        sent.iter().all(|delivery| delivery.payload == b"small"),
        "{sent:?}"
    );
    assert_eq!(stand.rows().await.len(), 1);
}

/// A record whose ids are not those of the table.
struct WrongId;

impl Record for WrongId {
    type Id = uuid::Uuid;
    const SPEC: OutboxSpec = StandRecord::<i64>::SPEC;
}

impl<D: Statements<Self>> Mark<D> for WrongId {}

impl<D: Statements<Self>> Publish<D> for WrongId {
    async fn publish(
        conn: &mut D::Connection,
        msg: &OutgoingMessage<'_>,
    ) -> Result<uuid::Uuid, D::Error> {
        <D as Statements<Self>>::insert(conn, msg).await
    }
}

/// A record with a column that the table has not.
struct MissingColumn;

impl Record for MissingColumn {
    type Id = i64;
    const SPEC: OutboxSpec = OutboxSpec::new("outbox", "id", "name", "body");
}

impl<D: Statements<Self>> Mark<D> for MissingColumn {}

impl<D: Statements<Self>> Publish<D> for MissingColumn {
    async fn publish(conn: &mut D::Connection, msg: &OutgoingMessage<'_>) -> Result<i64, D::Error> {
        <D as Statements<Self>>::insert(conn, msg).await
    }
}

async fn a_record_that_does_not_fit_its_table_fails_the_publish_and_names_the_column<D>()
where
    D: Tested + Statements<WrongId> + Statements<MissingColumn>,
{
    let stand = SqliteStand::<D>::open().await;
    let outbox = Outbox::<D, _>::new(stand.pool(2).await)
        .register::<WrongId>("wrong")
        .register::<MissingColumn>("missing");
    let publisher = outbox.wrap(MemoryBroker::new().publisher());
    let error = publish(&publisher, "wrong", b"1", HeaderMap::new())
        .await
        .unwrap_err();
    assert!(
        error.contains("not sent") && error.to_uppercase().contains("INTEGER"),
        "{error}"
    );
    let error = publish(&publisher, "missing", b"1", HeaderMap::new())
        .await
        .unwrap_err();
    assert!(
        error.contains("not sent") && error.contains("body"),
        "{error}"
    );
    assert!(stand.rows().await.is_empty());
}

async fn a_payload_that_is_kept_as_text_is_sent_again<D: Tested>() {
    let stand = SqliteStand::<D>::open().await;
    stand
        .execute("INSERT INTO outbox (name, payload) VALUES ('payments', 'a text')")
        .await;
    let mut service = service_on::<D>(&stand.pool(2).await).start().await;
    assert_eq!(service.next().await.payload, b"a text");
    service.stop().await;
}

async fn processed_at_is_the_databases_clock_in_utc<D: Tested>() {
    let stand = SqliteStand::<D>::open().await;
    let pool = stand.pool(2).await;
    let mut service = service_on::<D>(&pool).start().await;
    service.publish("payments", b"1").await.unwrap();
    service.next().await;
    service.stop().await;
    let row = ::sqlx::query(
        "SELECT processed_at,
                processed_at <= datetime('now') AND processed_at > datetime('now', '-1 minute')
         FROM outbox",
    )
    .fetch_one(&mut stand.connect().await)
    .await
    .unwrap();
    let at: DateTime<Utc> = row.get(0);
    assert!((Utc::now() - at).num_seconds().abs() < 60, "{at}");
    assert!(
        row.get::<bool, _>(1),
        "it compares with the database's own expressions"
    );
}
