//! A customer of the shop: asks over NATS to check out, and waits for the receipt.

use std::time::Duration;

use ruststream::{Broker, Connected, ConnectedBroker, IncomingMessage, OutgoingMessage};
use ruststream_nats::prelude::*;

use crate::Error;
use crate::handlers::{Checkout, Receipt};
use crate::service::Settings;

/// The longest that a customer waits for a receipt.
const PATIENCE: Duration = Duration::from_secs(10);

/// A customer's connection.
#[derive(Debug)]
pub struct Customer {
    broker: Connected<NatsBroker>,
    subject: String,
}

impl Customer {
    /// Connects to NATS.
    ///
    /// # Errors
    ///
    /// The server cannot be reached.
    pub async fn connect(settings: &Settings) -> Result<Self, Error> {
        let broker = NatsBroker::new(settings.nats.as_str());
        Ok(Self {
            broker: broker.connect().await?,
            subject: format!("{}.checkouts", settings.shop),
        })
    }

    /// Checks out. A receipt means that the order will be shipped, whatever happens to the shop.
    ///
    /// # Errors
    ///
    /// There is no receipt: nobody listens, or whoever took the request did not answer. The order
    /// may be shipped or not, so the customer checks out again.
    pub async fn checkout(&self, checkout: Checkout) -> Result<Receipt, Error> {
        let payload = serde_json::to_vec(&checkout)?;
        let request = OutgoingMessage::new(&self.subject, payload.as_slice());
        let publisher = self.broker.publisher(Publish);
        let answer = publisher.request(request, PATIENCE).await?;
        Ok(serde_json::from_slice(answer.payload())?)
    }

    /// Closes the connection.
    ///
    /// # Errors
    ///
    /// NATS did not let go in order.
    pub async fn close(self) -> Result<(), Error> {
        self.broker.shutdown().await?;
        Ok(())
    }
}
