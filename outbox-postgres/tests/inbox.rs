//! A transaction that is open around a handler: of the inbox of the peer, `ruststream-sqlx`, or of
//! a layer of the service's own. Postgres locks rows, so none is in the outbox's way.
#![cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

mod orders;
mod stand;

use ::sqlx::postgres::PgPool;
use orders::{Ours, Service, TABLES, Tested, assert_done, enqueue, run, through_inbox};
use outbox_core::conformance::shop::{PATIENCE, Shop, next, stop};
use outbox_core::conformance::{Stand, StandRecord, assert_closed, publish};
use outbox_postgres::outbox::Outbox;
use ruststream::HeaderMap;
use ruststream::memory::prelude::*;
use ruststream::runtime::{BlanketLayer, Handler, Stack};
use stand::{PostgresStand, cases};

cases! {
    a_publish_after_the_first_write_is_recorded_and_stays_when_the_delivery_is_retried,
    a_reply_behind_a_write_is_sent,
    an_inbox_is_wrapped_as_any_broker,
    a_mark_does_not_wait_for_a_transactional_delivery_that_wrote,
    a_mark_does_not_wait_for_the_transaction_of_a_layer,
}

/// A database with the tables of the inbox, and a registry.
async fn database<D: Tested>() -> (PostgresStand<D>, Ours<D>) {
    let stand = PostgresStand::<D>::open().await;
    stand.execute(TABLES).await;
    let ours = Outbox::new(stand.pool(4).await).lock_wait(PATIENCE);
    (stand, ours.register::<StandRecord>("payments"))
}

async fn a_publish_after_the_first_write_is_recorded_and_stays_when_the_delivery_is_retried<D>()
where
    D: Tested,
{
    let (stand, ours) = database::<D>().await;
    let mut service = Service::open(&stand, &ours).await;
    let script = "INSERT INTO orders (attempt) VALUES (1),publish,retry;\
                  INSERT INTO orders (attempt) VALUES (2),publish";
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

async fn a_reply_behind_a_write_is_sent<D: Tested>() {
    let (stand, ours) = database::<D>().await;
    let mut service = Service::open(&stand, &ours).await;
    let script = "INSERT INTO orders (attempt) VALUES (1)";
    enqueue(&stand, "questions", script).await;
    let [written] = service.steps().await;
    written.unwrap();
    service.assert_shipped(b"1").await;
    service.close().await;
    assert_done(&stand, &[1]).await;
    assert_closed(&stand, 1).await;
}

async fn an_inbox_is_wrapped_as_any_broker<D: Tested>() {
    let (stand, ours) = database::<D>().await;
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

/// The inbox commits what its handler wrote after the layers have returned.
async fn a_mark_does_not_wait_for_a_transactional_delivery_that_wrote<D: Tested>() {
    let (stand, ours) = database::<D>().await;
    let write: &[u8] = b"INSERT INTO orders (attempt) VALUES (1)";
    stand.store("payments", Some(write), None).await;
    let mut through = through_inbox(&stand, &ours, true).await;
    next(&mut through.steps).await.unwrap();
    stop(through.app).await;
    assert_done(&stand, &[1]).await;
    assert_closed(&stand, 1).await;
}

/// A layer of the service's own, whose transaction writes before its handler runs.
#[derive(Clone)]
struct InTransaction(PgPool);

struct Around<H>(PgPool, H);

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
        run(&mut tx, "INSERT INTO orders (attempt) VALUES (1)")
            .await
            .unwrap();
        let outcome = self.1.handle(msg, ctx).await;
        tx.commit().await.unwrap();
        outcome
    }
}

/// Ships two payments that were left open.
async fn ship_two<D: Tested>(
    stand: &PostgresStand<D>,
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

/// Whether that layer runs inside of the outbox's, as it should, or outside.
async fn a_mark_does_not_wait_for_the_transaction_of_a_layer<D: Tested>() {
    let (stand, ours) = database::<D>().await;
    let layer = InTransaction(stand.own_pool());
    ship_two(&stand, &ours, Stack::new(layer, ours.layer())).await;
    assert_closed(&stand, 2).await;

    let (stand, ours) = database::<D>().await;
    let layer = InTransaction(stand.own_pool());
    ship_two(&stand, &ours, Stack::new(ours.layer(), layer)).await;
    assert_closed(&stand, 2).await;
}
