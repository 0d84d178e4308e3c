//! What is true of the driver `Rusqlite` alone: the service's busy handling stays its own, and what
//! runs on a blocking thread outlives the future that waits for it.
#![cfg(feature = "rusqlite")]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

mod stand;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use outbox_core::conformance::{Stand, StandRecord, on, publish};
use outbox_sqlite::outbox::{Backend, Mark, Outbox, OutboxSpec, Publish, Record, Statements};
use outbox_sqlite::{Rusqlite, RusqliteConnection, RusqliteError};
use rusqlite::Connection;
use ruststream::memory::MemoryBroker;
use ruststream::{HeaderMap, OutgoingMessage};
use stand::{Driver, Opening, SqliteStand};
use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

type RusqliteStand = SqliteStand<Rusqlite>;

const LOCK_WAIT: Duration = Duration::from_millis(300);

async fn interact<T: Send + 'static>(
    conn: &RusqliteConnection,
    run: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
) -> T {
    conn.interact(|conn| run(conn)).await.unwrap().unwrap()
}

async fn busy_timeout(conn: &RusqliteConnection) -> u64 {
    let read = |conn: &Connection| {
        conn.pragma_query_value(None, "busy_timeout", |row| row.get::<_, u32>(0))
    };
    interact(conn, read).await.into()
}

#[tokio::test]
async fn the_busy_timeout_of_the_service_stays_its_own() {
    let stand = RusqliteStand::open().await;
    let pool = stand.pool(1).await;
    let mut conn = Rusqlite::acquire(&pool).await.unwrap();
    // The service changes it between two transactions, and a lock is waited for with each.
    for own in [0, 100, 60_000, 5_000] {
        interact(&conn, move |conn| {
            conn.busy_timeout(Duration::from_millis(own))
        })
        .await;
        Rusqlite::begin(&mut conn, LOCK_WAIT).await.unwrap();
        assert_eq!(busy_timeout(&conn).await, own);
        Rusqlite::rollback(&mut conn).await.unwrap();
        let lock = stand.lock().await;
        let began = Instant::now();
        let error = Rusqlite::begin(&mut conn, LOCK_WAIT).await.unwrap_err();
        assert!(Rusqlite::write_lock_held(&error), "{own}: {error}");
        assert!(began.elapsed() < Duration::from_secs(20), "{own}");
        assert_eq!(busy_timeout(&conn).await, own);
        RusqliteStand::unlock(lock).await;
    }
}

static ASKED: AtomicUsize = AtomicUsize::new(0);

#[tokio::test]
async fn a_busy_handler_of_the_service_is_asked_and_stays() {
    let stand = RusqliteStand::open().await;
    let pool = stand.pool(1).await;
    let mut conn = Rusqlite::acquire(&pool).await.unwrap();
    interact(&conn, |conn| {
        conn.busy_handler(Some(|_| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            false
        }))
    })
    .await;
    let _lock = stand.lock().await;
    for asked in 1..=2 {
        let error = Rusqlite::begin(&mut conn, LOCK_WAIT).await.unwrap_err();
        assert!(Rusqlite::write_lock_held(&error), "{error}");
        assert_eq!(ASKED.load(Ordering::Relaxed), asked);
    }
}

/// A thread that blocks for as long as the service's busy timeout would keep its runtime from
/// going away.
#[test]
fn a_wait_that_was_given_up_leaves_no_thread_behind() {
    let runtime = Runtime::new().unwrap();
    let (stand, lock) = runtime.block_on(async {
        let stand = RusqliteStand::open().await;
        let endless = stand.opening().setup("PRAGMA busy_timeout = 360000000");
        let pool = Rusqlite::open(endless).await;
        let mut conn = Rusqlite::acquire(&pool).await.unwrap();
        let lock = stand.lock().await;
        let begin = timeout(LOCK_WAIT / 2, Rusqlite::begin(&mut conn, LOCK_WAIT));
        assert!(begin.await.is_err(), "it waits");
        Rusqlite::discard(conn);
        (stand, lock)
    });
    let (began, patience) = (Instant::now(), Duration::from_secs(20));
    runtime.shutdown_timeout(patience);
    assert!(began.elapsed() < patience, "it waits for its threads");
    drop((stand, lock));
}

/// The only thread is somebody else's when it begins, and when it is dropped.
#[test]
fn a_statement_that_nobody_waits_for_any_more_is_not_run() {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1);
    runtime.build().unwrap().block_on(async {
        let stand = RusqliteStand::open().await;
        let pool = stand.pool(1).await;
        let mut conn = Rusqlite::acquire(&pool).await.unwrap();
        let (free, freed) = channel::<()>();
        let somebody = spawn_blocking(move || freed.recv());
        let begin = timeout(Duration::ZERO, Rusqlite::begin(&mut conn, LOCK_WAIT));
        assert!(begin.await.is_err(), "it waits for the thread");
        free.send(()).unwrap();
        somebody.await.unwrap().unwrap();
        let idle = interact(&conn, |conn| Ok(conn.is_autocommit())).await;
        assert!(idle, "no transaction was begun");
    });
}

/// Each discarded connection is the file's last one, and its close meets the open of the next.
#[tokio::test]
async fn a_discarded_connection_and_the_next_one_do_not_deadlock() {
    let folder = tempfile::tempdir().unwrap();
    let opening = Opening {
        url: folder.path().join("test.db").display().to_string(),
        size: 1,
        setup: "PRAGMA journal_mode = WAL; PRAGMA user_version = 1".to_owned(),
    };
    let pool = Rusqlite::open(opening).await;
    for _ in 0..300 {
        let acquired = timeout(Duration::from_secs(20), Rusqlite::acquire(&pool));
        let acquired = acquired.await.expect("no deadlock");
        Rusqlite::discard(acquired.unwrap());
    }
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
    on(async {
        let stand = RusqliteStand::open().await;
        let pool = stand.pool(1).await;
        let outbox = Outbox::<Rusqlite, _>::new(pool.clone())
            .register::<Panicking>("panicking")
            .register::<StandRecord>("payments");
        let publisher = outbox.wrap(MemoryBroker::new().publisher());
        let panicked = publish(&publisher, "panicking", b"1", HeaderMap::new()).await;
        let error = panicked.unwrap_err();
        assert!(error.contains("not sent"), "{error}");
        assert!(error.contains("no more of 1"), "{error}");
        let next = publish(&publisher, "payments", b"2", HeaderMap::new()).await;
        next.unwrap();
        let rows = stand.rows().await;
        assert_eq!(rows.len(), 1, "the first one was rolled back");
        assert_eq!(rows[0].name, "payments");
        drop(Rusqlite::acquire(&pool).await.unwrap());
    })
    .await;
}
