//! The service that the cases run: a real RustStream app on the in-memory broker.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ruststream::memory::MemoryPublisher;
use ruststream::memory::prelude::*;
use ruststream::runtime::{RunningApp, RustStreamError};
use ruststream::{Bytes, HeaderMap, Lend, OutgoingMessage, Str};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::conformance::Stand;
use crate::error::Chain;
use crate::registry::Node;
use crate::{OUTBOX_ID_HEADER, Outbox, TrackedPublisher};

/// How long a case waits for an event that must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// The registry of the cases: the names `payments` and `refunds`, in this order.
pub type Registry<S> =
    Outbox<<S as Stand>::Backend, Node<<S as Stand>::Record, Node<<S as Stand>::Record>>>;

type Publishing<S> = TrackedPublisher<MemoryPublisher, Registry<S>>;

type Handling<'a> = Pin<Box<dyn Future<Output = HandlerOutcome> + Send + 'a>>;

type Script = dyn for<'a> Fn(Delivery, &'a dyn Outlet) -> Handling<'a> + Send + Sync;

/// A message as a handler got it.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The subscription's name.
    pub name: String,
    /// The payload.
    pub payload: Vec<u8>,
    /// The headers.
    pub headers: HeaderMap,
}

impl Delivery {
    /// The id of the message's record.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.headers.get_str(OUTBOX_ID_HEADER)
    }
}

/// What a handler publishes through.
pub trait Outlet: Send + Sync {
    /// Publishes from inside the handler: through the app's publish layers.
    fn publish<'a>(
        &'a self,
        name: &'a str,
        payload: &'a [u8],
        headers: HeaderMap,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;
}

/// Publishes through any publisher.
///
/// # Errors
///
/// Whatever the publish fails with, with all its sources.
pub async fn publish(
    publisher: &impl Publisher,
    name: &str,
    payload: &[u8],
    headers: HeaderMap,
) -> Result<(), String> {
    let msg = OutgoingMessage::new(name, payload).with_headers(headers);
    let sent = publisher.publish(msg, None).await;
    sent.map_err(|error| Chain(&error).to_string())
}

/// A publisher of a broker that refuses every message.
#[derive(Debug, Clone, Copy)]
pub struct Refusing;

impl Publisher for Refusing {
    type Payload = Lend;
    type Error = std::io::Error;
    type Options = ();

    async fn publish(
        &self,
        _msg: OutgoingMessage<'_, &[u8]>,
        _options: Option<&()>,
    ) -> std::io::Result<()> {
        Err(std::io::Error::other("the broker refused"))
    }
}

/// Headers from pairs.
#[must_use]
pub fn headers(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (Str::from_static(name), Bytes::copy_from_slice(value)))
        .collect()
}

/// Outcomes that a handler can be told to come to.
#[derive(Debug, Clone, Copy)]
pub enum Settle {
    /// Acknowledge.
    Ack,
    /// Drop.
    Drop,
    /// Retry at once.
    Retry,
}

impl From<Settle> for HandlerOutcome {
    fn from(settle: Settle) -> Self {
        match settle {
            Settle::Ack => Self::ack(),
            Settle::Drop => Self::drop(),
            Settle::Retry => Self::retry(),
        }
    }
}

/// A service that is about to start.
pub struct Builder<S: Stand> {
    outbox: Registry<S>,
    broker: MemoryBroker,
    script: Arc<Script>,
    panic: FailurePolicy,
    mounted: bool,
    republish: bool,
}

impl<S: Stand> fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("outbox", &self.outbox)
            .finish_non_exhaustive()
    }
}

/// A service that runs.
pub struct Service<S: Stand> {
    /// Its registry.
    pub outbox: Registry<S>,
    app: RunningApp,
    wrapped: Publishing<S>,
    bare: MemoryPublisher,
    deliveries: UnboundedReceiver<Delivery>,
}

impl<S: Stand> fmt::Debug for Service<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("outbox", &self.outbox)
            .finish_non_exhaustive()
    }
}

/// A registry of the cases' names, without a pool.
#[must_use]
pub fn registry<S: Stand>() -> Registry<S> {
    Outbox::deferred()
        .register::<S::Record>("payments")
        .register::<S::Record>("refunds")
}

impl<S: Stand> Service<S> {
    /// A service on a pool of four connections, whose handlers acknowledge.
    pub async fn on(stand: &S) -> Builder<S> {
        let outbox = registry::<S>();
        outbox.set_pool(stand.pool(4).await).unwrap();
        Self::with(outbox)
    }

    /// A service with a registry of the case's own.
    #[must_use]
    pub fn with(outbox: Registry<S>) -> Builder<S> {
        Builder {
            outbox,
            broker: MemoryBroker::new(),
            script: Arc::new(|_, _| Box::pin(ready(HandlerOutcome::ack()))),
            panic: FailurePolicy::Drop,
            mounted: true,
            republish: true,
        }
    }

    /// Publishes from outside a handler, as an HTTP endpoint does.
    ///
    /// # Errors
    ///
    /// Whatever the publish fails with, with all its sources.
    pub async fn publish(&self, name: &str, payload: &[u8]) -> Result<(), String> {
        self.publish_with(name, payload, HeaderMap::new()).await
    }

    /// Publishes with headers from outside a handler.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
    pub async fn publish_with(
        &self,
        name: &str,
        payload: &[u8],
        headers: HeaderMap,
    ) -> Result<(), String> {
        publish(&self.wrapped, name, payload, headers).await
    }

    /// Sends past the outbox, as a publisher does that bypasses its layers.
    pub async fn send(&self, name: &str, payload: &[u8], headers: HeaderMap) {
        let msg = OutgoingMessage::new(name, payload).with_headers(headers);
        self.bare.publish(msg, None).await.unwrap();
    }

