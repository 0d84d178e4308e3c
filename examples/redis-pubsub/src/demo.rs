//! The demo: payments are taken, the receiver is killed in the middle, and what became of each order
//! is counted.

use std::env;
use std::time::Duration;

use chrono::Utc;
use sqlx::PgPool;
use tokio::time::{Instant, sleep};

use crate::handlers::Payment;
use crate::service::Settings;
use crate::till::Till;
use crate::{Error, receiver};

/// How many payments are taken while the receiver runs, and how many after it was killed.
const ORDERS: i64 = 100;
const ORDERS_AFTER: i64 = 20;

/// The receiver is killed when this many orders are done.
const BEFORE_THE_KILL: i64 = 30;

/// The longest that the demo waits for the receiver.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the demo in a shop of its own.
///
/// # Errors
///
/// A payment was lost, or a server could not be reached.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let shop = format!("demo-{}", Utc::now().timestamp_millis());
    let settings = Settings { shop, ..settings };
    let program = env::current_exe()?;
    let till = Till::open(&settings).await?;
    let books = Books {
        shop: &settings.shop,
        pool: &till.pool,
    };

    let mut receiver = receiver::start(&program, &settings).await?;
    println!("started the receiver");
    take(&till, 1..=ORDERS).await?;
    books
        .until(async || Ok(books.done().await? >= BEFORE_THE_KILL))
        .await?;
    receiver.kill().await?;
    let done = books.done().await?;
    println!("killed the receiver (SIGKILL) after {ORDERS} payments, {done} orders done");
    take(&till, ORDERS + 1..=ORDERS + ORDERS_AFTER).await?;
    println!("took {ORDERS_AFTER} payments more, while nobody listens");

    let open = books.open().await?;
    let mut receiver = receiver::start(&program, &settings).await?;
    println!("started the receiver again, it found {open} open records");
    books.until(async || Ok(books.open().await? == 0)).await?;
    receiver.kill().await?;

    let done = books.done().await?;
    let lost = ORDERS + ORDERS_AFTER - done;
    println!();
    println!("paid                    {:>4}", ORDERS + ORDERS_AFTER);
    println!("shipped or paid back    {done:>4}");
    println!("lost                    {lost:>4}");
    till.close().await?;
    if lost == 0 {
        Ok(())
    } else {
        Err(format!("{lost} payments were lost").into())
    }
}

async fn take(till: &Till, orders: impl IntoIterator<Item = i64>) -> Result<(), Error> {
    for order in orders {
        let amount = order * 100;
        till.take(Payment { order, amount }).await?;
    }
    Ok(())
}

/// What the database says of a shop.
struct Books<'a> {
    shop: &'a str,
    pool: &'a PgPool,
}

impl Books<'_> {
    /// How many orders were shipped or paid back.
    async fn done(&self) -> Result<i64, Error> {
        self.count("SELECT count(*) FROM orders WHERE shop = $1")
            .await
    }

    /// How many records are open.
    async fn open(&self) -> Result<i64, Error> {
        let count = "SELECT count(*) FROM outbox WHERE processed_at IS NULL \
                     AND name IN ($1 || '.payments', $1 || '.refunds')";
        self.count(count).await
    }

    async fn count(&self, count: &'static str) -> Result<i64, Error> {
        let count = sqlx::query_scalar(count).bind(self.shop);
        Ok(count.fetch_one(self.pool).await?)
    }

    /// Asks until the answer is yes.
    async fn until(&self, is_so: impl AsyncFn() -> Result<bool, Error>) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so().await? {
            if Instant::now() > deadline {
                let (open, done) = (self.open().await?, self.done().await?);
                return Err(format!("no progress: {open} records open, {done} orders done").into());
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}
