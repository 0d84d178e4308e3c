//! The service under test: an app whose handlers do what a closure says.

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;

use outbox_core::OUTBOX_ID_HEADER;
use ruststream::prelude::*;
use ruststream::runtime::FailurePolicies;
use ruststream::{Broker as _, OutgoingMessage};
use ruststream_fred::{RedisBroker, RedisPubSub, RedisPubSubPublish};
use ruststream_nats::{CoreSubject, NatsBroker, NatsPublish};

use tokio::sync::oneshot;

use crate::{Broker, Database, Driver, Names, Registry, Result, registry};

/// What a handler does.
pub type Handling<'a> = Pin<Box<dyn Future<Output = HandlerOutcome> + Send + 'a>>;

type Publishing<'a> = Pin<Box<dyn Future<Output = Result> + Send + 'a>>;

type Hook = Pin<Box<dyn Future<Output = ()> + Send>>;

type Script = dyn for<'a> Fn(Delivery, &'a dyn Outlet) -> Handling<'a> + Send + Sync;

/// A message as a handler got it.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The name that it was sent to.
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

/// What is published through: inside a handler, or outside of all.
pub trait Outlet: Send + Sync {
    /// Publishes.
    fn publish<'a>(
        &'a self,
        name: &'a str,
        payload: &'a [u8],
        headers: HeaderMap,
    ) -> Publishing<'a>;
}

impl<P: Publisher> Outlet for P {
    fn publish<'a>(
        &'a self,
        name: &'a str,
        payload: &'a [u8],
        headers: HeaderMap,
    ) -> Publishing<'a> {
        Box::pin(async move {
            let msg = OutgoingMessage::new(name, payload).with_headers(headers);
            Ok(Publisher::publish(self, msg, None).await?)
        })
    }
}

/// A service that is about to start.
pub struct Builder<D: Driver> {
    broker: Broker,
    names: Names,
    tracking: Registry<D>,
    script: Arc<Script>,
    workers: NonZeroUsize,
    failures: FailurePolicies,
    server: Option<String>,
    group: Option<String>,
    mounted: bool,
    before_republish: Option<Hook>,
    republish: bool,
    republished: Option<oneshot::Sender<Republished>>,
}

/// What a republish came to: nothing, or the text of its error.
pub type Republished = std::result::Result<(), String>;

/// A service that runs.
pub struct Service<D: Driver> {
    /// Its registry.
    pub tracking: Registry<D>,
    app: RunningApp,
    wrapped: Arc<dyn Outlet>,
    bare: Box<dyn Outlet>,
}

impl<D: Driver> Service<D> {
    /// A service on a pool of four connections, whose handlers acknowledge.
    ///
    /// # Errors
    ///
    /// The pool could not be built.
    pub fn on(broker: Broker, database: &Database, names: &Names) -> Result<Builder<D>> {
        let tracking = registry(names);
        tracking.set_pool(D::open(database.url(), 4)?)?;
        Ok(Self::with(broker, names, tracking))
    }

    /// A service with a registry of the test's own.
    #[must_use]
    pub fn with(broker: Broker, names: &Names, tracking: Registry<D>) -> Builder<D> {
        Builder {
            broker,
            names: names.clone(),
            tracking,
            script: Arc::new(|_, _| Box::pin(ready(HandlerOutcome::ack()))),
            workers: NonZeroUsize::MIN,
            failures: FailurePolicies::default(),
            server: None,
            group: None,
            mounted: true,
            before_republish: None,
            republish: true,
            republished: None,
        }
    }

    /// What publishes from outside a handler, as an HTTP endpoint does: for other tasks.
    #[must_use]
    pub fn publisher(&self) -> Arc<dyn Outlet> {
        Arc::clone(&self.wrapped)
    }

    /// Publishes from outside a handler.
    ///
    /// # Errors
    ///
    /// Whatever the publish fails with.
    pub async fn publish(&self, name: &str, payload: &[u8]) -> Result {
        self.wrapped.publish(name, payload, HeaderMap::new()).await
    }

    /// Sends past the outbox, as a publisher does that bypasses its layers.
    ///
    /// # Errors
    ///
    /// Whatever the publish fails with.
    pub async fn send(&self, name: &str, payload: &[u8], headers: HeaderMap) -> Result {
        self.bare.publish(name, payload, headers).await
    }

    /// Comes when the service stops by itself.
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + 'static {
        self.app.stopping()
    }

    /// Stops the service in order.
    ///
    /// # Errors
    ///
    /// It stopped by itself, or not in order.
    pub async fn stop(self) -> Result {
        Ok(self.app.shutdown().await?)
    }
}

