//! What is true of SQLite alone: journals, busy timeouts, the shared cache, files, times and plans.

mod stand;

use std::time::Duration;

use chrono::{DateTime, Utc};
use outbox_core::conformance::{Builder, Logs, Service, Stand, StandRecord, publish, registry};
use outbox_sqlite::Sqlite;
use outbox_sqlite::outbox::{Mark, Outbox, OutboxSpec, Publish, Record, Statements};
use ruststream::memory::MemoryBroker;
use ruststream::runtime::HandlerOutcome;
use ruststream::{HeaderMap, OutgoingMessage};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
};
use sqlx::{AssertSqlSafe, Connection, Row as _};
use stand::SqliteStand;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;
use tracing::Level;

const JOURNALS: [SqliteJournalMode; 2] = [SqliteJournalMode::Wal, SqliteJournalMode::Delete];

/// A busy timeout of none, of sqlx's default, and one that never ends.
const BUSY: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_secs(5),
    Duration::from_hours(100),
];

const LOCK_WAIT: Duration = Duration::from_millis(400);

fn pool_options() -> SqlitePoolOptions {
    SqlitePoolOptions::new().max_connections(4)
}

/// A service of the cases on a pool.
fn service_on(pool: &SqlitePool) -> Builder<SqliteStand> {
    let outbox = registry::<SqliteStand>().lock_wait(LOCK_WAIT);
    outbox.set_pool(pool.clone()).unwrap();
    Service::with(outbox)
}

