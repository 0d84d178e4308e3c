//! What is true of the driver `Rusqlite` alone: the service's busy handling stays its own, and its
//! closures block threads of their own.
#![cfg(feature = "rusqlite")]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

mod stand;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use deadpool_sqlite::Pool;
use outbox_core::conformance::{Service, Stand, StandRecord, publish, registry};
use outbox_sqlite::outbox::{Backend, Mark, Outbox, OutboxSpec, Publish, Record, Statements};
use outbox_sqlite::{Rusqlite, RusqliteConnection, RusqliteError};
use rusqlite::Connection;
use ruststream::memory::MemoryBroker;
use ruststream::{HeaderMap, OutgoingMessage};
use stand::{Driver, SqliteStand};
use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

type RusqliteStand = SqliteStand<Rusqlite>;

const LOCK_WAIT: Duration = Duration::from_millis(300);

async fn on_connection<T: Send + 'static>(
    pool: &Pool,
    run: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
) -> T {
    let conn = pool.get().await.unwrap();
    conn.interact(run).await.unwrap().unwrap()
}

async fn busy_timeout(pool: &Pool) -> u32 {
    on_connection(pool, |conn| {
        conn.pragma_query_value(None, "busy_timeout", |row| row.get(0))
    })
    .await
}

#[tokio::test]
async fn the_busy_timeout_of_the_service_stays_its_own() {
    let stand = RusqliteStand::open().await;
    let pool = stand.pool(1).await;
    let outbox = registry::<RusqliteStand>().lock_wait(LOCK_WAIT);
    outbox.set_pool(pool.clone()).unwrap();
    let service = Service::<RusqliteStand>::with(outbox);
    let service = service.leaving_open().start().await;
    // The service changes it between two publishes, and a lock is waited for with each.
    for timeout in [0, 100, 60_000, 5_000] {
        let set = Duration::from_millis(timeout.into());
        on_connection(&pool, move |conn| conn.busy_timeout(set)).await;
        service.publish("payments", b"1").await.unwrap();
        assert_eq!(busy_timeout(&pool).await, timeout);
        let lock = stand.lock().await;
        let error = service.publish("payments", b"2").await.unwrap_err();
        assert!(error.contains("write lock"), "{timeout}: {error}");
        RusqliteStand::unlock(lock).await;
        let kept = busy_timeout(&pool).await;
        // A connection that was still waiting was closed.
        assert!(kept == timeout || kept == 5_000, "{timeout}: {kept}");
    }
    service.stop().await;
    assert_eq!(stand.rows().await.len(), 4);
}

static ASKED: AtomicUsize = AtomicUsize::new(0);

#[tokio::test]
async fn a_busy_handler_of_the_service_is_asked_and_stays() {
    let stand = RusqliteStand::open().await;
    let pool = stand.pool(1).await;
    on_connection(&pool, |conn| {
        conn.busy_handler(Some(|_| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            false
        }))
    })
    .await;
    let outbox = registry::<RusqliteStand>().lock_wait(LOCK_WAIT);
    outbox.set_pool(pool.clone()).unwrap();
    let publisher = outbox.wrap(MemoryBroker::new().publisher());
    for _ in 0..2 {
        let before = ASKED.load(Ordering::Relaxed);
        let lock = stand.lock().await;
        publish(&publisher, "payments", b"1", HeaderMap::new())
            .await
            .unwrap_err();
        RusqliteStand::unlock(lock).await;
        assert!(ASKED.load(Ordering::Relaxed) > before);
    }
}

