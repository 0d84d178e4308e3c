//! The layers around the outbox's own: what the runtime is told, and a payload that is wrapped.

use ruststream::Publisher;
use ruststream::runtime::{
    BlanketLayer, Context, Handler, HandlerOutcome, Layer, Outgoing, PublishLayer, PublishNext,
    PublishPipeline,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::message::Settle;
use crate::BoxError;

/// The header of a message that no handler gets: it says that those before it are settled.
pub(super) const PROBE: &str = "x-conformance-probe";

/// A layer outside the outbox's own: it sees what the runtime is told.
#[derive(Clone)]
pub(super) struct Watch {
    settled: UnboundedSender<Settle>,
    heard: UnboundedSender<()>,
}

impl Watch {
    pub(super) fn new() -> (Self, UnboundedReceiver<Settle>, UnboundedReceiver<()>) {
        let (settled, outcomes) = unbounded_channel();
        let (heard, probes) = unbounded_channel();
        (Self { settled, heard }, outcomes, probes)
    }
}

pub(super) struct Watched<H> {
    inner: H,
    watch: Watch,
}

impl<H> Layer<H> for Watch {
    type Handler = Watched<H>;

    fn layer(&self, inner: H) -> Watched<H> {
        let watch = self.clone();
        Watched { inner, watch }
    }
}

impl BlanketLayer for Watch {
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

impl<M, C, S, H> Handler<M, C, S> for Watched<H>
where
    M: Send + Sync,
    C: Send,
    S: Send + Sync,
    H: Handler<M, C, S>,
{
    async fn handle(&self, msg: &M, ctx: &mut Context<'_, C, S>) -> HandlerOutcome {
        if ctx.headers().contains(PROBE) {
            self.watch.heard.send(()).ok();
            return HandlerOutcome::ack();
        }
        let outcome = self.inner.handle(msg, ctx).await;
        self.watch.settled.send(Settle::from(&outcome)).ok();
        outcome
    }
}

/// A publish layer that puts each payload between brackets, if it is on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Envelope(pub(super) bool);

impl PublishLayer for Envelope {
    async fn on_publish<'a, N: PublishPipeline, P: Publisher>(
        &'a self,
        out: &'a mut Outgoing<'a>,
        next: PublishNext<'a, N, P>,
    ) -> Result<(), BoxError> {
        if self.0 {
            let wrapped = [b"<", out.payload(), b">"].concat();
            out.set_payload(wrapped.as_slice());
            out.headers_mut().insert("envelope", b"brackets".to_vec());
        }
        next.run(out).await
    }
}
