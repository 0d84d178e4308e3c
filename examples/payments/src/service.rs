//! The service: its database, its handlers, and the outbox around them.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use outbox_sqlite::outbox;
use ruststream::memory::prelude::*;
use ruststream::runtime::Bound;

use crate::database::Database;
use crate::error::Error;
use crate::handlers::{ShipmentLog, ship, take_payment};
use crate::record::PaymentOutbox;

/// What the service is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The URL of its database.
    pub database: String,
    /// The file of the shipped orders.
    pub log: PathBuf,
}

/// The app, and what publishes payments beside it.
#[derive(Debug)]
pub struct Service<A, D: Database> {
    /// The messaging side.
    pub app: A,
    /// A publisher for the time after the start.
    pub publisher: Bound<MemoryBroker, Publish>,
    /// The registry of the payments.
    pub tracking: outbox::Handle<D, PaymentOutbox>,
}

/// The state of the app.
#[derive(Debug)]
pub struct Shop<P> {
    /// The service's database.
    pub pool: P,
    /// The shipped orders.
    pub shipped: ShipmentLog,
}

impl<P> FromRef<Shop<P>> for ShipmentLog {
    fn from_ref(shop: &Shop<P>) -> Self {
        shop.shipped.clone()
    }
}

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The database could not be opened, or its table not be made.
    #[error("the database could not be prepared")]
    Database(#[source] Error),
    /// The file of the shipped orders could not be opened.
    #[error("the shipment log could not be opened")]
    Log(#[from] io::Error),
    /// The outbox has a pool already.
    #[error(transparent)]
    Outbox(#[from] outbox::OutboxError),
}

/// Builds the service on a database. Nothing is opened before its app starts.
#[must_use]
pub fn service<D: Database>(settings: Settings) -> Service<impl App, D>
where
    PaymentOutbox: outbox::Publish<D>,
{
    let tracking = outbox! { driver: D, "payments" => PaymentOutbox };
    let broker = MemoryBroker::new().bindable();
    let publisher = broker.bind(Publish);
    let registry = tracking.clone();
    let app = RustStream::new(AppInfo::new("payments", env!("CARGO_PKG_VERSION")))
        .on_startup(async move |()| {
            let pool = D::open(&settings.database).await;
            let pool = pool.map_err(StartError::Database)?;
            registry.set_pool(pool.clone())?;
            let shipped = ShipmentLog::open(&settings.log)?;
            Ok::<_, StartError>(Shop { pool, shipped })
        })
        .layer(tracking.layer())
        .publish_layer(tracking.publish_layer())
        .after_shutdown(async move |shop: Arc<Shop<D::Pool>>| {
            D::close(&shop.pool).await;
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
