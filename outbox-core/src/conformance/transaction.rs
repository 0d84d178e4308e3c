//! A transaction that the service's own layer holds around its handlers, on either side of the
//! outbox's layer.

use std::sync::Arc;
use std::time::Duration;

use ruststream::runtime::{BlanketLayer, Context, Handler, HandlerOutcome, Layer};
use tracing::Level;

use super::logs::Logs;
use super::message::Settle;
use super::service::Service;
use super::stand::{Stand, assert_closed};

/// A layer that holds the table's write lock in a transaction while what it wraps runs, if it has
/// a stand.
pub(super) struct Holding<S>(pub(super) Option<Arc<S>>);

impl<S> Clone for Holding<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

pub(super) struct Held<H, S> {
    inner: H,
    holding: Holding<S>,
}

impl<H, S: Stand> Layer<H> for Holding<S> {
    type Handler = Held<H, S>;

    fn layer(&self, inner: H) -> Held<H, S> {
        let holding = self.clone();
        Held { inner, holding }
    }
}

impl<S: Stand> BlanketLayer for Holding<S> {
    fn apply<M, C, T, H>(&self, handler: H) -> impl Handler<M, C, T> + 'static
    where
        M: Send + Sync + 'static,
        C: Send + 'static,
        T: Send + Sync + 'static,
        H: Handler<M, C, T> + 'static,
    {
        self.layer(handler)
    }
}

impl<M, C, T, H, S> Handler<M, C, T> for Held<H, S>
where
    M: Send + Sync,
    C: Send,
    T: Send + Sync,
    H: Handler<M, C, T>,
    S: Stand,
{
    async fn handle(&self, msg: &M, ctx: &mut Context<'_, C, T>) -> HandlerOutcome {
        let Some(stand) = &self.holding.0 else {
            return self.inner.handle(msg, ctx).await;
        };
        let lock = stand.lock().await;
        let outcome = self.inner.handle(msg, ctx).await;
        S::unlock(lock).await;
        outcome
    }
}

/// A transaction inside the outbox's layer has ended before the mark, which does not meet it.
pub async fn a_transaction_inside_the_outboxs_layer_does_not_meet_the_mark<S: Stand>() {
    let stand = Arc::new(S::open().await);
    let logs = Logs::capture();
    let service = Service::on(&*stand).await;
    let service = service.transaction_inside(Arc::clone(&stand));
    let mut service = service.start().await;
    for _ in 0..3 {
        service.publish("payments", b"1").await.unwrap();
        assert_eq!(service.outcome().await, Settle::Ack);
    }
    assert_eq!(service.stop().await.len(), 3);
    assert_closed(&*stand, 3).await;
    assert_eq!(logs.complaints(), [""; 0]);
}

/// A transaction outside it is still open at the first mark, which gives up within the bound; that
/// record and the following ones are marked once their deliveries are settled, and one warning says
/// so.
pub async fn a_transaction_outside_the_outboxs_layer_is_marked_behind<S: Stand>() {
    let stand = Arc::new(S::open().await);
    let logs = Logs::capture();
    let service = Service::on(&*stand).await;
    let service = service.registry(|outbox| outbox.lock_wait(Duration::from_millis(500)));
    let service = service.transaction_outside(Arc::clone(&stand));
    let mut service = service.start().await;
    for _ in 0..3 {
        service.publish("payments", b"1").await.unwrap();
        assert_eq!(service.outcome().await, Settle::Ack, "the outcome stands");
    }
    assert_eq!(service.stop().await.len(), 3);
    assert_closed(&*stand, 3).await;
    let said = logs.lines(Level::WARN, &["payments", "held lock", "settled"]);
    assert_eq!(logs.complaints(), said);
    assert_eq!(said.len(), 1, "{said:?}");
}
