//! A large backlog at the start, within bounded memory. A process of its own: it reads its own size.
#![cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

mod stand;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use outbox_core::conformance::{Stand, StandRecord, registry};
use outbox_postgres::outbox::{OUTBOX_ID_HEADER, Statements};
use ruststream::{Lend, OutgoingMessage, Publisher};
use stand::{Driver, PostgresStand, run};

const MIB: u64 = 1024 * 1024;

/// The resident size of this process: now, or at its highest.
fn resident(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

/// A broker whose receiver is elsewhere. Now and then it takes the pool's only connection, which is
/// in no transaction.
struct Elsewhere<D: Driver> {
    stand: Arc<PostgresStand<D>>,
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
            let open = "SELECT count(*) FROM pg_stat_activity
                        WHERE datname = current_database() AND pid <> pg_backend_pid()
                        AND backend_type = 'client backend' AND xact_start IS NOT NULL";
            let mut conn = self.stand.connect().await;
            let open: i64 = sqlx::query_scalar(open).fetch_one(&mut conn).await.unwrap();
            assert_eq!(open, 0, "no read is open while a message is sent");
        }
        Ok(())
    }
}

/// How much the process grows while it sends `rows` open records of `bytes` each.
async fn growth<D: Driver + Statements<StandRecord>>(rows: i64, bytes: usize) -> u64 {
    let stand = PostgresStand::<D>::open().await;
    stand
        .execute(&format!(
            "INSERT INTO outbox (name, payload)
             SELECT 'payments', convert_to(repeat('x', {bytes}), 'UTF8')
             FROM generate_series(1, {rows})"
        ))
        .await;
    let pool = stand.pool(1).await;
    let outbox = registry::<PostgresStand<D>>().republish_window(usize::MAX);
    outbox.set_pool(pool.clone()).unwrap();
    let sent = Arc::new(AtomicI64::new(0));
    let publisher = Elsewhere {
        stand: Arc::new(stand),
        pool,
        sent: Arc::clone(&sent),
    };
    let what = format!("{rows} rows of {bytes} bytes");
    let sending = async { outbox.republish()(publisher).await.unwrap() };
    let grown = growth_by::<D, ()>(&what, sending).await;
    assert_eq!(sent.load(Ordering::Relaxed), rows);
    grown
}

/// How much the process grows by some work.
async fn growth_by<D: Driver, T>(what: &str, work: impl Future<Output = T>) -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = resident("VmRSS");
    let done = work.await;
    let grown = resident("VmHWM").saturating_sub(before);
    drop(done);
    println!("{}: {what}: {} KiB more than before", D::NAME, grown / 1024);
    grown
}

/// How much the process grows while it holds `rows` open ids.
async fn growth_by_ids<D: Driver + Statements<StandRecord>>(rows: usize) -> u64 {
    let stand = PostgresStand::<D>::open().await;
    stand
        .execute(&format!(
            "INSERT INTO outbox (name) SELECT 'payments' FROM generate_series(1, {rows})"
        ))
        .await;
    let mut conn = D::acquire(&stand.pool(1).await).await.unwrap();
    let reading = async {
        let open = <D as Statements<StandRecord>>::open_ids(&mut conn, "payments").await;
        let open = open.unwrap();
        assert_eq!(open.ids.len(), rows);
        open
    };
    growth_by::<D, _>(&format!("{rows} ids"), reading).await
}

async fn sends_within_bounded_memory<D: Driver + Statements<StandRecord>>() {
    assert!(growth_by_ids::<D>(1_000_000).await < 32 * MIB);
    assert!(growth::<D>(200_000, 1_000).await < 64 * MIB);
    assert!(growth::<D>(20, 50_000_000).await < 256 * MIB);
}

/// One driver after the other: what they need would add up.
#[tokio::test]
async fn a_backlog_is_sent_in_order_within_bounded_memory() {
    #[cfg(feature = "sqlx")]
    run(sends_within_bounded_memory::<outbox_postgres::Postgres>()).await;
    #[cfg(feature = "tokio-postgres")]
    run(sends_within_bounded_memory::<outbox_postgres::TokioPostgres>()).await;
}
