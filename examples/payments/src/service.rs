//! The service: its database, its handlers, and the outbox around them.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use outbox_sqlite::{Sqlite, outbox};
use ruststream::memory::prelude::*;
use ruststream::runtime::Bound;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::handlers::{ShipmentLog, ship, take_payment};
use crate::record::PaymentOutbox;

/// What the service is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The URL of its SQLite database.
    pub database: String,
    /// The file of the shipped orders.
    pub log: PathBuf,
}

/// The app, and what publishes payments beside it.
#[derive(Debug)]
pub struct Service<A> {
    /// The messaging side.
    pub app: A,
    /// A publisher for the time after the start.
    pub publisher: Bound<MemoryBroker, Publish>,
    /// The registry of the payments.
    pub tracking: outbox::Handle<Sqlite, PaymentOutbox>,
}

/// The state of the app.
#[derive(Debug, FromRef)]
pub struct Shop {
    /// The service's database.
    pub pool: SqlitePool,
    /// The shipped orders.
    pub shipped: ShipmentLog,
}

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The database could not be opened, or its table not be made.
    #[error("the database could not be prepared")]
    Database(#[from] sqlx::Error),
    /// The file of the shipped orders could not be opened.
    #[error("the shipment log could not be opened")]
    Log(#[from] io::Error),
    /// The outbox has a pool already.
    #[error(transparent)]
    Outbox(#[from] outbox::OutboxError),
}

/// Builds the service. Nothing is opened before its app starts.
#[must_use]
pub fn service(settings: Settings) -> Service<impl App> {
    let tracking = outbox! { "payments" => PaymentOutbox };
    let broker = MemoryBroker::new().bindable();
    let publisher = broker.bind(Publish);
    let registry = tracking.clone();
    let app = RustStream::new(AppInfo::new("payments", env!("CARGO_PKG_VERSION")))
        .on_startup(async move |()| {
            let pool = open(&settings.database).await?;
            registry.set_pool(pool.clone())?;
            let shipped = ShipmentLog::open(&settings.log)?;
            Ok::<_, StartError>(Shop { pool, shipped })
        })
        .layer(tracking.layer())
        .publish_layer(tracking.publish_layer())
        .after_shutdown(async move |shop: Arc<Shop>| {
            shop.pool.close().await;
            Ok::<_, Infallible>(())
        })
        .with_broker(broker, |b| {
            b.include(take_payment).out_reply(Publish);
            b.include(ship);
            b.after_startup(Publish, tracking.republish());
        });
    Service {
        app,
        publisher,
        tracking: tracking.handle("payments"),
    }
}

/// Opens the database and makes its table.
async fn open(url: &str) -> sqlx::Result<SqlitePool> {
    let options = url
        .parse::<SqliteConnectOptions>()?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let pool = SqlitePoolOptions::new()
        // A database in memory lives as long as a connection to it.
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(options)
        .await?;
    sqlx::raw_sql(outbox_sqlite::SCHEMA).execute(&pool).await?;
    Ok(pool)
}
