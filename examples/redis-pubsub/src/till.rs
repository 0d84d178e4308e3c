//! A publisher outside the service: a payment is taken once its record is there.

use outbox_postgres::{Postgres, outbox};
use ruststream::{Broker, Connected, ConnectedBroker, PublishPolicy};
use ruststream_fred::RedisPubSubPublisher;
use ruststream_fred::pubsub::prelude::*;
use sqlx::PgPool;

use crate::Error;
use crate::handlers::Payment;
use crate::record::ShopOutbox;
use crate::service::{Settings, open};

/// The till of a shop, in a process of its own or beside the service.
#[derive(Debug)]
pub struct Till {
    shop: String,
    broker: Connected<RedisBroker>,
    payments: outbox::TrackedPublisher<RedisPubSubPublisher, outbox::Handle<Postgres, ShopOutbox>>,
    /// The database.
    pub pool: PgPool,
}

impl Till {
    /// Opens the database and connects to Redis.
    ///
    /// # Errors
    ///
    /// Either of them cannot be reached.
    pub async fn open(settings: &Settings) -> Result<Self, Error> {
        let pool = open(&settings.postgres).await?;
        let broker = RedisBroker::standalone(settings.redis.as_str());
        let broker = broker.connect().await?;
        let publisher = Publish::new().pair(&broker).await?;
        let name = format!("{}.payments", settings.shop);
        let tracking = outbox::Outbox::new(pool.clone()).register::<ShopOutbox>(name);
        Ok(Self {
            shop: settings.shop.clone(),
            broker,
            payments: tracking.wrap(publisher),
            pool,
        })
    }

    /// Takes a payment: from now on the order will be shipped, whether somebody listens or not.
    ///
    /// # Errors
    ///
    /// The payment was not recorded; or it was recorded and not sent, as the error says.
    pub async fn take(&self, payment: Payment) -> Result<(), Error> {
        let message = self.payments.message(&payment).to().shop(&*self.shop);
        Ok(message.publish().await?)
    }

    /// Closes both connections.
    ///
    /// # Errors
    ///
    /// Redis did not let go in order.
    pub async fn close(self) -> Result<(), Error> {
        self.pool.close().await;
        self.broker.shutdown().await?;
        Ok(())
    }
}
