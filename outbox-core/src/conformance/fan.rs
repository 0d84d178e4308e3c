//! A service whose handlers are told apart: two of a kind, a third one, and a batch handler.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ruststream::memory::MemoryPublisher;
use ruststream::memory::prelude::*;
use ruststream::runtime::RunningApp;
use ruststream::{HeaderMap, OutgoingMessage};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::message::{id_header, publish};
use crate::registry::Walk;
use crate::{
    Backend, Handle, Mark, Outbox, OutboxHeaders, Publish as Record, Statements, TrackedPublisher,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// The most messages of a batch.
pub(super) const BATCH: usize = 300;

pub(super) type Deciding = Pin<Box<dyn Future<Output = HandlerOutcome> + Send>>;

/// What a handler does: it gets `handler payload`, such as `ship 1`.
type Decide = dyn Fn(String) -> Deciding + Send + Sync;

/// The handlers' messages are texts of JSON.
pub(super) fn json(text: &str) -> Vec<u8> {
    format!("{text:?}").into_bytes()
}

/// A service of which a case says which handler is mounted on which subscription.
pub(super) struct Fan<B: Backend, L> {
    pub(super) outbox: Outbox<B, L>,
    app: RunningApp,
    wrapped: TrackedPublisher<MemoryPublisher, Outbox<B, L>>,
    pub(super) bare: MemoryPublisher,
    took: UnboundedReceiver<String>,
}

impl<B: Backend, L: Walk<B>> Fan<B, L> {
    /// Starts the service without a republish. `mounts` are handlers and their subscriptions.
    pub(super) async fn start<R>(
        outbox: Outbox<B, L>,
        mounts: &[(&'static str, &'static str)],
        decide: impl Fn(String) -> Deciding + Send + Sync + 'static,
    ) -> Self
    where
        B: Statements<R>,
        R: Record<B> + Mark<B>,
    {
        let (taking, took) = unbounded_channel();
        let broker = MemoryBroker::new();
        let (bare, wrapped) = (broker.publisher(), broker.publisher());
        let packed = mounts.iter().find(|(handler, _)| *handler == "pack");
        let state = Handlers {
            decide: Arc::new(decide),
            taking,
            packed: Arc::new(packed.map(|(_, name)| outbox.handle::<R>(name))),
        };
        let app = RustStream::new(AppInfo::new("conformance", "0.1.0"))
            .on_startup(async move |()| Ok::<_, Infallible>(state))
            .layer(outbox.layer())
            .publish_layer(outbox.publish_layer())
            .with_broker(broker, |b| {
                let policies = FailurePolicies::default().with_panic(FailurePolicy::Drop);
                for (handler, name) in mounts {
                    match *handler {
                        "ship" => drop(b.include(ship.name(*name).on_failure(policies))),
                        "mail" => drop(b.include(mail.name(*name).on_failure(policies))),
                        "any" => drop(b.include(any.on_failure(policies))),
                        "audit" => drop(b.include(audit.name(*name).on_failure(policies))),
                        _ => {
                            let packing = pack.name(*name).batch(nonzero!(300));
                            b.include(packing.on_failure(policies));
                        }
                    }
                }
            });
        Self {
            app: app.start().await.unwrap(),
            wrapped: outbox.wrap(wrapped),
            outbox,
            bare,
            took,
        }
    }

    /// Publishes from outside a handler, through the outbox.
    pub(super) async fn publish(&self, name: &str, text: &str) {
        let payload = json(text);
        let published = publish(&self.wrapped, name, &payload, HeaderMap::new());
        published.await.unwrap();
    }

    /// Sends the message of a record again.
    pub(super) async fn send(&self, name: &str, text: &str, id: &str) {
        self.send_with(name, text, id_header(id)).await;
    }

    /// Sends past the outbox.
    pub(super) async fn send_with(&self, name: &str, text: &str, headers: HeaderMap) {
        let payload = json(text);
        let msg = OutgoingMessage::new(name, payload.as_slice()).with_headers(headers);
        self.bare.publish(msg, None).await.unwrap();
    }

    /// The next messages that handlers got, sorted: `ship 1`.
    pub(super) async fn took(&mut self, count: usize) -> Vec<String> {
        let mut took = Vec::with_capacity(count);
        while took.len() < count {
            let next = timeout(PATIENCE, self.took.recv()).await;
            took.push(
                next.unwrap_or_else(|_| panic!("only {took:?} ran"))
                    .unwrap(),
            );
        }
        took.sort();
        took
    }

    /// Stops the service, which drains its handlers, and returns what they got beside.
    pub(super) async fn stop(mut self) -> Vec<String> {
        self.app.shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Ok(took) = self.took.try_recv() {
            rest.push(took);
        }
        rest.sort();
        rest
    }
}

/// What every handler does: acknowledge.
pub(super) fn ack(_took: String) -> Deciding {
    Box::pin(async { HandlerOutcome::ack() })
}

#[derive(Clone)]
struct Handlers {
    decide: Arc<Decide>,
    taking: UnboundedSender<String>,
    packed: Arc<dyn Packed>,
}

impl Handlers {
    async fn run(&self, handler: &str, text: &str) -> HandlerOutcome {
        let took = format!("{handler} {text}");
        self.taking.send(took.clone()).ok();
        (self.decide)(took).await
    }
}

#[subscriber]
pub(super) async fn ship(text: &String, ctx: &mut Context<'_, (), Handlers>) -> HandlerOutcome {
    ctx.state().run("ship", text).await
}

#[subscriber]
pub(super) async fn mail(text: &String, ctx: &mut Context<'_, (), Handlers>) -> HandlerOutcome {
    ctx.state().run("mail", text).await
}

/// Its subscription is a pattern, whatever the mount says.
#[subscriber(MemoryPattern::new("payments.*"))]
pub(super) async fn any(text: &String, ctx: &mut Context<'_, (), Handlers>) -> HandlerOutcome {
    ctx.state().run("any", text).await
}

#[subscriber]
pub(super) async fn audit(text: &String, ctx: &mut Context<'_, (), Handlers>) -> HandlerOutcome {
    ctx.state().run("audit", text).await
}

#[subscriber]
pub(super) async fn pack(
    batch: &[Message<OutboxHeaders, String>],
    ctx: &mut Context<'_, (), Handlers>,
) -> Vec<HandlerOutcome> {
    let state = ctx.state().clone();
    state.packed.pack(batch, &state).await
}

/// The handle of the batch handler's name.
trait Packed: Send + Sync {
    fn pack<'a>(
        &'a self,
        batch: &'a [Message<OutboxHeaders, String>],
        state: &'a Handlers,
    ) -> Pin<Box<dyn Future<Output = Vec<HandlerOutcome>> + Send + 'a>>;
}

impl<B: Statements<R>, R: Record<B> + Mark<B>> Packed for Option<Handle<B, R>> {
    fn pack<'a>(
        &'a self,
        batch: &'a [Message<OutboxHeaders, String>],
        state: &'a Handlers,
    ) -> Pin<Box<dyn Future<Output = Vec<HandlerOutcome>> + Send + 'a>> {
        Box::pin(async move {
            let handle = self.as_ref().unwrap();
            let taken = handle.take(&pack, batch).await;
            let mut outcomes = Vec::new();
            for message in taken.open() {
                outcomes.push(state.run("pack", &message.body).await);
            }
            taken.settle(outcomes).await
        })
    }
}
