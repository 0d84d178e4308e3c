//! What the shop does with a message: it takes the payment of a checkout, and ships what is paid.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ruststream_nats::prelude::*;
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;
use tokio::time::sleep;

/// How long it takes to pack an order.
const PACKING: Duration = Duration::from_millis(5);

/// When a message that could not be handled is tried again.
const LATER: Duration = Duration::from_secs(1);

/// A customer checks out: a request, answered with a [`Receipt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkout {
    /// The order's id.
    pub order: i64,
    /// What the order costs, in cents.
    pub amount: i64,
}

/// The answer to a checkout: the payment is taken, and the order will be shipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Outgoing)]
pub struct Receipt {
    /// The order's id.
    pub order: i64,
}

/// An order is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Outgoing)]
#[outgoing(name = "{shop}.payments")]
pub struct Payment {
    /// The order's id.
    pub order: i64,
    /// What was paid, in cents.
    pub amount: i64,
}

/// Takes the payment of a checkout.
// By default a panic stops the service, and a message that panics again stops it at every start.
// With `drop` a panic costs one message its turn, and the others are handled.
#[subscriber(CoreSubject::new("checkouts"), on_failure(panic = drop))]
pub(crate) async fn take_payment(
    checkout: &Checkout,
    ctx: &mut Context<'_>,
    State(shop): State<Shop>,
    Out(out): Out<impl Publisher>,
) -> Result<(), HandlerOutcome> {
    let Checkout { order, amount } = *checkout;
    let inbox = ctx.headers().reply_to().map(str::to_owned);
    let payment = Payment { order, amount };
    let payment = out.message(&payment).to().shop(&*shop.name);
    // Without an answer the customer checks out again.
    payment.publish().await.map_err(|error| {
        tracing::error!(order, error = &error as &dyn Error, "no payment was taken");
        HandlerOutcome::drop()
    })?;
    if let Some(inbox) = inbox {
        let receipt = Receipt { order };
        let answered = out.message(&receipt).to(inbox).publish().await;
        answered.map_err(|_| HandlerOutcome::drop())?;
    }
    Ok(())
}

/// Ships a paid order.
#[subscriber(CoreSubject::new("payments"), on_failure(panic = drop))]
pub(crate) async fn ship(payment: &Payment, State(shop): State<Shop>) -> HandlerOutcome {
    sleep(PACKING).await;
    match shop.ship(payment.order).await {
        Ok(()) => HandlerOutcome::ack(),
        Err(error) => {
            tracing::error!(
                payment.order,
                error = &error as &dyn Error,
                "not shipped yet"
            );
            // A `retry()` without a delay is lost: NATS core has nothing to take back.
            HandlerOutcome::retry_after(LATER)
        }
    }
}

/// A shop's name, and its books.
#[derive(Debug, Clone)]
pub struct Shop {
    pub(crate) name: Arc<str>,
    pub(crate) pool: SqlitePool,
}

impl Shop {
    /// Notes that an order is shipped. A message that comes twice changes nothing.
    async fn ship(&self, order: i64) -> sqlx::Result<()> {
        let insert = "INSERT INTO shipped (shop, id) VALUES (?, ?) ON CONFLICT DO NOTHING";
        let insert = sqlx::query(insert).bind(&*self.name).bind(order);
        insert.execute(&self.pool).await?;
        Ok(())
    }
}

impl FromRef<Self> for Shop {
    fn from_ref(shop: &Self) -> Self {
        shop.clone()
    }
}
