//! The demo: customers check out, the service is killed in the middle, and what became of every
//! order is counted.

mod folder;
mod instance;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, sleep};

use self::folder::Folder;
use self::instance::Instance;
use crate::client::Client;
use crate::database::Database;
use crate::error::Error;
use crate::handlers::Checkout;

/// How many customers check out.
const ORDERS: u64 = 50;

/// How many checkouts are under way at once.
const IN_FLIGHT: usize = 8;

/// The service is killed when this many customers were told that it accepted.
const BEFORE_THE_KILL: usize = 25;

/// The longest that the demo waits for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the demo, and returns how many accepted orders were lost. Without the URL of an empty
/// database it takes a file that goes away with it.
///
/// # Errors
///
/// The database has records, or the service did not start, did not answer, or left records open.
pub async fn run<D: Database>(database: Option<String>) -> Result<usize, Error> {
    let folder = Folder::new()?;
    let database = database.unwrap_or_else(|| folder.database());
    must_be_empty::<D>(&database).await?;
    let lost = kill_in_the_middle::<D>(&folder, &database).await;
    if !matches!(lost, Ok(0)) {
        eprintln!("what the service logged:\n{}", folder.service_log());
    }
    lost
}

async fn kill_in_the_middle<D: Database>(folder: &Folder, url: &str) -> Result<usize, Error> {
    let service = Instance::start::<D>(folder, url).await?;
    println!("started the service, its outbox is on");

    let mut accepted = BTreeSet::new();
    let mut answers = post((1..=ORDERS).collect(), &service.client);
    while accepted.len() < BEFORE_THE_KILL {
        let (order, answer) = answers.recv().await.ok_or("a checkout has no answer")?;
        answer?;
        accepted.insert(order);
    }
    // Meanwhile the customers wait: nobody posts on before an answer is taken here.
    eventually("the first shipment", async || {
        Ok(!folder.shipped()?.is_empty())
    })
    .await?;
    service.kill().await?;
    while let Some((order, answer)) = answers.recv().await {
        if answer.is_ok() {
            accepted.insert(order);
        }
    }
    let (posted, shipped) = (accepted.len(), folder.shipped()?.len());
    println!(
        "killed the service (SIGKILL) after {posted} of {ORDERS} checkouts, {shipped} shipped"
    );

    let database = D::open(url).await?;
    let open = async || Ok::<_, Error>(D::count(&database).await?.1);
    let left = open().await?;
    let service = Instance::start::<D>(folder, url).await?;
    println!("started the service again, it found {left} open records");

    let unanswered: VecDeque<u64> = (1..=ORDERS).filter(|id| !accepted.contains(id)).collect();
    println!("posting the {} checkouts that got no 202", unanswered.len());
    let mut answers = post(unanswered, &service.client);
    while let Some((order, answer)) = answers.recv().await {
        answer?;
        accepted.insert(order);
    }
    let closed = eventually("the end of the backlog", async || Ok(open().await? == 0)).await;
    service.kill().await?;

    let (recorded, _) = D::count(&database).await?;
    D::close(&database).await;
    let shipped = folder.shipped()?;
    let twice = shipped.values().filter(|times| **times > 1).count();
    let lost = accepted
        .iter()
        .filter(|id| !shipped.contains_key(id))
        .count();
    println!();
    println!("accepted (202)  {:>3}", accepted.len());
    println!("recorded        {recorded:>3}");
    println!("shipped         {:>3}", shipped.len());
    println!("shipped twice   {twice:>3}");
    println!("lost            {lost:>3}");
    closed.map(|()| lost)
}

/// Posts checkouts, some at once, and tells each answer. A customer who gets none gives up.
fn post(orders: VecDeque<u64>, client: &Client) -> Receiver<(u64, Result<(), Error>)> {
    let (told, answers) = channel(1);
    let orders = Arc::new(Mutex::new(orders));
    for _ in 0..IN_FLIGHT {
        let (client, told, orders) = (client.clone(), told.clone(), Arc::clone(&orders));
        let next = move || {
            orders
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front()
        };
        tokio::spawn(async move {
            while let Some(order) = next() {
                let amount = order * 100;
                let answer = client.checkout(Checkout { order, amount }).await;
                let failed = answer.is_err();
                if told.send((order, answer)).await.is_err() || failed {
                    return;
                }
            }
        });
    }
    answers
}

/// The demo counts from zero.
async fn must_be_empty<D: Database>(url: &str) -> Result<(), Error> {
    let database = D::open(url).await?;
    let (recorded, _) = D::count(&database).await?;
    D::close(&database).await;
    if recorded > 0 {
        let full = format!("the table `outbox` has {recorded} records: name an empty database");
        return Err(full.into());
    }
    Ok(())
}

/// Asks until the answer is yes.
async fn eventually(
    what: &str,
    is_there: impl AsyncFn() -> Result<bool, Error>,
) -> Result<(), Error> {
    let deadline = Instant::now() + PATIENCE;
    while !is_there().await? {
        if Instant::now() > deadline {
            return Err(format!("{what} did not come within {PATIENCE:?}").into());
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
