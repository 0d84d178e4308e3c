//! The production app on an SQLite database in memory, with the outbox on and off.

use std::error::Error;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use outbox_sqlite::outbox::{self, OUTBOX_ID_HEADER, SWITCH_VARIABLE};
use payments::client::Client;
use payments::handlers::{Checkout, Payment};
use payments::http;
use payments::record::PaymentOutbox;
use payments::service::{Settings, service};
use ruststream::memory::prelude::*;
use ruststream::testing::TestApp;
use sqlx::SqlitePool;
use tempfile::TempDir;
use tokio::net::TcpListener;

const CHECKOUT: Checkout = Checkout {
    order: 7,
    amount: 1250,
};
const PAYMENT: Payment = Payment {
    order: 7,
    amount: 1250,
};

#[tokio::test]
async fn a_payment_is_recorded_sent_with_its_id_and_marked_after_it_shipped()
-> Result<(), Box<dyn Error>> {
    if !outbox_is(true) {
        return Ok(());
    }
    let shop = Shop::new().await?;
    let app = TestApp::start(service(shop.settings()).app).await?;
    let broker = app.broker::<MemoryBroker>();

    broker.message(&CHECKOUT).publish().await?;

    broker
        .published::<Payment>("payments")
        .assert_called_once()
        .with(&PAYMENT)
        .with_header(OUTBOX_ID_HEADER, "1");
    broker
        .subscriber("payments")
        .assert_called_once()
        .settled(HandlerOutcome::ack());
    assert_eq!(shop.shipped()?, "7\n");
    let records = shop.records().await?;
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].id, &*records[0].name), (1, "payments"));
    assert_eq!(records[0].payload, serde_json::to_vec(&PAYMENT)?);
    assert!(records[0].processed_at.is_some());
    app.shutdown().await?;
    Ok(())
}

#[tokio::test]
async fn a_record_that_an_earlier_instance_left_open_is_shipped_after_the_start()
-> Result<(), Box<dyn Error>> {
    if !outbox_is(true) {
        return Ok(());
    }
    let shop = Shop::new().await?;
    sqlx::query("INSERT INTO outbox (name, payload) VALUES ('payments', ?)")
        .bind(serde_json::to_vec(&PAYMENT)?)
        .execute(&shop.database)
        .await?;

    let app = TestApp::start(service(shop.settings()).app).await?;
    app.settle().await?;

    app.broker::<MemoryBroker>()
        .subscriber("payments")
        .assert_called_once()
        .with(&PAYMENT)
        .settled(HandlerOutcome::ack());
    assert_eq!(shop.shipped()?, "7\n");
    let records = shop.records().await?;
    assert_eq!(records.len(), 1);
    assert!(records[0].processed_at.is_some());
    app.shutdown().await?;
    Ok(())
}

#[tokio::test]
async fn the_http_endpoint_answers_202_once_the_record_is_there() -> Result<(), Box<dyn Error>> {
    if !outbox_is(true) {
        return Ok(());
    }
    let shop = Shop::new().await?;
    let service = service(shop.settings());
    let running = service.app.start().await?;
    let publisher = running.publisher(service.publisher).await?;
    let router = http::router(service.tracking.wrap(publisher), running.health());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let client = Client::new(&format!("http://{}", listener.local_addr()?));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let health = client.health().await.unwrap();
    assert!(health.outbox && health.ready);

    client.checkout(CHECKOUT).await.unwrap();
    let records = shop.records().await?;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].payload, serde_json::to_vec(&PAYMENT)?);

    sqlx::query("ALTER TABLE outbox RENAME TO elsewhere")
        .execute(&shop.database)
        .await?;
    let refused = client.checkout(CHECKOUT).await.unwrap_err().to_string();
    assert!(refused.starts_with("503"), "{refused}");
    assert!(refused.contains("no such table: outbox"), "{refused}");

    running.shutdown().await?;
    Ok(())
}

#[tokio::test]
async fn switch_off_the_service_works_and_records_nothing() -> Result<(), Box<dyn Error>> {
    if !outbox_is(false) {
        return Ok(());
    }
    let shop = Shop::new().await?;
    let app = TestApp::start(service(shop.settings()).app).await?;
    let broker = app.broker::<MemoryBroker>();

    broker.message(&CHECKOUT).publish().await?;

    broker
        .subscriber("payments")
        .assert_called_once()
        .with(&PAYMENT)
        .settled(HandlerOutcome::ack());
    assert_eq!(shop.shipped()?, "7\n");
    assert!(shop.records().await?.is_empty());
    app.shutdown().await?;
    Ok(())
}

#[test]
fn the_demo_loses_nothing() {
    let done = Command::new(env!("CARGO_BIN_EXE_payments"))
        .arg("demo")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}\n{why}");
    let last = said.lines().last().unwrap_or_default();
    assert_eq!(last.split_whitespace().collect::<Vec<_>>(), ["lost", "0"]);
}

/// A database in memory that the service opens by its URL, and a place for its shipments.
struct Shop {
    url: String,
    database: SqlitePool,
    folder: TempDir,
}

impl Shop {
    async fn new() -> Result<Self, Box<dyn Error>> {
        static SHOPS: AtomicU32 = AtomicU32::new(0);

        let shop = SHOPS.fetch_add(1, Ordering::Relaxed);
        let url = format!("sqlite:file:shop-{shop}?mode=memory");
        let database = SqlitePool::connect(&url).await?;
        sqlx::raw_sql(outbox_sqlite::SCHEMA)
            .execute(&database)
            .await?;
        let folder = tempfile::tempdir()?;
        Ok(Self {
            url,
            database,
            folder,
        })
    }

    fn settings(&self) -> Settings {
        Settings {
            database: self.url.clone(),
            log: self.folder.path().join("shipped.log"),
        }
    }

    fn shipped(&self) -> Result<String, Box<dyn Error>> {
        Ok(fs::read_to_string(self.settings().log)?)
    }

    async fn records(&self) -> sqlx::Result<Vec<PaymentOutbox>> {
        sqlx::query_as("SELECT * FROM outbox")
            .fetch_all(&self.database)
            .await
    }
}

/// Whether the outbox of this process is as a test needs it. The environment decides, once.
fn outbox_is(on: bool) -> bool {
    if outbox::is_on() == on {
        return true;
    }
    let set = if on { "set" } else { "do not set" };
    let skipped = format!("SKIPPED: {set} {SWITCH_VARIABLE}=on to run this test");
    let denied = std::env::var("OUTBOX_DENY_SKIPS").is_ok_and(|deny| deny == "1");
    assert!(!denied, "{skipped}");
    println!("{skipped}");
    false
}
