//! What is true of Postgres alone: row locks, transactions and how they end, connections, clocks
//! and privileges.
#![cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

mod stand;

use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::sqlx::Row as _;
use ::sqlx::postgres::PgConnection;
use chrono::{DateTime, Utc};
use outbox_core::conformance::{
    Builder, Logs, Service, Sink, Stand, StandRecord, assert_closed, publish, registry, skip,
};
use outbox_postgres::outbox::{Mark, Outbox, OutboxSpec, Publish, Record, Statements};
use outbox_postgres::{SCHEMA, SCHEMA_DELETE, outbox};
use ruststream::runtime::HandlerOutcome;
use ruststream::{HeaderMap, OutgoingMessage};
use stand::{Driver, PostgresStand, cases};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;
use tracing::Level;

cases! {
    a_handler_that_locked_the_table_gets_write_lock_held,
    a_handler_that_wrote_the_same_key_gets_write_lock_held,
    a_key_that_its_transaction_gives_up_is_recorded,
    a_deadlock_is_write_lock_held,
    the_answer_of_the_database_comes_before_the_publish_gives_up,
    a_transaction_that_somebody_left_open_does_not_swallow_the_record,
    a_start_reads_what_an_old_snapshot_does_not_see,
    a_failure_that_the_services_own_insert_swallows_fails_the_publish,
    an_own_insert_that_ends_the_transaction_fails_the_publish,
    a_serialization_failure_fails_the_publish,
    a_connection_that_died_is_replaced,
    after_a_restart_each_dead_connection_fails_once_at_most,
    a_mark_after_a_restart_is_done,
    a_mark_that_meets_dead_connections_is_done,
    statements_that_the_server_forgot_are_prepared_again,
    a_table_that_changes_under_prepared_statements_is_recorded_in_again,
    a_session_that_may_only_read_fails_the_publish_and_says_why,
    a_role_that_may_only_select_fetches_and_is_loud,
    processed_at_is_the_databases_clock_in_utc,
    the_shipped_tables_are_made_by_instances_that_start_together,
}

const LOCK_WAIT: Duration = Duration::from_millis(400);

/// What a driver under test does: it runs the statements of these records.
trait Tested:
    Driver
    + Statements<StandRecord>
    + Statements<Shipped>
    + Statements<Deleted>
    + Statements<StandRecord<String>>
    + Statements<Own<SWALLOWS>>
    + Statements<Own<COMMITS>>
    + Statements<Own<ROLLS_BACK>>
    + Statements<Own<SERIALIZES>>
    + Statements<Own<LOCKS_FIRST>>
{
}

impl<D> Tested for D where
    D: Driver
        + Statements<StandRecord>
        + Statements<Shipped>
        + Statements<Deleted>
        + Statements<StandRecord<String>>
        + Statements<Own<SWALLOWS>>
        + Statements<Own<COMMITS>>
        + Statements<Own<ROLLS_BACK>>
        + Statements<Own<SERIALIZES>>
        + Statements<Own<LOCKS_FIRST>>
{
}

/// A service of the cases on a pool.
fn service_on<D: Tested>(pool: &D::Pool) -> Builder<PostgresStand<D>> {
    let outbox = registry::<PostgresStand<D>>().lock_wait(LOCK_WAIT);
    outbox.set_pool(pool.clone()).unwrap();
    Service::with(outbox)
}

