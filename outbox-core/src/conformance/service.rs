//! The service that the cases run: a real RustStream app on the in-memory broker.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::num::{NonZeroU32, NonZeroUsize};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ruststream::memory::MemoryPublisher;
use ruststream::memory::prelude::*;
use ruststream::runtime::{RunningApp, RustStreamError};
use ruststream::{HeaderMap, OutgoingMessage};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::message::{Delivery, Settle, headers, publish};
use super::shares_transactions;
use super::stand::Stand;
use super::transaction::Holding;
use super::unsent::OneLine;
use super::watch::{Envelope, PROBE, Watch};
use crate::registry::Node;
use crate::{Outbox, TrackedPublisher};

/// How long a case waits for an event that must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// The names that have a handler. The last one is not registered.
const NAMES: [&str; 3] = ["payments", "refunds", "audit"];

/// The registry of the cases: the names `payments` and `refunds`, in this order.
pub type Registry<S> =
    Outbox<<S as Stand>::Backend, Node<<S as Stand>::Record, Node<<S as Stand>::Record>>>;

type Publishing<S> = TrackedPublisher<MemoryPublisher, Registry<S>>;

type Handling<'a> = Pin<Box<dyn Future<Output = HandlerOutcome> + Send + 'a>>;

type Script = dyn for<'a> Fn(Delivery, &'a dyn Outlet) -> Handling<'a> + Send + Sync;

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

