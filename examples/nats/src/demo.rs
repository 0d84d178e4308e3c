//! The demo: customers check out, the service is killed in the middle, and what became of each order
//! is counted.

use std::env;
use std::time::Duration;

use chrono::Utc;
use sqlx::SqlitePool;
use tokio::time::{Instant, sleep};

use crate::customer::Customer;
use crate::handlers::Checkout;
use crate::service::{Settings, open};
use crate::{Error, instance};

/// How many customers check out.
const ORDERS: i64 = 100;

/// How many of them do before the service is killed.
const BEFORE_THE_KILL: i64 = 60;

/// The longest that the demo waits for the service.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the demo in a shop of its own.
///
/// # Errors
///
/// An order was lost, or a server could not be reached.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let shop = format!("demo-{}", Utc::now().timestamp_millis());
    let settings = Settings { shop, ..settings };
    let program = env::current_exe()?;
    let books = Books {
        shop: &settings.shop,
        pool: open(&settings.database).await?,
    };
    let customer = Customer::connect(&settings).await?;

    let mut service = instance::start(&program, &settings).await?;
    println!("started the service");
    check_out(&customer, 1..=BEFORE_THE_KILL).await?;
    service.kill().await?;
    let shipped = books.shipped().await?;
    println!("killed the service (SIGKILL) after {BEFORE_THE_KILL} checkouts, {shipped} shipped");
    match check_out(&customer, [BEFORE_THE_KILL + 1]).await {
        Ok(()) => return Err("a service that was killed sent a receipt".into()),
        Err(error) => println!("the next customer got no receipt: {error}"),
    }

    let open = books.open().await?;
    let mut service = instance::start(&program, &settings).await?;
    println!("started the service again, it found {open} open records");
    check_out(&customer, BEFORE_THE_KILL + 1..=ORDERS).await?;
    books.until_all_are_closed().await?;
    service.kill().await?;

    let shipped = books.shipped().await?;
    let lost = ORDERS - shipped;
    println!();
    println!("with a receipt  {ORDERS:>4}");
    println!("shipped         {shipped:>4}");
    println!("lost            {lost:>4}");
    customer.close().await?;
    books.pool.close().await;
    if lost == 0 {
        Ok(())
    } else {
        Err(format!("{lost} orders were lost").into())
    }
}

async fn check_out(
    customer: &Customer,
    orders: impl IntoIterator<Item = i64>,
) -> Result<(), Error> {
    for order in orders {
        let amount = order * 100;
        customer.checkout(Checkout { order, amount }).await?;
    }
    Ok(())
}

/// What the database says of a shop.
struct Books<'a> {
    shop: &'a str,
    pool: SqlitePool,
}

impl Books<'_> {
    async fn shipped(&self) -> Result<i64, Error> {
        self.count("SELECT count(*) FROM shipped WHERE shop = ?")
            .await
    }

    /// How many records are open.
    async fn open(&self) -> Result<i64, Error> {
        let count = "SELECT count(*) FROM outbox \
                     WHERE processed_at IS NULL AND name = ? || '.payments'";
        self.count(count).await
    }

    async fn count(&self, count: &'static str) -> Result<i64, Error> {
        let count = sqlx::query_scalar(count).bind(self.shop);
        Ok(count.fetch_one(&self.pool).await?)
    }

    async fn until_all_are_closed(&self) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while self.open().await? > 0 {
            if Instant::now() > deadline {
                let open = self.open().await?;
                return Err(format!("{open} records are still open").into());
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}
