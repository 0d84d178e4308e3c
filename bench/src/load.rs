//! Messages in a closed loop: so many are under way, and a new one waits until one is done.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ruststream::memory::prelude::*;
use ruststream::runtime::{BlanketLayer, Handler, Layer, RunningApp};
use ruststream::{OutgoingMessage, Publisher};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::Result;

/// What a service processes, or publishes, and what nobody registered.
pub(crate) const TRACKED: &str = "payments";
pub(crate) const UNTRACKED: &str = "notes";

/// About what an order looks like as JSON.
const PAYLOAD: [u8; 64] = [b'x'; 64];

/// No measurement takes so long.
const STUCK: Duration = Duration::from_mins(10);

/// How many messages, and how many of them at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) messages: usize,
    pub(crate) in_flight: usize,
}

/// What was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// How long the load's messages took.
    pub(crate) took: Duration,
    /// All messages, with those that were under way when the last of the load was done.
    pub(crate) messages: usize,
}

/// Sends messages under `name`. With `settled`, each is under way until a delivery is settled.
///
/// So many are under way until the load's last message is done, and the time ends there: a straggler
/// that waits for a lock would otherwise be measured alone.
pub(crate) async fn send<P: Publisher + Clone + 'static>(
    publisher: P,
    name: &'static str,
    load: Load,
    settled: Option<Settled>,
) -> Result<Sent> {
    let done = Arc::new(AtomicUsize::new(0));
    let took = Arc::new(OnceLock::new());
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for _ in 0..load.in_flight {
        let (publisher, settled) = (publisher.clone(), settled.clone());
        let (done, took) = (Arc::clone(&done), Arc::clone(&took));
        tasks.spawn(async move {
            while done.load(Ordering::Relaxed) < load.messages {
                let msg = OutgoingMessage::new(name, &PAYLOAD);
                publisher.publish(msg, None).await?;
                if let Some(settled) = &settled {
                    settled.wait(1).await?;
                }
                if done.fetch_add(1, Ordering::Relaxed) + 1 == load.messages {
                    took.get_or_init(|| began.elapsed());
                }
            }
            Result::Ok(())
        });
    }
    let ended = timeout(STUCK, async {
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        Result::Ok(())
    });
    ended.await??;
    Ok(Sent {
        took: *took.get().ok_or("there was nothing to send")?,
        messages: done.load(Ordering::Relaxed),
    })
}

/// Counts messages that are done with: as the outermost layer, after the mark.
#[derive(Debug, Clone)]
pub(crate) struct Settled(Arc<Semaphore>);

impl Settled {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Waits for deliveries, each of which is waited for once.
    pub(crate) async fn wait(&self, deliveries: usize) -> Result {
        let deliveries = u32::try_from(deliveries)?;
        let settled = timeout(STUCK, self.0.acquire_many(deliveries)).await;
        settled??.forget();
        Ok(())
    }
}

impl<H> Layer<H> for Settled {
    type Handler = Settling<H>;

    fn layer(&self, inner: H) -> Settling<H> {
        let settled = Arc::clone(&self.0);
        Settling { inner, settled }
    }
}

impl BlanketLayer for Settled {
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

#[derive(Debug)]
pub(crate) struct Settling<H> {
    inner: H,
    settled: Arc<Semaphore>,
}

impl<M, C, S, H> Handler<M, C, S> for Settling<H>
where
    M: Send + Sync,
    C: Send,
    S: Send + Sync,
    H: Handler<M, C, S>,
{
    async fn handle(&self, msg: &M, ctx: &mut Context<'_, C, S>) -> HandlerOutcome {
        let outcome = self.inner.handle(msg, ctx).await;
        // What is retried comes again.
        if outcome.is_ack() || outcome.is_drop() {
            self.settled.add_permits(1);
        }
        outcome
    }
}

/// The payload as it came.
#[derive(Deserialized)]
pub(crate) struct Payload<'a>(pub(crate) &'a [u8]);

/// A handler that has nothing to do.
#[derive(Debug)]
pub(crate) struct Take;

impl Handle<Payload<'_>> for Take {
    async fn handle(
        &self,
        payload: &Payload<'_>,
        _outs: &(),
        _ctx: &mut Context<'_>,
    ) -> std::result::Result<(), HandlerOutcome> {
        if payload.0.len() == PAYLOAD.len() {
            Ok(())
        } else {
            Err(HandlerOutcome::drop())
        }
    }
}

/// A service to be measured: its subscription, and how many of its deliveries are handled at once.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) name: &'static str,
    pub(crate) workers: NonZeroUsize,
    pub(crate) settled: Settled,
}

/// Starts a service on a broker, with a layer and a handler.
pub(crate) async fn start<L, H>(
    broker: &MemoryBroker,
    service: Service,
    layer: L,
    handler: H,
) -> Result<RunningApp>
where
    L: BlanketLayer + Clone + 'static,
    H: for<'a> Handle<Payload<'a>> + Send + Sync + 'static,
{
    let app = RustStream::new(AppInfo::new("bench", "0.1.0"))
        .layer(service.settled)
        .layer(layer)
        .with_broker(broker.clone(), |b| {
            let take = subscriber(service.name, handler).workers(service.workers);
            b.include(take.undocumented().build());
        });
    Ok(app.start().await?)
}
