//! What the handlers of a test were given.

use std::collections::BTreeSet;
use std::time::Duration;

use broker_tests::{Database, Delivery, Handling, Outlet, Result};
use ruststream::runtime::HandlerOutcome;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

/// How long the handlers may have nothing to do while more has to come. Nothing that is measured.
const IDLE: Duration = Duration::from_secs(30);

/// The deliveries that handlers sent here, whichever service they are of.
pub(crate) struct Handled {
    receiver: UnboundedReceiver<Delivery>,
    pub(crate) all: Vec<Delivery>,
}

impl Handled {
    pub(crate) fn new() -> (UnboundedSender<Delivery>, Self) {
        let (sender, receiver) = unbounded_channel();
        let all = Vec::new();
        (sender, Self { receiver, all })
    }

    /// The next delivery.
    pub(crate) async fn next(&mut self) -> Result<&Delivery> {
        let next = timeout(IDLE, self.receiver.recv()).await;
        let so_far = self.payloads().len();
        let next = next.map_err(|_| format!("{so_far} were handled, and none in {IDLE:?}"))?;
        self.all.push(next.ok_or("every service is gone")?);
        Ok(&self.all[self.all.len() - 1])
    }

    /// Waits until there were `count` different payloads.
    pub(crate) async fn distinct(&mut self, count: usize) -> Result {
        while self.payloads().len() < count {
            self.next().await?;
        }
        Ok(())
    }

    /// Waits for a payload.
    pub(crate) async fn payload(&mut self, payload: &[u8]) -> Result {
        while !self.all.iter().any(|delivery| delivery.payload == payload) {
            self.next().await?;
        }
        Ok(())
    }

    /// What there is already.
    pub(crate) fn drain(&mut self) {
        while let Ok(delivery) = self.receiver.try_recv() {
            self.all.push(delivery);
        }
    }

    pub(crate) fn payloads(&self) -> BTreeSet<Vec<u8>> {
        let payloads = self.all.iter().map(|delivery| delivery.payload.clone());
        payloads.collect()
    }

    /// Every record was handled or is open, and none is both. All services have to be stopped.
    /// Returns how many are open.
    pub(crate) async fn or_open(&mut self, database: &Database) -> Result<usize> {
        self.drain();
        let handled = self.payloads();
        let rows = database.rows().await?;
        for row in &rows {
            let id = row.id;
            assert_eq!(
                handled.contains(&row.payload),
                !row.open,
                "record {id}: handled, or still open?"
            );
        }
        Ok(rows.iter().filter(|row| row.open).count())
    }
}

/// A handler that takes this long for a message, sends it to the test, and acknowledges it.
pub(crate) fn acknowledge(
    taken: UnboundedSender<Delivery>,
    work: Duration,
) -> impl for<'a> Fn(Delivery, &'a dyn Outlet) -> Handling<'a> + Send + Sync + 'static {
    move |delivery, _| {
        let taken = taken.clone();
        Box::pin(async move {
            sleep(work).await; // tidy: sleep: what a slow handler does
            taken.send(delivery).ok();
            HandlerOutcome::ack()
        })
    }
}