/// What a publish comes to in a handler that ran `sql` in a transaction and did not commit it yet.
/// The payment is sent if and only if it was recorded.
async fn publish_within(pool: &SqlitePool, sql: &'static str) -> Result<(), String> {
    let (told, mut result) = unbounded_channel();
    let of_handler = pool.clone();
    let mut service = service_on(pool)
        .handler(move |delivery, out| {
            let (told, pool) = (told.clone(), of_handler.clone());
            Box::pin(async move {
                if delivery.name == "audit" {
                    let mut tx = pool.begin().await.unwrap();
                    sqlx::query(sql).execute(&mut *tx).await.unwrap();
                    let published = out.publish("payments", b"1", HeaderMap::new()).await;
                    tx.commit().await.unwrap();
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
    sqlx::query_scalar("SELECT count(*) FROM outbox")
        .fetch_one(conn)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_handler_that_wrote_in_its_transaction_gets_write_lock_held() {
    for journal in JOURNALS {
        for busy in BUSY {
            let stand: SqliteStand = SqliteStand::with_journal(journal).await;
            stand.execute("CREATE TABLE orders (id)").await;
            let options = stand.options().busy_timeout(busy);
            let pool = pool_options().connect_with(options).await.unwrap();
            let error = publish_within(&pool, "INSERT INTO orders VALUES (1)")
                .await
                .unwrap_err();
            assert!(
                error.contains("write lock"),
                "{journal:?} {busy:?}: {error}"
            );
            assert!(error.contains("first write"), "it says what to do: {error}");
            // The connections that waited are clean, and nothing is written later.
            let service = service_on(&pool).leaving_open().start().await;
            service.publish("payments", b"2").await.unwrap();
            service.stop().await;
            pool.close().await;
            let rows = stand.rows().await;
            assert_eq!(rows.len(), 1, "{journal:?} {busy:?}: {rows:?}");
            assert_eq!(rows[0].payload.as_deref(), Some(b"2".as_slice()));
        }
    }
}

#[tokio::test]
async fn a_handler_that_only_read_is_recorded() {
    for busy in BUSY {
        let stand: SqliteStand = SqliteStand::open().await;
        stand.execute("CREATE TABLE orders (id)").await;
        let options = stand.options().busy_timeout(busy);
        let pool = pool_options().connect_with(options).await.unwrap();
        publish_within(&pool, "SELECT count(*) FROM orders")
            .await
            .unwrap();
        pool.close().await;
        assert_eq!(stand.rows().await.len(), 1, "{busy:?}");
    }
}

/// There a reader holds up every commit, so the insert is not even begun.
#[tokio::test]
async fn with_a_rollback_journal_an_open_read_is_write_lock_held() {
    for busy in BUSY {
        let stand: SqliteStand = SqliteStand::with_journal(SqliteJournalMode::Delete).await;
        stand
            .execute("CREATE TABLE orders (id); INSERT INTO orders VALUES (1)")
            .await;
        let pool = pool_options()
            .connect_with(stand.options().busy_timeout(busy))
            .await
            .unwrap();
        let error = publish_within(&pool, "SELECT count(*) FROM orders")
            .await
            .unwrap_err();
        assert!(error.contains("write lock"), "{busy:?}: {error}");
        pool.close().await;
        assert!(
            stand.rows().await.is_empty(),
            "{busy:?}: nothing was written later"
        );
    }
}

#[tokio::test]
async fn a_shared_cache_in_memory_bounds_the_wait_too() {
    let options = SqliteConnectOptions::new()
        .in_memory(true)
        .shared_cache(true);
    let options = options.filename("file:a_shared_cache?mode=memory&cache=shared");
    let pool = pool_options()
        .min_connections(2)
        .connect_with(options)
        .await
        .unwrap();
    sqlx::raw_sql("CREATE TABLE orders (id)")
        .execute(&pool)
        .await
        .unwrap();
    sqlx::raw_sql(AssertSqlSafe(stand::table::<i64>(false)))
        .execute(&pool)
        .await
        .unwrap();
    let error = publish_within(&pool, "INSERT INTO orders VALUES (1)")
        .await
        .unwrap_err();
    assert!(error.contains("write lock"), "{error}");
    publish_within(&pool, "SELECT count(*) FROM orders")
        .await
        .unwrap();
    let mut conn = pool.acquire().await.unwrap();
    assert_eq!(count(&mut conn).await, 1, "nothing was written later");
}

/// A service's own insert, read with `fetch_one`: the id comes back before the statement ends.
struct OwnInsert;

impl Record for OwnInsert {
    type Id = i64;
    const SPEC: OutboxSpec = StandRecord::<i64>::SPEC;
}

impl Mark<Sqlite> for OwnInsert {}

impl Publish<Sqlite> for OwnInsert {
    async fn publish(conn: &mut SqliteConnection, msg: &OutgoingMessage<'_>) -> sqlx::Result<i64> {
        sqlx::query_scalar("INSERT INTO outbox (name, payload) VALUES (?, ?) RETURNING id")
            .bind(msg.name())
            .bind(msg.payload())
            .fetch_one(conn)
            .await
    }
}

#[tokio::test]
async fn an_id_that_came_back_before_its_commit_failed_is_not_sent() {
    let stand: SqliteStand = SqliteStand::with_journal(SqliteJournalMode::Delete).await;
    stand.store("other", Some(b"0"), None).await;
    let options = stand.options().busy_timeout(Duration::from_millis(50));
    let pool = pool_options().connect_with(options).await.unwrap();
    let mut reader = stand.connect().await;
    let mut read = reader.begin().await.unwrap();
    assert_eq!(count(&mut read).await, 1);

    let broker = MemoryBroker::new();
    let outbox = Outbox::new(pool.clone())
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

#[tokio::test]
async fn a_read_only_database_fails_the_publish_and_says_why() {
    let stand: SqliteStand = SqliteStand::open().await;
    let id = stand.store("payments", Some(b"1"), None).await;
    let pool = pool_options()
        .connect_with(stand.options().read_only(true))
        .await
        .unwrap();
    let logs = Logs::capture();
    let mut service = service_on(&pool).start().await;
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

#[tokio::test]
async fn a_full_disk_fails_the_publish_and_says_why() {
    let stand: SqliteStand = SqliteStand::open().await;
    let options = stand.options().pragma("max_page_count", "8");
    let pool = pool_options().connect_with(options).await.unwrap();
    let service = service_on(&pool).leaving_open().start().await;
    let error = service
        .publish("payments", &[7; 100_000])
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

impl Mark<Sqlite> for WrongId {}

impl Publish<Sqlite> for WrongId {
    async fn publish(
        conn: &mut SqliteConnection,
        msg: &OutgoingMessage<'_>,
    ) -> sqlx::Result<uuid::Uuid> {
        <Sqlite as Statements<Self>>::insert(conn, msg).await
    }
}

/// A record with a column that the table has not.
struct MissingColumn;

impl Record for MissingColumn {
    type Id = i64;
    const SPEC: OutboxSpec = OutboxSpec::new("outbox", "id", "name", "body");
}

impl Mark<Sqlite> for MissingColumn {}

impl Publish<Sqlite> for MissingColumn {
    async fn publish(conn: &mut SqliteConnection, msg: &OutgoingMessage<'_>) -> sqlx::Result<i64> {
        <Sqlite as Statements<Self>>::insert(conn, msg).await
    }
}

#[tokio::test]
async fn a_record_that_does_not_fit_its_table_fails_the_publish_and_names_the_column() {
    let stand: SqliteStand = SqliteStand::open().await;
    let outbox = Outbox::new(stand.pool(2).await)
        .register::<WrongId>("wrong")
        .register::<MissingColumn>("missing");
    let publisher = outbox.wrap(MemoryBroker::new().publisher());
    let error = publish(&publisher, "wrong", b"1", HeaderMap::new())
        .await
        .unwrap_err();
    assert!(
        error.contains("not sent") && error.contains("INTEGER"),
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

#[tokio::test]
async fn processed_at_is_the_databases_clock_in_utc() {
    let stand: SqliteStand = SqliteStand::open().await;
    let pool = stand.pool(2).await;
    let mut service = service_on(&pool).start().await;
    service.publish("payments", b"1").await.unwrap();
    service.next().await;
    service.stop().await;
    let row = sqlx::query(
        "SELECT processed_at,
                processed_at <= datetime('now') AND processed_at > datetime('now', '-1 minute')
         FROM outbox",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    let at: DateTime<Utc> = row.get(0);
    assert!((Utc::now() - at).num_seconds().abs() < 60, "{at}");
    assert!(
        row.get::<bool, _>(1),
        "it compares with the database's own expressions"
    );
}