/// A service that is about to start.
pub struct Builder<S: Stand> {
    outbox: Registry<S>,
    broker: MemoryBroker,
    script: Arc<Script>,
    panic: FailurePolicy,
    mounted: bool,
    again: bool,
    republish: bool,
    envelope: Envelope,
    one_line: OneLine,
    outside: Holding<S>,
    inside: Holding<S>,
    attempts: Option<(NonZeroU32, Option<&'static str>)>,
    workers: NonZeroUsize,
    shutdown_timeout: Option<Duration>,
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
    outcomes: UnboundedReceiver<Settle>,
    probes: UnboundedReceiver<()>,
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
        .group_commit(shares_transactions())
        .register::<S::Record>("payments")
        .register::<S::Record>("refunds")
}

/// A registry of the cases' names on a pool of at most `size` connections.
pub async fn registry_on<S: Stand>(stand: &S, size: u32) -> Registry<S> {
    let outbox = registry::<S>();
    outbox.set_pool(stand.pool(size).await).unwrap();
    outbox
}

impl<S: Stand> Service<S> {
    /// A service on a pool of four connections, whose handlers acknowledge.
    pub async fn on(stand: &S) -> Builder<S> {
        Self::with(registry_on(stand, 4).await)
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
            again: false,
            republish: true,
            envelope: Envelope(false),
            one_line: OneLine(false),
            outside: Holding(None),
            inside: Holding(None),
            attempts: None,
            workers: NonZeroUsize::MIN,
            shutdown_timeout: None,
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

    /// Waits until every message that was sent before is settled. What a handler wants back comes
    /// back after that.
    pub async fn idle(&mut self) {
        for name in NAMES {
            self.send(name, b"", headers(&[(PROBE, b"")])).await;
        }
        for _ in NAMES {
            let settled = timeout(PATIENCE, self.probes.recv());
            settled.await.expect("a handler did not come to an outcome");
        }
    }

    /// The next outcome that the runtime was told of: a handler's, or the outbox's own.
    pub async fn outcome(&mut self) -> Settle {
        let outcome = timeout(PATIENCE, self.outcomes.recv());
        outcome
            .await
            .expect("no delivery was settled")
            .expect("the app is gone")
    }

    /// The outcomes so far that [`outcome`](Self::outcome) did not return.
    pub fn outcomes(&mut self) -> Vec<Settle> {
        std::iter::from_fn(|| self.outcomes.try_recv().ok()).collect()
    }

    /// Waits until the service stops by itself, and returns why.
    pub async fn stopped(self) -> RustStreamError {
        let stopping = timeout(PATIENCE, self.app.stopping());
        stopping.await.expect("the service goes on");
        self.app.shutdown().await.unwrap_err()
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

    /// Mounts a second handler of `payments`, whose deliveries are named `payments again`.
    #[must_use]
    pub fn with_a_second_handler(mut self) -> Self {
        self.again = true;
        self
    }

    /// Leaves the handlers out: the receiver is elsewhere.
    #[must_use]
    pub fn without_handlers(mut self) -> Self {
        self.mounted = false;
        self
    }

    /// Leaves the republish out of the start.
    #[must_use]
    pub fn without_republish(mut self) -> Self {
        self.republish = false;
        self
    }

    /// Adds a publish layer that puts each payload between brackets, after the outbox's own.
    #[must_use]
    pub fn enveloped(mut self) -> Self {
        self.envelope = Envelope(true);
        self
    }

    /// Has what the handlers publish refused, as by the broker, where a header is not one line of
    /// text.
    #[must_use]
    pub fn one_line_headers(mut self) -> Self {
        self.one_line = OneLine(true);
        self
    }

    /// Adds a layer outside the outbox's own that holds the stand's lock while a delivery lasts.
    #[must_use]
    pub fn transaction_outside(mut self, stand: Arc<S>) -> Self {
        self.outside = Holding(Some(stand));
        self
    }

    /// Adds such a layer inside the outbox's own.
    #[must_use]
    pub fn transaction_inside(mut self, stand: Arc<S>) -> Self {
        self.inside = Holding(Some(stand));
        self
    }

    /// The most deliveries that the runtime gives a payment, and the name of its dead letter.
    #[must_use]
    pub fn attempts(mut self, most: u32, dead_letter: Option<&'static str>) -> Self {
        self.attempts = NonZeroU32::new(most).map(|most| (most, dead_letter));
        self
    }

    /// How many messages of a name are handled at once. One unless set.
    #[must_use]
    pub fn workers(mut self, workers: NonZeroUsize) -> Self {
        self.workers = workers;
        self
    }

    /// How long a stop waits for a handler.
    #[must_use]
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown_timeout = Some(timeout);
        self
    }

    /// Runs the service on a broker that other services are on, too.
    #[must_use]
    pub fn broker(mut self, broker: MemoryBroker) -> Self {
        self.broker = broker;
        self
    }

    /// Starts a service that has no pool yet, so that nothing is sent again.
    pub async fn start_without_pool(self) -> Service<S> {
        self.without_republish().start().await
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
        let (watch, outcomes, probes) = Watch::new();
        let state = Handlers {
            script: self.script,
            taken,
        };
        let outbox = self.outbox;
        let policies = FailurePolicies::default().with_panic(self.panic);
        let (bare, wrapped) = (self.broker.publisher(), self.broker.publisher());
        let mut app = RustStream::new(AppInfo::new("conformance", "0.1.0"));
        if let Some(timeout) = self.shutdown_timeout {
            app = app.shutdown_timeout(timeout);
        }
        let app = app
            .on_startup(async move |()| Ok::<_, Infallible>(state))
            .layer(watch)
            .layer(self.outside)
            .layer(outbox.layer())
            .layer(self.inside)
            .publish_layer(self.one_line)
            .publish_layer(outbox.publish_layer())
            .publish_layer(self.envelope)
            .with_broker(self.broker, |b| {
                for name in NAMES.into_iter().filter(|_| self.mounted) {
                    let handler = handle.name(name).on_failure(policies);
                    let handler = handler.workers(self.workers);
                    match self.attempts.filter(|_| name == "payments") {
                        None => b.include(handler).out(DefaultSlot, Publish).build(),
                        Some((most, None)) => {
                            let capped = b.include(handler).max_attempts(most);
                            capped.out(DefaultSlot, Publish).build();
                        }
                        Some((most, Some(dead_letter))) => {
                            let capped = b.include(handler).max_attempts(most);
                            let capped = capped.dead_letter(dead_letter);
                            capped.out(DefaultSlot, Publish).build();
                        }
                    }
                }
                if self.mounted {
                    let handler = handle.name("reports").on_failure(policies);
                    let on_a_thread = handler.threads(nonzero!(1));
                    b.include(on_a_thread).out(DefaultSlot, Publish).build();
                }
                if self.again {
                    let handler = handle_again.name("payments").on_failure(policies);
                    b.include(handler).out(DefaultSlot, Publish).build();
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
            outcomes,
            probes,
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
    ctx.state().run(delivery, &Slot(out)).await
}

#[subscriber]
async fn handle_again(
    payload: &Payload<'_>,
    ctx: &mut Context<'_, (), Handlers>,
    Out(out): Out<impl Publisher>,
) -> HandlerOutcome {
    let delivery = Delivery {
        name: format!("{} again", ctx.name()),
        payload: payload.0.to_vec(),
        headers: ctx.headers().clone(),
    };
    ctx.state().run(delivery, &Slot(out)).await
}

impl Handlers {
    async fn run(&self, delivery: Delivery, out: &dyn Outlet) -> HandlerOutcome {
        self.taken.send(delivery.clone()).ok();
        (self.script)(delivery, out).await
    }
}