/// A thread that blocks for as long as the service's busy timeout would keep its runtime from
/// going away.
#[test]
fn a_publish_that_gave_up_leaves_no_thread_behind() {
    let runtime = Runtime::new().unwrap();
    let (stand, lock) = runtime.block_on(async {
        let stand = RusqliteStand::open().await;
        let endless = stand.opening().setup("PRAGMA busy_timeout = 360000000");
        let outbox = registry::<RusqliteStand>().lock_wait(LOCK_WAIT);
        outbox.set_pool(Rusqlite::open(endless).await).unwrap();
        let publisher = outbox.wrap(MemoryBroker::new().publisher());
        let lock = stand.lock().await;
        let error = publish(&publisher, "payments", b"1", HeaderMap::new()).await;
        assert!(error.unwrap_err().contains("write lock"));
        (stand, lock)
    });
    let began = Instant::now();
    drop(runtime);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "it waits for its threads"
    );
    drop((stand, lock));
}

/// Somebody else has the only thread when it begins, and when it is dropped.
#[test]
fn a_statement_that_nobody_waits_for_any_more_is_not_run() {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let stand = RusqliteStand::open().await;
        let pool = stand.pool(1).await;
        let mut conn = Rusqlite::acquire(&pool).await.unwrap();
        let (free, freed) = channel::<()>();
        let busy = spawn_blocking(move || freed.recv());
        let begin = timeout(Duration::ZERO, Rusqlite::begin(&mut conn, LOCK_WAIT));
        assert!(begin.await.is_err(), "it waits for the thread");
        free.send(()).unwrap();
        busy.await.unwrap().unwrap();
        let idle = conn.interact(|conn| conn.is_autocommit()).await.unwrap();
        assert!(idle, "no transaction was begun");
    });
}

/// A service's own insert that panics after it inserted.
struct Panicking;

impl Record for Panicking {
    type Id = i64;
    const SPEC: OutboxSpec = StandRecord::<i64>::SPEC;
}

impl<D: Statements<Self>> Mark<D> for Panicking {}

impl Publish<Rusqlite> for Panicking {
    async fn publish(
        conn: &mut RusqliteConnection,
        msg: &OutgoingMessage<'_>,
    ) -> Result<i64, RusqliteError> {
        let id = <Rusqlite as Statements<Self>>::insert(conn, msg).await?;
        conn.interact(move |_| panic!("no more of {id}")).await?
    }
}

#[tokio::test]
async fn a_panic_in_the_services_own_insert_is_an_error_and_rolls_back() {
    let stand = RusqliteStand::open().await;
    let pool = stand.pool(1).await;
    let outbox = Outbox::<Rusqlite, _>::new(pool.clone())
        .register::<Panicking>("panicking")
        .register::<StandRecord>("payments");
    let publisher = outbox.wrap(MemoryBroker::new().publisher());
    let error = publish(&publisher, "panicking", b"1", HeaderMap::new())
        .await
        .unwrap_err();
    assert!(
        error.contains("not sent") && error.contains("no more of 1"),
        "{error}"
    );
    publish(&publisher, "payments", b"2", HeaderMap::new())
        .await
        .unwrap();
    assert_eq!(stand.rows().await.len(), 1, "the first one was rolled back");
    assert_eq!(pool.status().size, 1);
    drop(Rusqlite::acquire(&pool).await.unwrap());
}

async fn zz<D: Driver>() {
    let folder = tempfile::tempdir().unwrap();
    let opening = stand::Opening {
        url: format!("file:{}", folder.path().join("x.db").display()),
        size: 1,
        setup:
            "PRAGMA busy_timeout = 60000; PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS a (a); INSERT INTO a VALUES (1)"
                .into(),
    };
    std::fs::write(folder.path().join("x.db"), b"").unwrap();
    let pool = D::open(opening).await;
    for i in 0..3_000 {
        let conn = D::acquire(&pool).await.unwrap();
        D::discard(conn);
        if i % 50 == 0 {
            println!("{i}");
        }
    }
}

#[tokio::test]
async fn zz_rusqlite() {
    zz::<Rusqlite>().await;
}

#[tokio::test]
async fn zz_sqlx() {
    zz::<outbox_sqlite::Sqlite>().await;
}
