//! A shop of one test: its channels, its database, and a till.

mod database;

use std::env;
use std::time::Duration;

use outbox_postgres::outbox::{SWITCH_VARIABLE, is_on};
use redis_pubsub::Error;
use redis_pubsub::record::ShopOutbox;
use redis_pubsub::service::{Settings, service};
use redis_pubsub::till::Till;
use ruststream::prelude::*;
use sqlx::PgPool;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use self::database::Database;

pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

/// The longest that a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Stand {
    pub(crate) settings: Settings,
    pub(crate) till: Till,
    // Dropped last.
    _database: Database,
}

impl Stand {
    pub(crate) async fn new() -> Result<Self> {
        assert!(is_on(), "set {SWITCH_VARIABLE}=on to run this test");
        let database = Database::create(server("OUTBOX_POSTGRES_URL")).await?;
        let settings = Settings {
            redis: server("OUTBOX_REDIS_URL"),
            postgres: database.url.clone(),
            shop: format!("test-{}", Uuid::new_v4().simple()),
        };
        Ok(Self {
            till: Till::open(&settings).await?,
            settings,
            _database: database,
        })
    }

    /// Starts an instance of the service inside the test.
    pub(crate) async fn service(&self) -> Result<RunningApp> {
        Ok(service(self.settings.clone()).start().await?)
    }

    /// A channel of the shop, or the name of its records.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{}.{name}", self.settings.shop)
    }

    /// Every record, in the order of recording.
    pub(crate) async fn records(&self) -> Result<Vec<ShopOutbox>> {
        let select = sqlx::query_as("SELECT * FROM outbox ORDER BY id");
        Ok(select.fetch_all(self.pool()).await?)
    }

    /// What became of the orders, by their ids.
    pub(crate) async fn outcomes(&self) -> Result<Vec<(i64, String)>> {
        let select = sqlx::query_as("SELECT id, outcome FROM orders ORDER BY id");
        Ok(select.fetch_all(self.pool()).await?)
    }

    pub(crate) async fn execute(&self, sql: &'static str) -> Result {
        sqlx::raw_sql(sql).execute(self.pool()).await?;
        Ok(())
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.till.pool
    }

    /// Waits until this many records are processed, and none is open.
    pub(crate) async fn until_processed(&self, count: usize) -> Result {
        self.until("the mark of every record", async || {
            let records = self.records().await?;
            let processed = |record: &ShopOutbox| record.processed_at.is_some();
            Ok(records.len() == count && records.iter().all(processed))
        })
        .await
    }

    /// Waits until this many handlers are at their insert into a table that the test has locked.
    pub(crate) async fn until_blocked(&self, count: i64) -> Result {
        let select = "SELECT count(*) FROM pg_locks \
                      WHERE relation = 'orders'::regclass AND NOT granted";
        self.until("a handler that waits", async || {
            let waiting: i64 = sqlx::query_scalar(select).fetch_one(self.pool()).await?;
            Ok(waiting == count)
        })
        .await
    }

    async fn until(&self, what: &str, is_there: impl AsyncFn() -> Result<bool>) -> Result {
        let deadline = Instant::now() + PATIENCE;
        while !is_there().await? {
            if Instant::now() > deadline {
                let (records, outcomes) = (self.records().await?, self.outcomes().await?);
                return Err(format!("{what} did not come: {records:?} {outcomes:?}").into());
            }
            // tidy: sleep: what is waited for happens in the database, which has to be asked
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

fn server(variable: &str) -> String {
    env::var(variable)
        .unwrap_or_else(|_| panic!("set {variable} to the URL of a server: README.md starts one"))
}
