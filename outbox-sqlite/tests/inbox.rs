//! A transaction that is open around a handler: of the inbox of the peer, `ruststream-sqlx`, or of
//! a layer of the service's own.
#![cfg(any(feature = "rusqlite", feature = "sqlx"))]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

mod orders;
mod stand;

use std::error::Error;
use std::time::Duration;

use ::sqlx::sqlite::SqlitePool;
use orders::{Ours, Service, TABLES, Tested, assert_done, enqueue, run, through_inbox};
use outbox_core::conformance::shop::{PATIENCE, Shop, Step, next, stop};
use outbox_core::conformance::{Logs, Stand, StandRecord, assert_closed, publish};
use outbox_sqlite::outbox::{Outbox, OutboxError};
use ruststream::HeaderMap;
use ruststream::memory::prelude::*;
use ruststream::runtime::{BlanketLayer, Handler, Stack};
use stand::SqliteStand;
use tracing::Level;

macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        #[cfg(feature = "sqlx")]
        mod sqlx {
            cases!(outbox_sqlite::Sqlite; $($case),*);
        }

        #[cfg(feature = "rusqlite")]
        mod rusqlite {
            cases!(outbox_sqlite::Rusqlite; $($case),*);
        }
    };
    ($driver:ty; $($case:ident),*) => {
        $(
            #[tokio::test]
            async fn $case() {
                outbox_core::conformance::on(crate::$case::<$driver>()).await;
            }
        )*
    };
}

cases! {
    a_publish_before_the_first_write_is_recorded_and_stays_when_the_delivery_is_retried,
    a_publish_after_the_first_write_is_write_lock_held_and_the_transaction_goes_on,
    behind_a_read_a_publish_is_recorded_and_the_transaction_cannot_write,
    a_reply_behind_a_write_is_not_sent_and_its_delivery_comes_back,
    an_inbox_is_wrapped_as_any_broker,
    a_transactional_delivery_that_wrote_is_marked_once_it_is_settled,
    a_transaction_of_a_layer_inside_is_over_before_the_mark,
    a_mark_inside_the_transaction_of_a_layer_is_written_behind_it,
}

const LOCK_WAIT: Duration = Duration::from_secs(1);

/// A database with the tables of the inbox, and a registry whose connections would wait for a lock
/// without end.
async fn database<D: Tested>(lock_wait: Duration) -> (SqliteStand<D>, Ours<D>) {
    let stand = SqliteStand::<D>::open().await;
    stand.execute(TABLES).await;
    let endless = stand.opening().setup("PRAGMA busy_timeout = 360000000");
    let ours = Outbox::new(D::open(endless).await).lock_wait(lock_wait);
    (stand, ours.register::<StandRecord>("payments"))
}

