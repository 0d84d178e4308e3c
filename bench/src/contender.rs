//! A side of the comparison: how it publishes, serves, and sends again.

mod bare;
mod hand;
mod hand_postgres;
mod hand_rusqlite;
mod hand_sqlite;
mod hand_tokio_postgres;
mod ours;
mod peer;
mod pool;
mod record;

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use outbox_postgres::{Postgres, TokioPostgres};
use outbox_sqlite::{Rusqlite, Sqlite};
use ruststream::memory::prelude::*;
use ruststream::runtime::RunningApp;
use ruststream::{Lend, OutgoingMessage, Publisher};

use self::bare::Bare;
use self::hand::ByHand;
use self::ours::Ours;
use self::peer::Peer;
use self::record::{Derived, Own};
use crate::Result;
use crate::database::Kind;
use crate::load::{self, Load, Sent, Service, Settled, TRACKED, UNTRACKED};
use crate::scenario::Work;
use crate::side::{Insert, Side};

/// What a side implements.
pub(crate) trait Contender: Send + Sync + 'static {
    type Publisher: Publisher + Clone + 'static;

    /// Records what it sends to the broker.
    fn publisher(&self, broker: &MemoryBroker) -> Self::Publisher;

    /// A service that marks what it handled.
    fn serve(
        &self,
        broker: &MemoryBroker,
        service: Service,
    ) -> impl Future<Output = Result<RunningApp>> + Send;

    /// Sends the open records, at most `ahead` of what this process has taken up; of `None`, nothing
    /// takes them up.
    fn resend(
        &self,
        publisher: impl Publisher + 'static,
        ahead: Option<usize>,
    ) -> impl Future<Output = Result> + Send;
}

type Timing<'a, T = Duration> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A contender without its types.
pub(crate) trait Measured: Send + Sync {
    /// How long the messages take.
    fn messages(&self, work: Work, load: Load) -> Timing<'_, Sent>;

    /// How long it takes to send so many open records to a publisher that takes each at once.
    fn resend(&self, records: usize) -> Timing<'_>;

    /// How long it takes until so many open records were sent, handled and marked.
    fn recover(&self, records: usize, workers: usize) -> Timing<'_>;
}

/// This outbox on a driver, with an insert that is only known now.
macro_rules! on_driver {
    ($driver:ty, $insert:expr, $pool:expr) => {
        match $insert {
            Insert::Derived => Box::new(Ours::<$driver, Derived>::new($pool)),
            Insert::Own => Box::new(Ours::<$driver, Own>::new($pool)),
        }
    };
}

/// Opens a side's pool on a database. Nothing is connected yet.
pub(crate) fn open(side: Side, kind: Kind, url: &str) -> Result<Box<dyn Measured>> {
    Ok(match side {
        Side::Bare => Box::new(Bare),
        Side::Peer if kind == Kind::Postgres => Box::new(Peer::postgres(pool::postgres(url)?)),
        Side::Peer => Box::new(Peer::sqlite(pool::sqlite(url)?)),
        Side::ByHand("Sqlite") => Box::new(ByHand(pool::sqlite(url)?)),
        Side::ByHand("Rusqlite") => Box::new(ByHand(pool::rusqlite(url)?)),
        Side::ByHand("Postgres") => Box::new(ByHand(pool::postgres(url)?)),
        Side::ByHand("TokioPostgres") => Box::new(ByHand(pool::tokio_postgres(url)?)),
        Side::Ours("Sqlite", insert) => on_driver!(Sqlite, insert, pool::sqlite(url)?),
        Side::Ours("Rusqlite", insert) => on_driver!(Rusqlite, insert, pool::rusqlite(url)?),
        Side::Ours("Postgres", insert) => on_driver!(Postgres, insert, pool::postgres(url)?),
        Side::Ours("TokioPostgres", insert) => {
            on_driver!(TokioPostgres, insert, pool::tokio_postgres(url)?)
        }
        Side::ByHand(driver) | Side::Ours(driver, _) => {
            return Err(format!("there is no driver {driver}").into());
        }
    })
}

impl<C: Contender> Measured for C {
    fn messages(&self, work: Work, load: Load) -> Timing<'_, Sent> {
        Box::pin(async move {
            let broker = MemoryBroker::new();
            let publisher = self.publisher(&broker);
            let name = match work {
                Work::Publish => return load::send(publisher, TRACKED, load, None).await,
                Work::Path => TRACKED,
                Work::Untracked => UNTRACKED,
            };
            let (app, settled) = serve(self, &broker, name, load.in_flight).await?;
            let sent = load::send(publisher, name, load, Some(settled)).await?;
            app.shutdown().await?;
            Ok(sent)
        })
    }

    fn resend(&self, records: usize) -> Timing<'_> {
        Box::pin(async move {
            let sink = Sink::default();
            let began = Instant::now();
            Contender::resend(self, sink.clone(), None).await?;
            let took = began.elapsed();
            let sent = sink.0.load(Ordering::Relaxed);
            if sent != records {
                return Err(format!("{sent} of {records} open records were sent").into());
            }
            Ok(took)
        })
    }

    fn recover(&self, records: usize, workers: usize) -> Timing<'_> {
        Box::pin(async move {
            let broker = MemoryBroker::new();
            let began = Instant::now();
            let (app, settled) = serve(self, &broker, TRACKED, workers).await?;
            Contender::resend(self, broker.publisher(), Some(workers)).await?;
            settled.wait(records).await?;
            let took = began.elapsed();
            app.shutdown().await?;
            Ok(took)
        })
    }
}

async fn serve<C: Contender>(
    contender: &C,
    broker: &MemoryBroker,
    name: &'static str,
    workers: usize,
) -> Result<(RunningApp, Settled)> {
    let settled = Settled::new();
    let service = Service {
        name,
        workers: NonZeroUsize::try_from(workers)?,
        settled: settled.clone(),
    };
    Ok((contender.serve(broker, service).await?, settled))
}

/// A publisher that takes each message at once, and counts.
#[derive(Debug, Clone, Default)]
struct Sink(Arc<AtomicUsize>);

impl Publisher for Sink {
    type Payload = Lend;
    type Error = Infallible;
    type Options = ();

    async fn publish(
        &self,
        _msg: OutgoingMessage<'_, &[u8]>,
        _options: Option<&()>,
    ) -> std::result::Result<(), Infallible> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
