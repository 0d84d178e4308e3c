//! The service: its database, its handlers, and the outbox around them.

use std::convert::Infallible;
use std::sync::Arc;

use outbox_sqlite::{Sqlite, outbox};
use ruststream_nats::NatsSubscription;
use ruststream_nats::prelude::*;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};

use crate::handlers::{Shop, ship, take_payment};
use crate::record::PaymentOutbox;

/// Instances of the service in one group share its messages.
const GROUP: &str = "shop";

/// What the service is started with.
#[derive(Debug, Clone, clap::Args)]
pub struct Settings {
    /// The URL of the NATS server.
    #[arg(long, env = "OUTBOX_NATS_URL", hide_env_values = true, global = true)]
    #[arg(default_value = "nats://127.0.0.1:4222")]
    pub nats: String,
    /// The URL of the SQLite database; the file is made where there is none.
    #[arg(long, default_value = "sqlite://nats-core.db", global = true)]
    pub database: String,
    /// The shop's name, which its subjects begin with.
    #[arg(long, default_value = "north", global = true)]
    pub shop: String,
}

/// Why the database could not be prepared, or not be given to the outbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is no connection.
    #[error("the database could not be opened")]
    Database(#[from] sqlx::Error),
    /// The tables are not there.
    #[error("the migrations were not applied")]
    Migrations(#[from] sqlx::migrate::MigrateError),
    /// The outbox has a pool already.
    #[error(transparent)]
    Outbox(#[from] outbox::OutboxError),
}

/// Opens the database, and applies the migrations that it does not have.
///
/// # Errors
///
/// There is no connection, or a migration failed.
pub async fn open(url: &str) -> Result<SqlitePool, StartError> {
    let options = url
        .parse::<SqliteConnectOptions>()?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal);
    let pool = SqlitePool::connect_with(options).await?;
    sqlx::migrate!().run(&pool).await?;
    Ok(pool)
}

/// Builds the service. Nothing is opened before it starts.
#[must_use]
pub fn service(settings: Settings) -> impl App {
    let Settings {
        nats,
        database,
        shop,
    } = settings;
    // `outbox! { .. }` is for names that the compiler knows.
    let tracking =
        outbox::Outbox::<Sqlite>::deferred().register::<PaymentOutbox>(format!("{shop}.payments"));
    let registry = tracking.clone();
    let name = Arc::from(shop.as_str());
    RustStream::new(AppInfo::new("nats-core", env!("CARGO_PKG_VERSION")))
        .on_startup(async move |()| {
            let pool = open(&database).await?;
            registry.set_pool(pool.clone())?;
            Ok::<_, StartError>(Shop { name, pool })
        })
        .layer(tracking.layer())
        .publish_layer(tracking.publish_layer())
        .after_shutdown(async move |shop: Arc<Shop>| {
            shop.pool.close().await;
            Ok::<_, Infallible>(())
        })
        .with_broker(NatsBroker::new(nats), |b| {
            let of_shop = |source: CoreSubject| {
                let subject = format!("{shop}.{}", source.subject());
                CoreSubject::new(subject).queue_group(GROUP)
            };
            b.include(take_payment.map_source(of_shop))
                .out(DefaultSlot, Publish)
                .build();
            b.include(ship.map_source(of_shop));
            b.after_startup(Publish, tracking.republish());
        })
}
