//! A shop of one test: its subjects, its database, and a customer.

use std::env;
use std::time::Duration;

use nats_core::Error;
use nats_core::customer::Customer;
use nats_core::record::PaymentOutbox;
use nats_core::service::{Settings, open, service};
use outbox_sqlite::outbox::{SWITCH_VARIABLE, is_on};
use ruststream::prelude::*;
use sqlx::SqlitePool;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

/// The longest that a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Stand {
    pub(crate) settings: Settings,
    pub(crate) customer: Customer,
    pub(crate) pool: SqlitePool,
    _folder: TempDir,
}

impl Stand {
    pub(crate) async fn new() -> Result<Self> {
        assert!(is_on(), "set {SWITCH_VARIABLE}=on to run this test");
        let folder = tempfile::tempdir()?;
        let settings = Settings {
            nats: server("OUTBOX_NATS_URL"),
            database: format!("sqlite://{}", folder.path().join("shop.db").display()),
            shop: format!("test-{}", Uuid::new_v4().simple()),
        };
        Ok(Self {
            customer: Customer::connect(&settings).await?,
            pool: open(&settings.database).await?,
            settings,
            _folder: folder,
        })
    }

    /// Starts an instance of the service inside the test.
    pub(crate) async fn service(&self) -> Result<RunningApp> {
        Ok(service(self.settings.clone()).start().await?)
    }

    /// The subject of the payments, and the name of their records.
    pub(crate) fn payments(&self) -> String {
        format!("{}.payments", self.settings.shop)
    }

    /// Every record, in the order of recording.
    pub(crate) async fn records(&self) -> Result<Vec<PaymentOutbox>> {
        let select = sqlx::query_as("SELECT * FROM outbox ORDER BY id");
        Ok(select.fetch_all(&self.pool).await?)
    }

    /// The orders that were shipped.
    pub(crate) async fn shipped(&self) -> Result<Vec<i64>> {
        let select = sqlx::query_scalar("SELECT id FROM shipped ORDER BY id");
        Ok(select.fetch_all(&self.pool).await?)
    }

    pub(crate) async fn execute(&self, sql: &'static str) -> Result {
        sqlx::raw_sql(sql).execute(&self.pool).await?;
        Ok(())
    }

    /// Waits until this many records are processed, and none is open.
    pub(crate) async fn until_processed(&self, count: usize) -> Result {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let records = self.records().await?;
            let processed = |record: &PaymentOutbox| record.processed_at.is_some();
            if records.len() == count && records.iter().all(processed) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("{count} records were not processed: {records:?}").into());
            }
            // tidy: sleep: SQLite tells nobody that a row has changed
            sleep(Duration::from_millis(10)).await;
        }
    }
}

fn server(variable: &str) -> String {
    env::var(variable)
        .unwrap_or_else(|_| panic!("set {variable} to the URL of a server: README.md starts one"))
}
