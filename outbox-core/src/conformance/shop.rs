//! A shop on the in-memory broker, under the layers of whoever tracks its payments.

#![allow(
    missing_docs,
    reason = "what the framework makes of a handler has no documentation"
)]

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use ruststream::memory::MemoryPublisher;
use ruststream::memory::prelude::*;
use ruststream::runtime::{BlanketLayer, PublishLayer, RunningApp};
use ruststream::{FromRef, HeaderMap};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::message::{Delivery, publish};

/// How long a test waits for an event that must come.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The next event, which must come.
pub async fn next<T>(events: &mut UnboundedReceiver<T>) -> T {
    let next = timeout(PATIENCE, events.recv()).await;
    next.expect("nothing came").expect("the app is gone")
}

/// Stops an app, which settles every delivery first.
pub async fn stop(app: RunningApp) {
    let stopped = timeout(PATIENCE, app.shutdown()).await;
    stopped.expect("it does not come to an end").unwrap();
}

/// A shop that runs. What is sent to `checkout` is published to `payments`, and shipped there.
pub struct Shop {
    app: RunningApp,
    sender: MemoryPublisher,
    shipped: UnboundedReceiver<Delivery>,
}

impl fmt::Debug for Shop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shop")
            .field("sender", &self.sender)
            .finish_non_exhaustive()
    }
}

impl Shop {
    /// A shop with a layer around its handlers and a publish layer around what they publish.
    pub async fn open<L, P>(broker: &MemoryBroker, layer: L, publish_layer: P) -> Self
    where
        L: BlanketLayer + Clone + 'static,
        P: PublishLayer + Clone + 'static,
    {
        let (events, shipped, _) = Events::new();
        let app = RustStream::new(AppInfo::new("shop", "0.1.0"))
            .on_startup(async move |()| Ok::<_, Infallible>(events))
            .layer(layer)
            .publish_layer(publish_layer)
            .with_broker(broker.clone(), |b| {
                b.include(check_out).out(DefaultSlot, Publish).build();
                b.include(ship);
            });
        Self {
            app: app.start().await.unwrap(),
            sender: broker.publisher(),
            shipped,
        }
    }

    /// Sends past every layer.
    pub async fn send(&self, name: &str, payload: &[u8], headers: HeaderMap) {
        publish(&self.sender, name, payload, headers).await.unwrap();
    }

    /// The next payment that is shipped.
    pub async fn shipped(&mut self) -> Delivery {
        next(&mut self.shipped).await
    }

    /// Asserts that the shop ships nothing of what was sent before: what is sent now is next.
    pub async fn assert_nothing_shipped(&mut self) {
        self.send("payments", b"after", HeaderMap::new()).await;
        let next = self.shipped().await;
        assert_eq!(next.payload, b"after", "it was shipped: {next:?}");
    }

    /// Closes the shop once every delivery is settled.
    pub async fn close(mut self) {
        stop(self.app).await;
        let more = self.shipped.try_recv();
        assert!(more.is_err(), "it was shipped, too: {more:?}");
    }
}

/// Where handlers say what they ship, and what each step of theirs came to.
#[derive(Debug, FromRef)]
pub struct Events {
    /// What was shipped.
    pub shipped: UnboundedSender<Delivery>,
    /// The steps.
    pub steps: UnboundedSender<Step>,
}

/// What a step of a handler came to.
pub type Step = Result<(), Box<dyn Error + Send + Sync>>;

impl Events {
    /// With where they are heard.
    #[must_use]
    pub fn new() -> (Self, UnboundedReceiver<Delivery>, UnboundedReceiver<Step>) {
        let (shipped, all_shipped) = unbounded_channel();
        let (steps, all_steps) = unbounded_channel();
        (Self { shipped, steps }, all_shipped, all_steps)
    }
}

/// A payload as it arrived.
#[derive(Debug, Deserialized)]
pub struct Payload<'a>(pub &'a [u8]);

#[subscriber("checkout")]
async fn check_out(
    payload: &Payload<'_>,
    ctx: &mut Context<'_, (), Events>,
    Out(out): Out<impl Publisher>,
) -> HandlerOutcome {
    let headers = ctx.headers().clone();
    publish(out, "payments", payload.0, headers).await.unwrap();
    HandlerOutcome::ack()
}

/// Ships a payment.
#[subscriber("payments")]
pub async fn ship(payload: &Payload<'_>, ctx: &mut Context<'_, (), Events>) -> HandlerOutcome {
    let delivery = Delivery {
        name: ctx.name().to_owned(),
        payload: payload.0.to_vec(),
        headers: ctx.headers().clone(),
    };
    ctx.state().shipped.send(delivery).ok();
    HandlerOutcome::ack()
}
