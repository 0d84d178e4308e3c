//! The service: its database, its handlers, and the outbox around them.

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Arc;

use outbox_postgres::{Postgres, outbox};
use ruststream_fred::pubsub::prelude::*;
use sqlx::PgPool;

use crate::handlers::{Shop, pay_back, ship};
use crate::record::ShopOutbox;

/// How often a message is delivered, at most. A copy for a retry goes to every instance, and each one
/// that fails makes copies of its own: without an end their number would double every time.
const ATTEMPTS: NonZeroU32 = nonzero!(5u32);

/// What the service is started with.
#[derive(Debug, Clone, clap::Args)]
pub struct Settings {
    /// The URL of the Redis server.
    #[arg(long, env = "OUTBOX_REDIS_URL", hide_env_values = true, global = true)]
    #[arg(default_value = "redis://127.0.0.1:6379")]
    pub redis: String,
    /// The URL of the Postgres database.
    #[arg(
        long,
        env = "OUTBOX_POSTGRES_URL",
        hide_env_values = true,
        global = true
    )]
    #[arg(default_value = "postgres://shop:shop@127.0.0.1:5432/shop")]
    pub postgres: String,
    /// The shop's name, which its channels begin with: a Redis server has one set of channels,
    /// whatever the number of the database in its URL.
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
pub async fn open(url: &str) -> Result<PgPool, StartError> {
    let pool = PgPool::connect(url).await?;
    sqlx::migrate!().run(&pool).await?;
    Ok(pool)
}

/// Builds the service. Nothing is opened before it starts.
#[must_use]
pub fn service(settings: Settings) -> impl App {
    let Settings {
        redis,
        postgres,
        shop,
    } = settings;
    // `outbox! { .. }` is for names that the compiler knows.
    let tracking = outbox::Outbox::<Postgres>::deferred()
        .register::<ShopOutbox>(format!("{shop}.payments"))
        .register::<ShopOutbox>(format!("{shop}.refunds"));
    let registry = tracking.clone();
    let name = Arc::from(shop.as_str());
    RustStream::new(AppInfo::new("redis-pubsub", env!("CARGO_PKG_VERSION")))
        .on_startup(async move |()| {
            let pool = open(&postgres).await?;
            registry.set_pool(pool.clone())?;
            Ok::<_, StartError>(Shop { name, pool })
        })
        .layer(tracking.layer())
        .publish_layer(tracking.publish_layer())
        .after_shutdown(async move |shop: Arc<Shop>| {
            shop.pool.close().await;
            Ok::<_, Infallible>(())
        })
        .with_broker(RedisBroker::standalone(redis), |b| {
            let of_shop = |source: RedisPubSub| channel(&shop, source.channel());
            b.include(ship.map_source(of_shop))
                .max_attempts(ATTEMPTS)
                .out(DefaultSlot, Publish::new())
                .build();
            b.include(pay_back.map_source(of_shop))
                .max_attempts(ATTEMPTS);
            b.after_startup(Publish::new(), tracking.republish());
        })
}

/// A channel of the shop's own.
fn channel(shop: &str, name: &str) -> RedisPubSub {
    // What comes faster than it is handled waits here. Past it Redis Pub/Sub drops messages, and
    // their records wait for the next start.
    RedisPubSub::new(format!("{shop}.{name}")).buffer(nonzero!(1024))
}
