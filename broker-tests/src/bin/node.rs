//! A process of the crash tests: it publishes a steady load, or handles what arrives, until its
//! standard input ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use broker_tests::drivers::{Postgres, Rusqlite, Sqlite, TokioPostgres};
use broker_tests::{Broker, Delivery, Driver, Names, Outlet, Result, Service, Stand, registry};
use clap::{Parser, ValueEnum};
use outbox_core::{SWITCH_VARIABLE, is_on};
use ruststream::runtime::{HandlerOutcome, RETRY_COUNT_HEADER};
use ruststream::{HeaderMap, nonzero};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing_subscriber::EnvFilter;

/// How many tasks publish.
const TASKS: u64 = 4;

/// How long each of them waits after a publish.
const PAUSE: Duration = Duration::from_millis(4);

/// When a message comes back that its handler wants again, or whose record could not be read.
const RETRY: Duration = Duration::from_millis(5);

/// What a process of the crash tests is.
#[derive(Parser)]
struct Node {
    #[arg(long)]
    role: Role,
    #[arg(long)]
    stand: Stand,
    #[arg(long)]
    broker: Broker,
    /// The URL of the database.
    #[arg(long)]
    database: String,
    /// What the registered names begin with.
    #[arg(long)]
    prefix: String,
    /// The file that it writes down what it did in.
    #[arg(long)]
    log: PathBuf,
    /// The number before the first one that it publishes.
    #[arg(long)]
    number: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    /// Sends again what is open, then publishes.
    Publisher,
    /// Sends again what is open, and publishes nothing.
    Resender,
    /// Handles, and sends again what is open.
    Receiver,
}

#[tokio::main]
async fn main() -> Result {
    assert!(is_on(), "the outbox is off: set {SWITCH_VARIABLE}=on");
    // Neither broker acknowledges, and the runtime says so of each message.
    let filter = "warn,ruststream::dispatch=error";
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| filter.into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
    let node = Node::parse();
    match node.stand {
        Stand::SqliteSqlx => node.run::<Sqlite>().await,
        Stand::SqliteRusqlite => node.run::<Rusqlite>().await,
        Stand::PostgresSqlx => node.run::<Postgres>().await,
        Stand::PostgresTokio => node.run::<TokioPostgres>().await,
    }
}

impl Node {
    async fn run<D: Driver>(self) -> Result {
        let mut end = end_of_input();
        let names = Names::with_prefix(&self.prefix);
        let pool = D::open(&self.database, 8)?;
        let tracking = registry::<D>(&names).retry_delay(RETRY);
        tracking.set_pool(pool.clone())?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)?;
        let work = Work {
            names: names.clone(),
            log: Arc::new(log),
            number: Arc::new(AtomicU64::new(self.number)),
        };
        let service = Service::with(self.broker, &names, tracking);
        let service = match self.role {
            // The receiver is elsewhere, and a round does not take long.
            Role::Publisher | Role::Resender => service
                .registry(|tracking| tracking.republish_patience(Duration::from_millis(100)))
                .without_handlers(),
            Role::Receiver => {
                let work = work.clone();
                let service = service.workers(nonzero!(4));
                service.handler(move |delivery, out| {
                    let work = work.clone();
                    Box::pin(async move {
                        let handled = work.handle(&delivery, out).await;
                        handled.expect("the message is a number, and the log can be written")
                    })
                })
            }
        };
        let service = service.start().await?;
        println!("ready");

        let mut tasks = JoinSet::new();
        if matches!(self.role, Role::Publisher) {
            for _ in 0..TASKS {
                let work = work.clone();
                tasks.spawn(work.load(service.publisher(), end.clone()));
            }
        }
        tokio::select! {
            ended = end.wait_for(|end| *end) => drop(ended?),
            () = service.stopping() => eprintln!("the service stops by itself"),
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        service.stop().await?;
        D::close(&pool).await;
        Ok(())
    }
}

/// Whether the standard input has ended: whoever started this process wants no more of it, or died.
fn end_of_input() -> watch::Receiver<bool> {
    let (ended, end) = watch::channel(false);
    thread::spawn(move || {
        io::stdin().read_to_end(&mut Vec::new()).ok();
        ended.send(true).ok();
    });
    end
}

/// What a process does, and where it writes that down: one number a line.
#[derive(Clone)]
struct Work {
    names: Names,
    log: Arc<File>,
    /// The last one that was published.
    number: Arc<AtomicU64>,
}

impl Work {
    /// Publishes until the end, now under one name, now under the other.
    async fn load(self, publisher: Arc<dyn Outlet>, end: watch::Receiver<bool>) -> Result {
        for name in [&self.names.payments, &self.names.refunds].iter().cycle() {
            if *end.borrow() {
                break;
            }
            self.publish(&*publisher, name).await?;
            sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Publishes the next number, and returns whether that went well.
    async fn publish(&self, out: &dyn Outlet, name: &str) -> io::Result<bool> {
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        let payload = number.to_string();
        let published = out.publish(name, payload.as_bytes(), HeaderMap::new());
        match published.await {
            Ok(()) => {
                self.write("published", number)?;
                Ok(true)
            }
            Err(error) => {
                tracing::warn!(number, error, "a publish failed");
                self.write("failed", number)?;
                Ok(false)
            }
        }
    }

    /// Every seventh message is wanted again at its first attempt, and every fifth payment makes a
    /// refund. What is done is written down before it is acknowledged.
    async fn handle(&self, delivery: &Delivery, out: &dyn Outlet) -> Result<HandlerOutcome> {
        let number: u64 = str::from_utf8(&delivery.payload)?.parse()?;
        let again = HandlerOutcome::retry_after(RETRY);
        let is_first = delivery.headers.get_str(RETRY_COUNT_HEADER).is_none();
        if number.is_multiple_of(7) && is_first {
            return Ok(again);
        }
        let refunds = delivery.name == self.names.payments && number.is_multiple_of(5);
        if refunds && !self.publish(out, &self.names.refunds).await? {
            return Ok(again);
        }
        self.write("processed", number)?;
        Ok(HandlerOutcome::ack())
    }

    /// Writes a whole line at once: a killed process leaves all of it or nothing.
    fn write(&self, what: &str, number: u64) -> io::Result<()> {
        (&*self.log).write_all(format!("{what} {number}\n").as_bytes())
    }
}