    /// The next message that a handler got.
    pub async fn next(&mut self) -> Delivery {
        let next = timeout(PATIENCE, self.deliveries.recv());
        next.await
            .expect("no handler ran")
            .expect("the app is gone")
    }

    /// Asserts that nothing was sent to `name` that no handler got yet: a message that is sent now
    /// is the next one.
    pub async fn assert_nothing_sent(&mut self, name: &str) {
        self.send(name, b"after", HeaderMap::new()).await;
        let next = self.next().await;
        assert_eq!(next.payload, b"after", "a message was sent: {next:?}");
    }

    /// Stops the service, which drains its handlers, and returns what they got beside.
    pub async fn stop(mut self) -> Vec<Delivery> {
        self.app.shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Ok(delivery) = self.deliveries.try_recv() {
            rest.push(delivery);
        }
        rest
    }
}

impl<S: Stand> Builder<S> {
    /// Changes the registry: its settings.
    #[must_use]
    pub fn registry(mut self, change: impl FnOnce(Registry<S>) -> Registry<S>) -> Self {
        self.outbox = change(self.outbox);
        self
    }

    /// What the handlers do.
    #[must_use]
    pub fn handler<F>(mut self, script: F) -> Self
    where
        F: for<'a> Fn(Delivery, &'a dyn Outlet) -> Handling<'a> + Send + Sync + 'static,
    {
        self.script = Arc::new(script);
        self
    }

    /// What the handlers come to, delivery by delivery; then they acknowledge.
    #[must_use]
    pub fn outcomes(self, outcomes: impl IntoIterator<Item = Settle>) -> Self {
        let outcomes: VecDeque<_> = outcomes.into_iter().collect();
        let outcomes = std::sync::Mutex::new(outcomes);
        self.handler(move |_, _| {
            let next = outcomes.lock().unwrap().pop_front();
            Box::pin(ready(next.unwrap_or(Settle::Ack).into()))
        })
    }

    /// Has the handlers come to an outcome that leaves every record open.
    #[must_use]
    pub fn leaving_open(self) -> Self {
        let later = Duration::from_hours(1);
        self.handler(move |_, _| Box::pin(ready(HandlerOutcome::retry_after(later))))
    }

    /// What a panic of a handler does to its delivery. [`FailurePolicy::Drop`] unless set.
    #[must_use]
    pub fn on_panic(mut self, policy: FailurePolicy) -> Self {
        self.panic = policy;
        self
    }

    /// Leaves the handlers out: the receiver is elsewhere.
    #[must_use]
    pub fn without_handlers(mut self) -> Self {
        self.mounted = false;
        self
    }

    /// Runs the service on a broker that other services are on, too.
    #[must_use]
    pub fn broker(mut self, broker: MemoryBroker) -> Self {
        self.broker = broker;
        self
    }

    /// Starts a service that has no pool yet, so that nothing is sent again.
    pub async fn start_without_pool(mut self) -> Service<S> {
        self.republish = false;
        self.start().await
    }

    /// Starts the service, which must come up.
    pub async fn start(self) -> Service<S> {
        self.try_start().await.unwrap()
    }

    /// Starts the service.
    ///
    /// # Errors
    ///
    /// Whatever the start fails with.
    pub async fn try_start(self) -> Result<Service<S>, RustStreamError> {
        let (taken, deliveries) = unbounded_channel();
        let state = Handlers {
            script: self.script,
            taken,
        };
        let outbox = self.outbox;
        let policies = FailurePolicies::default().with_panic(self.panic);
        let (bare, wrapped) = (self.broker.publisher(), self.broker.publisher());
        let app = RustStream::new(AppInfo::new("conformance", "0.1.0"))
            .on_startup(async move |()| Ok::<_, Infallible>(state))
            .layer(outbox.layer())
            .publish_layer(outbox.publish_layer())
            .with_broker(self.broker, |b| {
                for name in ["payments", "refunds", "audit"] {
                    if self.mounted {
                        let handler = handle.name(name).on_failure(policies);
                        b.include(handler).out(DefaultSlot, Publish).build();
                    }
                }
                if self.mounted {
                    let handler = handle.name("reports").on_failure(policies);
                    let on_a_thread = handler.threads(nonzero!(1));
                    b.include(on_a_thread).out(DefaultSlot, Publish).build();
                }
                if self.republish {
                    b.after_startup(Publish, outbox.republish());
                }
            });
        Ok(Service {
            app: app.start().await?,
            wrapped: outbox.wrap(wrapped),
            outbox,
            bare,
            deliveries,
        })
    }
}

#[derive(Clone)]
struct Handlers {
    script: Arc<Script>,
    taken: UnboundedSender<Delivery>,
}

#[derive(Deserialized)]
struct Payload<'a>(&'a [u8]);

/// The slot that a handler publishes through.
struct Slot<'a, P>(&'a P);

impl<P: Publisher> Outlet for Slot<'_, P> {
    fn publish<'a>(
        &'a self,
        name: &'a str,
        payload: &'a [u8],
        headers: HeaderMap,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(publish(self.0, name, payload, headers))
    }
}

#[subscriber]
async fn handle(
    payload: &Payload<'_>,
    ctx: &mut Context<'_, (), Handlers>,
    Out(out): Out<impl Publisher>,
) -> HandlerOutcome {
    let delivery = Delivery {
        name: ctx.name().to_owned(),
        payload: payload.0.to_vec(),
        headers: ctx.headers().clone(),
    };
    let Handlers { script, taken } = ctx.state();
    taken.send(delivery.clone()).ok();
    script(delivery, &Slot(out)).await
}