/// The outbox's own error in what a publish failed with.
fn outbox_error(step: &Step) -> &OutboxError {
    let mut error: &(dyn Error + 'static) = &**step.as_ref().unwrap_err();
    loop {
        match error.downcast_ref() {
            Some(error) => return error,
            None => error = error.source().unwrap(),
        }
    }
}

async fn a_publish_before_the_first_write_is_recorded_and_stays_when_the_delivery_is_retried<D>()
where
    D: Tested,
{
    let (stand, ours) = database::<D>(PATIENCE).await;
    let mut service = Service::open(&stand, &ours).await;
    let script =
        "publish,INSERT INTO orders VALUES (1),retry;publish,INSERT INTO orders VALUES (2)";
    enqueue(&stand, "orders", script).await;
    for attempt in [b"1", b"2"] {
        let steps = service.steps::<2>().await;
        assert!(steps.iter().all(Result::is_ok), "{steps:?}");
        service.assert_shipped(attempt).await;
    }
    service.close().await;
    assert_done(&stand, &[2]).await;
    assert_closed(&stand, 2).await;
}

async fn a_publish_after_the_first_write_is_write_lock_held_and_the_transaction_goes_on<D>()
where
    D: Tested,
{
    let (stand, ours) = database::<D>(LOCK_WAIT).await;
    let mut service = Service::open(&stand, &ours).await;
    let script = "INSERT INTO orders VALUES (1),publish,INSERT INTO orders VALUES (2)";
    enqueue(&stand, "orders", script).await;
    let steps = service.steps::<3>().await;
    assert!(steps[0].is_ok() && steps[2].is_ok(), "{steps:?}");
    let OutboxError::WriteLockHeld { name, waited, .. } = outbox_error(&steps[1]) else {
        panic!("{steps:?}");
    };
    assert_eq!((name.as_str(), *waited), ("payments", LOCK_WAIT));
    // The next message is the first one that is sent, and the first one that is recorded.
    let publisher = ours.lock_wait(PATIENCE).wrap(service.sender.clone());
    let sent = publish(&publisher, "payments", b"after", HeaderMap::new()).await;
    sent.unwrap();
    service.assert_shipped(b"after").await;
    service.close().await;
    assert_done(&stand, &[1, 2]).await;
    assert_closed(&stand, 1).await;
}

/// What the transaction read is older than the record: SQLite refuses each write of it from then
/// on, the inbox's acknowledgement too.
async fn behind_a_read_a_publish_is_recorded_and_the_transaction_cannot_write<D: Tested>() {
    let (stand, ours) = database::<D>(PATIENCE).await;
    let mut service = Service::open(&stand, &ours).await;
    let script = "SELECT * FROM orders,publish,INSERT INTO orders VALUES (1),retry;\
                  SELECT * FROM orders,publish;publish,INSERT INTO orders VALUES (3)";
    enqueue(&stand, "orders", script).await;
    let [read, published, written] = service.steps().await;
    assert!(read.is_ok() && published.is_ok());
    let stale = written.unwrap_err().to_string();
    assert!(stale.contains("database is locked"), "{stale}");
    let steps = service.steps::<4>().await;
    assert!(steps.iter().all(Result::is_ok), "{steps:?}");
    for attempt in [b"1", b"2", b"3"] {
        service.assert_shipped(attempt).await;
    }
    service.close().await;
    assert_done(&stand, &[3]).await;
    assert_closed(&stand, 3).await;
}

/// The reply is sent while the transaction is still open.
async fn a_reply_behind_a_write_is_not_sent_and_its_delivery_comes_back<D: Tested>() {
    let (stand, ours) = database::<D>(LOCK_WAIT).await;
    let mut service = Service::open(&stand, &ours).await;
    let script = "INSERT INTO orders VALUES (1);SELECT 1";
    enqueue(&stand, "questions", script).await;
    let steps = service.steps::<2>().await;
    assert!(steps.iter().all(Result::is_ok), "{steps:?}");
    service.assert_shipped(b"2").await;
    service.close().await;
    assert_done(&stand, &[]).await;
    assert_closed(&stand, 1).await;
}

async fn an_inbox_is_wrapped_as_any_broker<D: Tested>() {
    let (stand, ours) = database::<D>(PATIENCE).await;
    stand.store("payments", Some(b"left open"), None).await;
    let mut through = through_inbox(&stand, &ours, false).await;
    next(&mut through.steps).await.unwrap();
    let published = publish(&through.publisher, "payments", b"new", HeaderMap::new()).await;
    published.unwrap();
    next(&mut through.steps).await.unwrap();
    stop(through.app).await;
    assert_done(&stand, &[]).await;
    assert_closed(&stand, 2).await;
}

/// The inbox commits what its handler wrote after the layers have returned, so the mark waits for
/// it in vain, and the payment comes back at every start.
async fn a_transactional_delivery_that_wrote_is_marked_once_it_is_settled<D: Tested>() {
    let (stand, ours) = database::<D>(LOCK_WAIT).await;
    let write: &[u8] = b"INSERT INTO orders VALUES (1)";
    stand.store("payments", Some(write), None).await;
    let logs = Logs::capture();
    let mut through = through_inbox(&stand, &ours, true).await;
    next(&mut through.steps).await.unwrap();
    stop(through.app).await;
    assert_done(&stand, &[1]).await;
    assert_closed(&stand, 1).await;
    let said = logs.lines(Level::WARN, &["payments", "held lock", "settled"]);
    assert_eq!(logs.complaints(), said);
    assert_eq!(said.len(), 1, "{said:?}");
}

/// A layer of the service's own, whose transaction writes before its handler runs.
#[derive(Clone)]
struct InTransaction(SqlitePool);

struct Around<H>(SqlitePool, H);

impl BlanketLayer for InTransaction {
    fn apply<M, C, S, H>(&self, handler: H) -> impl Handler<M, C, S> + 'static
    where
        M: Send + Sync + 'static,
        C: Send + 'static,
        S: Send + Sync + 'static,
        H: Handler<M, C, S> + 'static,
    {
        Around(self.0.clone(), handler)
    }
}

impl<M, C, S, H> Handler<M, C, S> for Around<H>
where
    M: Send + Sync,
    C: Send,
    S: Send + Sync,
    H: Handler<M, C, S>,
{
    async fn handle(&self, msg: &M, ctx: &mut Context<'_, C, S>) -> HandlerOutcome {
        let mut tx = self.0.begin().await.unwrap();
        run(&mut tx, "INSERT INTO orders VALUES (1)").await.unwrap();
        let outcome = self.1.handle(msg, ctx).await;
        tx.commit().await.unwrap();
        outcome
    }
}

/// Ships two payments that were left open.
async fn ship_two<D: Tested>(
    stand: &SqliteStand<D>,
    ours: &Ours<D>,
    layers: impl BlanketLayer + Clone + 'static,
) {
    for payload in [b"1", b"2"] {
        stand.store("payments", Some(payload), None).await;
    }
    let broker = MemoryBroker::new();
    let mut shop = Shop::open(&broker, layers, ours.publish_layer()).await;
    ours.republish()(broker.publisher()).await.unwrap();
    for payload in [b"1", b"2"] {
        assert_eq!(shop.shipped().await.payload, payload);
    }
    shop.close().await;
    assert_done(stand, &[1, 1]).await;
}

async fn a_transaction_of_a_layer_inside_is_over_before_the_mark<D: Tested>() {
    let (stand, ours) = database::<D>(PATIENCE).await;
    let layers = Stack::new(InTransaction(stand.own_pool()), ours.layer());
    ship_two(&stand, &ours, layers).await;
    assert_closed(&stand, 2).await;
}

async fn a_mark_inside_the_transaction_of_a_layer_is_written_behind_it<D: Tested>() {
    let (stand, ours) = database::<D>(LOCK_WAIT).await;
    let layers = Stack::new(ours.layer(), InTransaction(stand.own_pool()));
    ship_two(&stand, &ours, layers).await;
    assert_closed(&stand, 2).await;
}
