//! The delivery side: read the record, run the handler, mark the record by the outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ruststream::runtime::{BlanketLayer, Context, Handler, HandlerOutcome, Layer};

use crate::crash::{Point, point};
use crate::handlers::Mount;
use crate::registry::{Names, Walk};
use crate::retry::retry_count;
use crate::settling::Marking;
use crate::taken::Delivery;
use crate::taking::Taking;
use crate::{Backend, OUTBOX_ID_HEADER, Outbox, TARGET};

/// The subscription layer of an [`Outbox`]: see [`Outbox::layer`].
#[derive(Debug, Clone)]
pub struct OutboxLayer<B: Backend, L: Names> {
    outbox: Outbox<B, L>,
}

impl<B: Backend, L: Names> OutboxLayer<B, L> {
    pub(crate) fn new(outbox: Outbox<B, L>) -> Self {
        Self { outbox }
    }
}

impl<H, B: Backend, L: Names> Layer<H> for OutboxLayer<B, L> {
    type Handler = OutboxHandler<H, B, L>;

    /// # Panics
    ///
    /// If the handler's type names two consumers of a name.
    fn layer(&self, inner: H) -> Self::Handler {
        let mount = Mount::of::<H>();
        let mut names = Vec::new();
        self.outbox.names.all(&mut names);
        for name in names {
            name.mount(mount);
        }
        OutboxHandler {
            inner,
            mount,
            marks_late: Arc::default(),
            outbox: self.outbox.clone(),
        }
    }
}

impl<B: Backend, L: Walk<B>> BlanketLayer for OutboxLayer<B, L> {
    fn apply<M, C, S, H>(&self, handler: H) -> impl Handler<M, C, S> + 'static
    where
        M: Send + Sync + 'static,
        C: Send + 'static,
        S: Send + Sync + 'static,
        H: Handler<M, C, S> + 'static,
    {
        self.layer(handler)
    }
}

/// A handler whose tracked deliveries are read before it runs and marked after it.
#[derive(Debug, Clone)]
pub struct OutboxHandler<H, B: Backend, L: Names> {
    inner: H,
    mount: Mount,
    /// Whether the delivery's own transaction was met at a mark: marks then wait for its end.
    marks_late: Arc<AtomicBool>,
    outbox: Outbox<B, L>,
}

impl<M, C, S, H, B, L> Handler<M, C, S> for OutboxHandler<H, B, L>
where
    M: Send + Sync,
    C: Send,
    S: Send + Sync,
    H: Handler<M, C, S>,
    B: Backend,
    L: Walk<B>,
{
    async fn handle(&self, msg: &M, ctx: &mut Context<'_, C, S>) -> HandlerOutcome {
        let Some(registered) = self.outbox.delivered(ctx.name()) else {
            return self.inner.handle(msg, ctx).await;
        };
        let headers = ctx.headers();
        let id = headers.get_shared(OUTBOX_ID_HEADER);
        let retries = retry_count(headers);
        let Some(delivery) = Delivery::of(registered, self.mount, id, retries) else {
            return self.inner.handle(msg, ctx).await;
        };
        let mut taken = match self.outbox.read_record(delivery).await {
            Taking::Untracked => return self.inner.handle(msg, ctx).await,
            Taking::Done => return HandlerOutcome::ack(),
            Taking::Unread => return HandlerOutcome::retry_after(self.outbox.settings.retry_delay),
            Taking::Taken(taken) => taken,
        };
        point(Point::AfterFetch);
        let outcome = self.inner.handle(msg, ctx).await;
        point(Point::AfterHandler);
        let settled = taken.settle(&outcome);
        let late = self.marks_late.load(Ordering::Relaxed);
        if late || self.outbox.mark(&taken, settled).await == Marking::LockHeld {
            if !self.marks_late.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    target: TARGET,
                    name = taken.name(),
                    id = taken.id(),
                    handler = self.mount.handler,
                    "a mark met a held lock, perhaps that of the delivery's own transaction (an \
                     inbox's, or of a layer outside the outbox's): from now on the records of this \
                     handler are marked once their deliveries are settled",
                );
            }
            if let Some(mark) = self.outbox.mark_later(&taken, settled) {
                ctx.after_settle(mark);
            }
        }
        outcome
    }
}
