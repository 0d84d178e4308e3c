//! The production app on every database through every driver, with the outbox on and off.

mod stand;

use outbox_postgres::{Postgres, TokioPostgres};
use outbox_sqlite::outbox::{self, OUTBOX_ID_HEADER};
use outbox_sqlite::{Rusqlite, Sqlite};
use payments::client::Client;
use payments::database::Database;
use payments::handlers::{Checkout, Payment};
use payments::http;
use payments::record::PaymentOutbox;
use payments::service::service;
use ruststream::OutgoingMessage;
use ruststream::memory::prelude::*;
use ruststream::testing::TestApp;
use tokio::net::TcpListener;
use tokio::process::Command;

use self::stand::{Result, Row, Shop, outbox_is};

/// The cases on one driver.
macro_rules! on {
    ($module:ident, $driver:ty, $shop:expr) => {
        mod $module {
            tests! { $driver, $shop;
                a_payment_is_recorded_sent_with_its_id_and_marked_after_it_shipped,
                a_record_that_an_earlier_instance_left_open_is_shipped_after_the_start,
                the_http_endpoint_answers_202_once_the_record_is_there,
                switch_off_the_service_works_and_records_nothing,
                the_demo_loses_nothing,
            }
        }
    };
}

macro_rules! tests {
    ($driver:ty, $shop:expr; $($case:ident,)*) => {
        $(
            #[tokio::test]
            async fn $case() -> crate::Result {
                match $shop? {
                    Some(shop) => super::$case::<$driver>(&shop).await,
                    None => Ok(()),
                }
            }
        )*
    };
}

on! { sqlite_sqlx, crate::Sqlite, crate::Shop::on_sqlite() }
on! { sqlite_rusqlite, crate::Rusqlite, crate::Shop::on_sqlite() }
on! { postgres_sqlx, crate::Postgres, crate::Shop::on_postgres().await }
on! { postgres_tokio, crate::TokioPostgres, crate::Shop::on_postgres().await }

const CHECKOUT: Checkout = Checkout {
    order: 7,
    amount: 1250,
};
const PAYMENT: Payment = Payment {
    order: 7,
    amount: 1250,
};

async fn a_payment_is_recorded_sent_with_its_id_and_marked_after_it_shipped<D: Database>(
    shop: &Shop,
) -> Result
where
    PaymentOutbox: outbox::Publish<D>,
{
    if !outbox_is(true) {
        return Ok(());
    }
    let app = TestApp::start(service::<D>(shop.settings()).app).await?;
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
    assert_eq!(shop.records().await?, [record("processed")?]);
    app.shutdown().await?;
    Ok(())
}

async fn a_record_that_an_earlier_instance_left_open_is_shipped_after_the_start<D: Database>(
    shop: &Shop,
) -> Result
where
    PaymentOutbox: outbox::Publish<D>,
{
    if !outbox_is(true) {
        return Ok(());
    }
    let pool = D::open(&shop.url()).await?;
    let payload = serde_json::to_vec(&PAYMENT)?;
    let message = OutgoingMessage::new("payments", &payload);
    let mut conn = D::acquire(&pool).await?;
    <PaymentOutbox as outbox::Publish<D>>::publish(&mut conn, &message).await?;
    drop(conn);
    D::close(&pool).await;
    assert_eq!(shop.records().await?, [record("open")?]);

    let app = TestApp::start(service::<D>(shop.settings()).app).await?;
    app.settle().await?;

    app.broker::<MemoryBroker>()
        .subscriber("payments")
        .assert_called_once()
        .with(&PAYMENT)
        .settled(HandlerOutcome::ack());
    assert_eq!(shop.shipped()?, "7\n");
    assert_eq!(shop.records().await?, [record("processed")?]);
    app.shutdown().await?;
    Ok(())
}

async fn the_http_endpoint_answers_202_once_the_record_is_there<D: Database>(shop: &Shop) -> Result
where
    PaymentOutbox: outbox::Publish<D>,
{
    if !outbox_is(true) {
        return Ok(());
    }
    let service = service::<D>(shop.settings());
    let running = service.app.start().await?;
    let publisher = running.publisher(service.publisher).await?;
    let router = http::router(service.tracking.wrap(publisher), running.health());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let client = Client::new(&format!("http://{}", listener.local_addr()?));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let health = client.health().await?;
    assert!(health.outbox && health.ready);

    client.checkout(CHECKOUT).await?;
    let records = shop.records().await?;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].2, serde_json::to_vec(&PAYMENT)?);

    shop.execute("ALTER TABLE outbox RENAME TO elsewhere")
        .await?;
    let refused = client.checkout(CHECKOUT).await;
    let refused = refused.expect_err("the table is away").to_string();
    assert!(refused.starts_with("503"), "{refused}");
    let missing = [
        "no such table: outbox",
        "relation \"outbox\" does not exist",
    ];
    assert!(
        missing.iter().any(|missing| refused.contains(missing)),
        "{refused}"
    );

    running.shutdown().await?;
    Ok(())
}

async fn switch_off_the_service_works_and_records_nothing<D: Database>(shop: &Shop) -> Result
where
    PaymentOutbox: outbox::Publish<D>,
{
    if !outbox_is(false) {
        return Ok(());
    }
    let app = TestApp::start(service::<D>(shop.settings()).app).await?;
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

async fn the_demo_loses_nothing<D: Database>(shop: &Shop) -> Result {
    demo(&["--database", &shop.url(), "--driver", D::DRIVER]).await
}

#[tokio::test]
async fn the_demo_loses_nothing_without_any_option() -> Result {
    demo(&[]).await
}

async fn demo(options: &[&str]) -> Result {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_payments"));
    let done = demo.arg("demo").args(options).output().await?;
    let said = String::from_utf8_lossy(&done.stdout);
    let why = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}\n{why}");
    let last = said.lines().last().unwrap_or_default();
    assert_eq!(last.split_whitespace().collect::<Vec<_>>(), ["lost", "0"]);
    Ok(())
}

/// The one record of [`PAYMENT`].
fn record(state: &str) -> Result<Row> {
    let payload = serde_json::to_vec(&PAYMENT)?;
    Ok((1, "payments".to_owned(), payload, state.to_owned()))
}