/// Publishes one payment as a record of `R`. Returns what was sent with it.
async fn publish_as<D: Tested + Statements<R>, R: Publish<D> + Mark<D>>(
    pool: &D::Pool,
) -> (Result<(), String>, usize) {
    let sink = Sink::accepting();
    let outbox = Outbox::<D, _>::new(pool.clone()).register::<R>("payments");
    let publisher = outbox.wrap(sink.clone());
    let result = publish(&publisher, "payments", b"1", HeaderMap::new()).await;
    (result, sink.sent().len())
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

/// `left` are the payloads that the table then has.
async fn assert_write_lock_held<D: Tested>(
    stand: &PostgresStand<D>,
    sql: &'static str,
    left: &[&[u8]],
) {
    let pool = stand.pool(2).await;
    let error = publish_within::<D>(&pool, sql).await.unwrap_err();
    assert!(error.contains("write lock"), "{error}");
    assert!(
        error.contains("first statement"),
        "it says what to do: {error}"
    );
    // The connections that waited are clean, and nothing is written later.
    let service = service_on::<D>(&pool).leaving_open().without_republish();
    let service = service.start().await;
    service.publish("payments", b"2").await.unwrap();
    service.stop().await;
    let rows = stand.rows().await.into_iter();
    let payloads: Vec<_> = rows.filter_map(|row| row.payload).collect();
    assert_eq!(payloads, left);
}

async fn a_handler_that_locked_the_table_gets_write_lock_held<D: Tested>() {
    let stand = PostgresStand::<D>::open().await;
    assert_write_lock_held(&stand, "LOCK TABLE outbox", &[b"2"]).await;
}

const UNIQUE: &str = "CREATE UNIQUE INDEX ON outbox (name, payload)";
const SAME_KEY: &str = "INSERT INTO outbox (name, payload) VALUES ('payments', '1')";

async fn a_handler_that_wrote_the_same_key_gets_write_lock_held<D: Tested>() {
    let stand = PostgresStand::<D>::open().await;
    stand.execute(UNIQUE).await;
    assert_write_lock_held(&stand, SAME_KEY, &[b"1", b"2"]).await;
}

async fn a_key_that_its_transaction_gives_up_is_recorded<D: Tested>() {
    let stand = PostgresStand::<D>::open().await;
    stand.execute(UNIQUE).await;
    let outbox = registry::<PostgresStand<D>>().lock_wait(Duration::from_secs(10));
    outbox.set_pool(stand.pool(1).await).unwrap();
    let mut holder = stand.connect().await;
    run(&mut holder, "BEGIN").await;
    run(&mut holder, SAME_KEY).await;
    let sink = Sink::accepting();
    let publisher = outbox.wrap(sink.clone());
    let publishing = publish(&publisher, "payments", b"1", HeaderMap::new());
    let giving_up = async {
        waits(&stand).await;
        run(&mut holder, "ROLLBACK").await;
    };
    let (result, ()) = tokio::join!(publishing, giving_up);
    result.unwrap();
    assert_eq!(stand.rows().await.len(), 1);
    assert_eq!(sink.payloads(), [b"1"]);
}

async fn run(conn: &mut PgConnection, sql: &'static str) {
    ::sqlx::raw_sql(sql).execute(conn).await.unwrap();
}

/// Returns as soon as somebody waits for a lock in the stand's database.
async fn waits<D>(stand: &PostgresStand<D>) {
    let waits = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let mut conn = stand.connect().await;
    loop {
        let waiting: i64 = ::sqlx::query_scalar(waits)
            .fetch_one(&mut conn)
            .await
            .unwrap();
        if waiting > 0 {
            break;
        }
    }
}

/// A record whose insert is the service's own.
struct Own<const HOW: u8>;

/// It goes on after a statement that failed.
const SWALLOWS: u8 = 0;
/// It commits.
const COMMITS: u8 = 1;
/// It rolls back.
const ROLLS_BACK: u8 = 2;
/// It asks for another isolation level, and reads first.
const SERIALIZES: u8 = 3;
/// It takes another lock first.
const LOCKS_FIRST: u8 = 4;

impl<const HOW: u8> Record for Own<HOW> {
    type Id = i64;
    const SPEC: OutboxSpec = StandRecord::<i64>::SPEC;
}

impl<D: Statements<Self>, const HOW: u8> Mark<D> for Own<HOW> {}

impl<D: Driver + Statements<Self>, const HOW: u8> Publish<D> for Own<HOW> {
    async fn publish(conn: &mut D::Connection, msg: &OutgoingMessage<'_>) -> Result<i64, D::Error> {
        let (before, after) = match HOW {
            SWALLOWS => ("", "SELECT * FROM missing"),
            COMMITS => ("", "COMMIT"),
            ROLLS_BACK => ("", "ROLLBACK"),
            SERIALIZES => (
                "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT sum(id) FROM outbox",
                "",
            ),
            _ => ("LOCK TABLE orders", ""),
        };
        D::try_execute(conn, before).await?;
        let id = <D as Statements<Self>>::insert(conn, msg).await;
        D::try_execute(conn, after).await.ok();
        id
    }
}

/// The publish holds what the holder waits for, while it waits for what the holder has.
async fn a_deadlock_is_write_lock_held<D: Tested>() {
    let stand = PostgresStand::<D>::open().await;
    stand.execute("CREATE TABLE orders (id int)").await;
    let opening = stand.opening().setup("SET deadlock_timeout = '500ms'");
    let pool = D::open(opening).await;
    let mut holder = stand.connect().await;
    let hold = "SET deadlock_timeout = '1min'; BEGIN; LOCK TABLE outbox";
    run(&mut holder, hold).await;
    let outbox = Outbox::<D, _>::new(pool)
        .lock_wait(Duration::from_secs(30))
        .register::<Own<LOCKS_FIRST>>("payments");
    let publisher = outbox.wrap(Sink::accepting());
    let publishing = publish(&publisher, "payments", b"1", HeaderMap::new());
    let closing_the_circle = async {
        waits(&stand).await;
        run(&mut holder, "LOCK TABLE orders").await;
    };
    let (error, ()) = tokio::join!(publishing, closing_the_circle);
    let error = error.unwrap_err();
    assert!(
        error.contains("write lock") && error.contains("deadlock detected"),
        "{error}"
    );
}

async fn the_answer_of_the_database_comes_before_the_publish_gives_up<D: Tested>() {
    let stand = PostgresStand::<D>::open().await;
    let lock = stand.lock().await;
    let outbox = registry::<PostgresStand<D>>().lock_wait(LOCK_WAIT);
    let pool = stand.pool(1).await;
    outbox.set_pool(pool.clone()).unwrap();
    let before = backend_of::<D>(&stand, &pool).await;
    let publisher = outbox.wrap(Sink::accepting());
    let began = Instant::now();
    let error = publish(&publisher, "payments", b"1", HeaderMap::new()).await;
    let error = error.unwrap_err();
    assert!(error.contains("lock timeout"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5));
    <PostgresStand<D> as Stand>::unlock(lock).await;
    publish(&publisher, "payments", b"2", HeaderMap::new())
        .await
        .unwrap();
    let after = backend_of::<D>(&stand, &pool).await;
    assert_eq!(after, before, "the connection was kept");
}

/// The process of the pool's only connection.
async fn backend_of<D: Tested>(stand: &PostgresStand<D>, pool: &D::Pool) -> i32 {
    let mut held = D::acquire(pool).await.unwrap();
    D::execute(&mut held, "SET application_name = 'looked at'").await;
    let sql = "SELECT pid FROM pg_stat_activity
               WHERE application_name = 'looked at' AND datname = current_database()";
    let mut conn = stand.connect().await;
    ::sqlx::query_scalar(sql)
        .fetch_one(&mut conn)
        .await
        .unwrap()
}

async fn a_transaction_that_somebody_left_open_does_not_swallow_the_record<D: Tested>() {
    for left_open in [
        "BEGIN",
        "BEGIN; SELECT 1",
        "BEGIN; SELECT count(*) FROM outbox",
        "BEGIN; INSERT INTO outbox (name) VALUES ('of somebody')",
        "BEGIN; SAVEPOINT a",
        "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM outbox",
        "BEGIN READ ONLY; SELECT 1",
    ] {
        left_open_is_survived::<D>(left_open, Ok(())).await;
    }
    left_open_is_survived::<D>("BEGIN; SELECT 1 / 0", Err(())).await;
}

async fn left_open_is_survived<D: Tested>(left_open: &'static str, comes_to: Result<(), ()>) {
    let stand = PostgresStand::<D>::open().await;
    let pool = stand.pool(1).await;
    let mut held = D::acquire(&pool).await.unwrap();
    let left = D::try_execute(&mut held, left_open).await;
    assert_eq!(left.map_err(drop), comes_to);
    drop(held);
    let mut service = service_on::<D>(&pool).without_republish().start().await;
    service.publish("payments", b"1").await.unwrap();
    assert_eq!(service.next().await.payload, b"1");
    service.stop().await;
    let rows = stand.rows().await;
    assert_eq!(rows.len(), 1, "{left_open}: {rows:?}");
    assert!(!rows[0].open, "{left_open}");
}

async fn a_start_reads_what_an_old_snapshot_does_not_see<D: Tested>() {
    let stand = PostgresStand::<D>::open().await;
    let pool = stand.pool(1).await;
    let mut held = D::acquire(&pool).await.unwrap();
    <PostgresStand<D> as Stand>::begin_by_hand(&mut held).await;
    drop(held);
    stand.store("payments", Some(b"1"), None).await;
    let mut service = service_on::<D>(&pool).start().await;
    assert_eq!(service.next().await.payload, b"1");
    service.stop().await;
    assert_closed(&stand, 1).await;
}

async fn a_failure_that_the_services_own_insert_swallows_fails_the_publish<D: Tested>() {
    let stand = PostgresStand::<D>::open().await;
    let pool = stand.pool(1).await;
    let (published, sent) = publish_as::<D, Own<SWALLOWS>>(&pool).await;
    let error = published.unwrap_err();
    assert!(
        error.contains("was not saved") && error.contains("aborted"),
        "{error}"
    );
    assert_eq!(sent, 0);
    assert!(stand.rows().await.is_empty());
    publish_as::<D, StandRecord>(&pool).await.0.unwrap();
    assert_eq!(stand.rows().await.len(), 1);
}

/// Whoever ends the outbox's transaction takes the proof away that its record is committed.
async fn an_own_insert_that_ends_the_transaction_fails_the_publish<D: Tested>() {
    let stand = PostgresStand::<D>::open().await;
    let pool = stand.pool(1).await;
    let (rolled_back, sent) = publish_as::<D, Own<ROLLS_BACK>>(&pool).await;
    let error = rolled_back.unwrap_err();
    assert!(error.contains("transaction block"), "{error}");
    assert_eq!((sent, stand.rows().await.len()), (0, 0));
    let (committed, sent) = publish_as::<D, Own<COMMITS>>(&pool).await;
    let error = committed.unwrap_err();
    assert!(error.contains("transaction block"), "{error}");
    assert_eq!((sent, stand.rows().await.len()), (0, 1));
}

async fn a_serialization_failure_fails_the_publish<D: Tested>() {
    let stand = PostgresStand::<D>::open().await;
    let pool = stand.pool(1).await;
    let mut other = stand.connect().await;
    let meet = "CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql
                    AS 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END';
                CREATE TRIGGER meet AFTER INSERT ON outbox FOR EACH ROW
                    WHEN (NEW.name = 'payments') EXECUTE FUNCTION meet()";
    run(&mut other, meet).await;
    run(&mut other, "SELECT pg_advisory_lock(1)").await;
    let read = "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(id) FROM outbox;
                INSERT INTO outbox (name) VALUES ('of the other')";
    run(&mut other, read).await;
    let publishing = publish_as::<D, Own<SERIALIZES>>(&pool);
    let meeting = async {
        waits(&stand).await;
        run(&mut other, "COMMIT; SELECT pg_advisory_unlock(1)").await;
    };
    let ((published, sent), ()) = tokio::join!(publishing, meeting);
    let error = published.unwrap_err();
    assert!(error.contains("could not serialize"), "{error}");
    assert_eq!(sent, 0);
    let rows = stand.rows().await;
    assert_eq!(rows.len(), 1, "{rows:?}");
}

/// Ends the server's side of every connection of the pool.
async fn kill<D: Tested>(stand: &PostgresStand<D>) -> usize {
    let kill = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let mut conn = stand.connect().await;
    ::sqlx::query(kill)
        .fetch_all(&mut conn)
        .await
        .unwrap()
        .len()
}

async fn a_connection_that_died_is_replaced<D: Tested>() {
    let stand = PostgresStand::<D>::open().await;
    publishes_after::<D>(&stand, async { assert_eq!(kill(&stand).await, 4) }).await;
}

/// Publishes through a warm pool that met with a mishap: a clear failure at most for each dead
/// connection, and then no more.
async fn publishes_after<D: Tested>(stand: &PostgresStand<D>, mishap: impl Future<Output = ()>) {
    let pool = stand.pool(4).await;
    let service = service_on::<D>(&pool).leaving_open().start().await;
    let mut warm = Vec::new();
    for _ in 0..4 {
        warm.push(D::acquire(&pool).await.unwrap());
    }
    drop(warm);
    mishap.await;
    let mut failures = 0;
    for _ in 0..8 {
        if let Err(error) = service.publish("payments", b"1").await {
            assert!(error.contains("was not sent"), "{error}");
            failures += 1;
        }
    }
    assert!(failures <= 4, "{failures}");
    service.publish("payments", b"1").await.unwrap();
    service.stop().await;
    assert_eq!(stand.rows().await.len(), 9 - failures);
}

async fn a_mark_that_meets_dead_connections_is_done<D: Tested>() {
    let stand = Arc::new(PostgresStand::<D>::open().await);
    let logs = Logs::capture();
    let killing = Arc::clone(&stand);
    marks_after::<D>(&stand, 3, move || {
        let stand = Arc::clone(&killing);
        Box::pin(async move { assert_ne!(kill(&stand).await, 0) })
    })
    .await;
    assert_eq!(logs.complaints(), [""; 0]);
}

type Mishap = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Deliveries whose handler meets with a mishap before it acknowledges, and marks that are done.
async fn marks_after<D: Tested>(
    stand: &PostgresStand<D>,
    deliveries: usize,
    mishap: impl Fn() -> Mishap + Send + Sync + 'static,
) {
    let mut service = service_on::<D>(&stand.pool(4).await)
        .handler(move |_, _| {
            let mishap = mishap();
            Box::pin(async move {
                mishap.await;
                HandlerOutcome::ack()
            })
        })
        .start()
        .await;
    for _ in 0..deliveries {
        service.publish("payments", b"1").await.unwrap();
        service.next().await;
        service.idle().await;
    }
    service.stop().await;
    assert_closed(stand, deliveries).await;
}

/// Restarts the server as after a crash, where the environment says how.
async fn restart(ctl: String) {
    let restart = tokio::task::spawn_blocking(|| Command::new("sh").arg("-c").arg(ctl).status());
    assert!(restart.await.unwrap().unwrap().success());
}

/// How to restart the server.
fn ctl() -> Option<String> {
    let ctl = std::env::var("OUTBOX_POSTGRES_CTL").ok();
    if ctl.is_none() {
        skip("OUTBOX_POSTGRES_CTL is not set: name a command that restarts the server");
    }
    ctl
}

async fn after_a_restart_each_dead_connection_fails_once_at_most<D: Tested>() {
    let Some(ctl) = ctl() else { return };
    let stand = PostgresStand::<D>::open().await;
    publishes_after::<D>(&stand, restart(ctl)).await;
}

async fn a_mark_after_a_restart_is_done<D: Tested>() {
    let Some(ctl) = ctl() else { return };
    let stand = PostgresStand::<D>::open().await;
    marks_after::<D>(&stand, 1, move || Box::pin(restart(ctl.clone()))).await;
}

async fn statements_that_the_server_forgot_are_prepared_again<D: Tested>() {
    let stand = PostgresStand::<D>::open().await;
    let pool = stand.pool(1).await;
    let mut service = service_on::<D>(&pool).start().await;
    for forget in ["DEALLOCATE ALL", "DISCARD ALL"] {
        service.publish("payments", b"1").await.unwrap();
        service.next().await;
        service.idle().await;
        let mut held = D::acquire(&pool).await.unwrap();
        D::execute(&mut held, forget).await;
        drop(held);
        let failed = service.publish("payments", b"2").await.is_err();
        if !failed {
            service.next().await;
        }
        service.publish("payments", b"3").await.unwrap();
        assert_eq!(
            service.next().await.payload,
            b"3",
            "one clear failure at most"
        );
        service.idle().await;
    }
    service.stop().await;
    assert!(stand.rows().await.iter().all(|row| !row.open));
}

async fn a_table_that_changes_under_prepared_statements_is_recorded_in_again<D: Tested>() {
    let stand = PostgresStand::<D, String>::open().await;
    let pool = stand.pool(1).await;
    for change in [
        "ALTER TABLE outbox ADD tenant text",
        "ALTER TABLE outbox ALTER name TYPE varchar(40)",
        "ALTER TABLE outbox ALTER id TYPE varchar(40)",
        "ALTER TABLE outbox ALTER headers TYPE jsonb USING headers::jsonb",
    ] {
        publish_as::<D, StandRecord<String>>(&pool).await.0.unwrap();
        stand.execute(change).await;
        publish_as::<D, StandRecord<String>>(&pool).await.0.ok();
        publish_as::<D, StandRecord<String>>(&pool).await.0.unwrap();
    }
}

async fn a_session_that_may_only_read_fails_the_publish_and_says_why<D: Tested>() {
    let stand = PostgresStand::<D>::open().await;
    let read_only = stand
        .opening()
        .setup("SET default_transaction_read_only = on");
    assert_reads_only(&stand, &D::open(read_only).await, "read-only transaction").await;
}

async fn a_role_that_may_only_select_fetches_and_is_loud<D: Tested>() {
    let stand = PostgresStand::<D>::open().await;
    let selects = stand.opening().setup("SET ROLE pg_read_all_data");
    assert_reads_only(&stand, &D::open(selects).await, "permission denied").await;
}

/// The record can be read but not marked: the handler runs once, loudly.
async fn assert_reads_only<D: Tested>(stand: &PostgresStand<D>, pool: &D::Pool, why: &str) {
    let id = stand.store("payments", Some(b"1"), None).await;
    let logs = Logs::capture();
    let mut service = service_on::<D>(pool).start().await;
    let error = service.publish("payments", b"2").await.unwrap_err();
    assert!(error.contains("not sent") && error.contains(why), "{error}");
    assert_eq!(service.next().await.id(), Some(id.as_str()));
    assert!(service.stop().await.is_empty(), "no hot loop");
    let rows = stand.rows().await;
    assert!(rows.len() == 1 && rows[0].open, "{rows:?}");
    let loud = logs.lines(Level::ERROR, &["could not be marked", why, &id]);
    assert_eq!(loud.len(), 1);
}

async fn processed_at_is_the_databases_clock_in_utc<D: Tested>() {
    let stand = PostgresStand::<D>::open().await;
    for zone in ["Asia/Tokyo", "America/Caracas"] {
        let zoned = stand.opening().setup(format!("SET TIME ZONE '{zone}'"));
        let mut service = service_on::<D>(&D::open(zoned).await).start().await;
        service.publish("payments", b"1").await.unwrap();
        service.next().await;
        service.stop().await;
    }
    let rows = ::sqlx::query(
        "SELECT processed_at, processed_at <= now() AND processed_at > now() - interval '1 minute'
         FROM outbox",
    )
    .fetch_all(&mut stand.connect().await)
    .await
    .unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let at: DateTime<Utc> = row.get(0);
        assert!((Utc::now() - at).num_seconds().abs() < 60, "{at}");
        assert!(
            row.get::<bool, _>(1),
            "it compares with the database's own expressions"
        );
    }
}