impl<D: Driver> Builder<D> {
    /// Changes the registry: its settings.
    #[must_use]
    pub fn registry(mut self, change: impl FnOnce(Registry<D>) -> Registry<D>) -> Self {
        self.tracking = change(self.tracking);
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

    /// How many messages of a name are handled at once. One unless set.
    #[must_use]
    pub fn workers(mut self, workers: NonZeroUsize) -> Self {
        self.workers = workers;
        self
    }

    /// What a handler's panic does.
    #[must_use]
    pub fn on_failure(mut self, failures: FailurePolicies) -> Self {
        self.failures = failures;
        self
    }

    /// A server of the test's own, by its URL.
    #[must_use]
    pub fn server(mut self, url: String) -> Self {
        self.server = Some(url);
        self
    }

    /// The queue group of the subscriptions, on NATS.
    #[must_use]
    pub fn group(mut self, group: &str) -> Self {
        self.group = Some(group.to_owned());
        self
    }

    /// What happens between the subscriptions' opening and the republish.
    #[must_use]
    pub fn before_republish(mut self, hook: impl Future<Output = ()> + Send + 'static) -> Self {
        self.before_republish = Some(Box::pin(hook));
        self
    }

    /// Where the republish says what it came to, which is before the start has ended.
    #[must_use]
    pub fn republished(mut self, republished: oneshot::Sender<Republished>) -> Self {
        self.republished = Some(republished);
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

    /// Starts the service.
    ///
    /// # Errors
    ///
    /// Whatever the start fails with.
    pub async fn start(mut self) -> Result<Service<D>> {
        /// The app on a broker, whose crate says how it subscribes and publishes.
        macro_rules! start {
            ($broker:expr, $source:expr, $publish:expr) => {{
                let broker = $broker.bindable();
                let (bare, wrapped) = (broker.bind($publish), broker.bind($publish));
                let app = RustStream::new(AppInfo::new("broker-tests", "0.1.0"))
                    .layer(self.tracking.layer())
                    .publish_layer(self.tracking.publish_layer())
                    .with_broker(broker, |b| {
                        for name in [&self.names.payments, &self.names.refunds] {
                            if self.mounted {
                                let take = Take(Arc::clone(&self.script));
                                let take = subscriber($source(name.clone()), take)
                                    .workers(self.workers)
                                    .on_failure(self.failures)
                                    .undocumented()
                                    .build();
                                b.include(take).out(DefaultSlot, $publish).build();
                            }
                        }
                        if let Some(hook) = self.before_republish.take() {
                            b.after_startup($publish, async move |_| {
                                hook.await;
                                Ok::<_, Infallible>(())
                            });
                        }
                        if self.republish {
                            let (republish, said) = (self.tracking.republish(), self.republished);
                            b.after_startup($publish, async move |publisher| {
                                let done = republish(publisher).await;
                                if let Some(said) = said {
                                    let text = done.as_ref().map_err(ToString::to_string);
                                    said.send(text.copied()).ok();
                                }
                                done
                            });
                        }
                    });
                let app = app.start().await?;
                let (bare, wrapped) = (app.publisher(bare).await?, app.publisher(wrapped).await?);
                Ok(Service {
                    wrapped: Arc::new(self.tracking.wrap(wrapped)),
                    bare: Box::new(bare),
                    tracking: self.tracking,
                    app,
                })
            }};
        }

        let url = self.server.take().map_or_else(|| self.broker.url(), Ok)?;
        match self.broker {
            Broker::Redis => start!(
                RedisBroker::standalone(url),
                RedisPubSub::new,
                RedisPubSubPublish::new()
            ),
            Broker::Nats => {
                let subject = |name: String| match &self.group {
                    Some(group) => CoreSubject::new(name).queue_group(group),
                    None => CoreSubject::new(name),
                };
                start!(NatsBroker::new(url), subject, NatsPublish)
            }
        }
    }
}

impl<D: Driver> fmt::Debug for Builder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Builder");
        debug
            .field("tracking", &self.tracking)
            .finish_non_exhaustive()
    }
}

impl<D: Driver> fmt::Debug for Service<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Service");
        debug
            .field("tracking", &self.tracking)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialized)]
struct Payload<'a>(&'a [u8]);

/// The handler of each name, on any broker.
struct Take(Arc<Script>);

impl<Egress> Handle<Payload<'_>, (), Outs<(Egress,)>> for Take
where
    Egress: OutEntry<DefaultSlot, Wire: Publisher>,
{
    async fn handle(
        &self,
        payload: &Payload<'_>,
        outs: &Outs<(Egress,)>,
        ctx: &mut Context<'_>,
    ) -> std::result::Result<(), HandlerOutcome> {
        let delivery = Delivery {
            name: ctx.name().to_owned(),
            payload: payload.0.to_vec(),
            headers: ctx.headers().clone(),
        };
        Err((self.0)(delivery, outs.get(DefaultSlot)).await)
    }
}
