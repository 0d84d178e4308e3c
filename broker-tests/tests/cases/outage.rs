//! A broker that is down when the republish runs, or goes down half-way.

use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker_tests::{Broker, Builder, Database, Driver, Names, Result, Service, cases};
use ruststream::runtime::HandlerOutcome;
use tokio::sync::{Mutex, oneshot};

use crate::support::{Handled, Logs, Server, acknowledge, soon};

cases! {
    a_start_without_a_broker_fails_and_leaves_the_records_open,
    a_broker_that_is_down_when_the_republish_runs_leaves_the_records_open,
    a_broker_that_goes_down_half_way_leaves_open_what_was_not_handled,
}

/// How many records are open.
const OPEN: usize = 100;

async fn a_start_without_a_broker_fails_and_leaves_the_records_open<D: Driver>(
    broker: Broker,
) -> Result {
    let outage = Outage::<D>::new(broker).await?;
    outage.server.lock().await.kill().await?;
    let start = outage.service()?.start();
    let started = soon("the start's end", start).await?;
    let error = started.err().ok_or("it started without a broker")?;
    assert!(error.to_string().contains("connect"), "{error}");
    assert_eq!(outage.database.open().await?, 100);
    outage.is_over(&mut Handled::new().1).await
}

async fn a_broker_that_is_down_when_the_republish_runs_leaves_the_records_open<D: Driver>(
    broker: Broker,
) -> Result {
    let outage = Outage::<D>::new(broker).await?;
    let (taken, mut handled) = Handled::new();
    let server = Arc::clone(&outage.server);
    let service = outage
        .service()?
        .handler(acknowledge(taken, Duration::ZERO))
        .before_republish(async move {
            server.lock().await.kill().await.ok();
        });
    outage.start(service).await?;
    assert_eq!(handled.or_open(&outage.database).await?, OPEN);
    outage.is_over(&mut handled).await
}

async fn a_broker_that_goes_down_half_way_leaves_open_what_was_not_handled<D: Driver>(
    broker: Broker,
) -> Result {
    let outage = Outage::<D>::new(broker).await?;
    let (taken, mut handled) = Handled::new();
    let server = Arc::clone(&outage.server);
    let number = AtomicUsize::new(0);
    let service = outage.service()?.handler(move |delivery, _| {
        let half_way = number.fetch_add(1, Ordering::Relaxed) + 1 == OPEN / 2;
        let server = Arc::clone(&server);
        taken.send(delivery).ok();
        Box::pin(async move {
            if half_way {
                server.lock().await.kill().await.ok();
            }
            HandlerOutcome::ack()
        })
    });
    outage.start(service).await?;
    let open = handled.or_open(&outage.database).await?;
    assert!((1..=OPEN / 2).contains(&open), "{open} are open");
    outage.is_over(&mut handled).await
}

/// Open records, and a server that a test ends.
struct Outage<D> {
    broker: Broker,
    database: Database,
    names: Names,
    server: Arc<Mutex<Server>>,
    url: String,
    driver: PhantomData<D>,
}

impl<D: Driver> Outage<D> {
    async fn new(broker: Broker) -> Result<Self> {
        Logs::listen();
        let (database, names) = (Database::create(D::KIND).await?, Names::unique());
        database.store(&names.payments, OPEN.try_into()?).await?;
        let server = Server::start(broker).await?;
        Ok(Self {
            broker,
            database,
            names,
            url: server.url(),
            server: Arc::new(Mutex::new(server)),
            driver: PhantomData,
        })
    }

    fn service(&self) -> Result<Builder<D>> {
        let service = Service::on(self.broker, &self.database, &self.names)?;
        Ok(service.server(self.url.clone()))
    }

    /// The republish ends: with an error that says what is open, or, where the client takes what it
    /// cannot send, after it has said that nobody receives. So does the start, unless Redis's client,
    /// whose shutdown may never return while its server is away, keeps it.
    async fn start(&self, service: Builder<D>) -> Result {
        let name = &*self.names.payments;
        let (said, republished) = oneshot::channel();
        let start = tokio::spawn(service.republished(said).start());
        let republished = soon("the republish's end", republished).await??;
        if let Err(text) = republished {
            assert!(text.contains("open records were not sent again"), "{text}");
            assert!(text.contains(name), "{text}");
            return match soon("the start's end", start).await {
                Ok(started) => {
                    let error = started?
                        .err()
                        .ok_or("it started, and the republish failed")?;
                    assert!(error.to_string().contains(&text), "{error}");
                    Ok(())
                }
                Err(_) if self.broker == Broker::Redis => Ok(()),
                Err(late) => Err(late),
            };
        }
        let service = soon("the start's end", start).await???;
        let said = Logs::listen().lines(&["WARN", name, "the receiver is elsewhere"]);
        assert_eq!(said.len(), 1, "{said:?}");
        soon("the stop's end", service.stop()).await?
    }

    /// The server is back, and the next start sends what is open.
    async fn is_over(&self, handled: &mut Handled) -> Result {
        self.server.lock().await.restart().await?;
        let (taken, more) = Handled::new();
        let before = mem::replace(handled, more);
        handled.all = before.all;
        let service = self.service()?.handler(acknowledge(taken, Duration::ZERO));
        let service = service.start().await?;
        handled.distinct(OPEN).await?;
        service.stop().await?;
        assert_eq!(handled.or_open(&self.database).await?, 0);
        Ok(())
    }
}