#[derive(outbox_postgres::Outbox, ::sqlx::FromRow)]
#[outbox(table = "outbox", publish)]
struct Shipped {
    #[field(id)]
    id: i64,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
    #[field(headers)]
    headers: Option<String>,
    #[field(processed_at)]
    processed_at: Option<DateTime<Utc>>,
}

#[derive(outbox_postgres::Outbox)]
#[outbox(table = "outbox", publish)]
struct Deleted {
    #[field(id)]
    id: i64,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
    #[field(headers)]
    headers: Option<String>,
}

async fn the_shipped_tables_are_made_by_instances_that_start_together<D: Tested>() {
    for schema in [SCHEMA, SCHEMA_DELETE] {
        let stand = PostgresStand::<D>::with("").await;
        let pool = stand.pool(4).await;
        let start = async || {
            let mut conn = D::acquire(&pool).await.unwrap();
            D::execute(&mut conn, schema).await;
        };
        tokio::join!(start(), start(), start(), start());
        if schema == SCHEMA_DELETE {
            publish_as::<D, Deleted>(&pool).await.0.unwrap();
            continue;
        }
        let tracking = outbox! { driver: D, "payments" => Shipped, pool: pool };
        let publisher = tracking.wrap(Sink::accepting());
        publish(&publisher, "payments", b"1", HeaderMap::new())
            .await
            .unwrap();
        let row = "SELECT id, name, payload, headers::text, processed_at FROM outbox";
        let row = ::sqlx::query_as(row);
        let row: Shipped = row.fetch_one(&mut stand.connect().await).await.unwrap();
        assert_eq!((row.id, row.name.as_str()), (1, "payments"));
        assert_eq!(row.payload, b"1");
        assert_eq!(row.headers.as_deref(), Some("{}"));
        assert_eq!(row.processed_at, None);
    }
}
