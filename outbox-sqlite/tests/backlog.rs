//! A large backlog at the start, within bounded memory. A process of its own: it reads its own size.
#![cfg(any(feature = "rusqlite", feature = "sqlx"))]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

mod stand;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use outbox_core::conformance::{Stand, StandRecord, on, registry};
use outbox_sqlite::outbox::{OUTBOX_ID_HEADER, Statements};
use ruststream::{Lend, OutgoingMessage, Publisher};
use sqlx::Row as _;
use stand::{Driver, SqliteStand};

const MIB: u64 = 1024 * 1024;

/// The resident size of this process: now, or at its highest.
fn resident(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

/// A broker whose receiver is elsewhere. Now and then it takes the pool's only connection, and
/// empties the write-ahead log, which an open read would keep it from.
struct Elsewhere<D: Driver> {
    stand: Arc<SqliteStand<D>>,
    pool: D::Pool,
    sent: Arc<AtomicI64>,
}

impl<D: Driver> Publisher for Elsewhere<D> {
    type Payload = Lend;
    type Error = std::io::Error;
    type Options = ();

    async fn publish(
        &self,
        msg: OutgoingMessage<'_, &[u8]>,
        _options: Option<&()>,
    ) -> std::io::Result<()> {
        let id: i64 = msg
            .headers()
            .get_str(OUTBOX_ID_HEADER)
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(
            id,
            self.sent.fetch_add(1, Ordering::Relaxed) + 1,
            "in the order of ids"
        );
        if id % 5_000 == 1 {
            drop(D::acquire(&self.pool).await.unwrap());
            let mut conn = self.stand.connect().await;
            let checkpoint = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)");
            let busy: i64 = checkpoint.fetch_one(&mut conn).await.unwrap().get(0);
            assert_eq!(busy, 0, "no read is open while a message is sent");
        }
        Ok(())
    }
}

/// How much the process grows while it sends `rows` open records of `bytes` each.
async fn growth<D: Driver + Statements<StandRecord>>(rows: i64, bytes: usize) -> u64 {
    let stand = SqliteStand::<D>::open().await;
    stand
        .execute(&format!(
            "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT {rows})
             INSERT INTO outbox (name, payload) SELECT 'payments', zeroblob({bytes}) FROM n"
        ))
        .await;
    let pool = stand.pool(1).await;
    let outbox = registry::<SqliteStand<D>>().republish_window(usize::MAX);
    outbox.set_pool(pool.clone()).unwrap();
    let sent = Arc::new(AtomicI64::new(0));
    let publisher = Elsewhere {
        stand: Arc::new(stand),
        pool,
        sent: Arc::clone(&sent),
    };
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = resident("VmRSS");
    outbox.republish()(publisher).await.unwrap();
    assert_eq!(sent.load(Ordering::Relaxed), rows);
    let grown = resident("VmHWM").saturating_sub(before);
    println!(
        "{}: {rows} rows of {bytes} bytes: {} KiB more than before",
        D::NAME,
        grown / 1024
    );
    grown
}

async fn sends_within_bounded_memory<D: Driver + Statements<StandRecord>>() {
    assert!(growth::<D>(200_000, 1_000).await < 64 * MIB);
    assert!(growth::<D>(20, 50_000_000).await < 256 * MIB);
    assert!(growth::<D>(20_000, 10_000).await < 64 * MIB);
}

/// One driver after the other: what they need would add up.
#[tokio::test]
async fn a_backlog_is_sent_in_order_within_bounded_memory() {
    #[cfg(feature = "sqlx")]
    on(sends_within_bounded_memory::<outbox_sqlite::Sqlite>()).await;
    #[cfg(feature = "rusqlite")]
    on(sends_within_bounded_memory::<outbox_sqlite::Rusqlite>()).await;
}
