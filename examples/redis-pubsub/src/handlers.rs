//! What the shop does with a message: it ships what is paid, and pays back what is sold out.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use ruststream_fred::pubsub::prelude::*;
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use tokio::time::sleep;

/// How long it takes to pack an order.
const PACKING: Duration = Duration::from_millis(5);

/// When a message that could not be handled is tried again.
const LATER: Duration = Duration::from_secs(1);

/// An order is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Outgoing)]
#[outgoing(name = "{shop}.payments")]
pub struct Payment {
    /// The order's id.
    pub order: i64,
    /// What was paid, in cents.
    pub amount: i64,
}

/// What was paid for an order is to be paid back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Outgoing)]
#[outgoing(name = "{shop}.refunds")]
pub struct Refund {
    /// The order's id.
    pub order: i64,
    /// What was paid, in cents.
    pub amount: i64,
}

/// Ships a paid order, or has it paid back.
// By default a panic stops the service, and a message that panics again stops it at every start.
// With `drop` a panic costs one message its turn, and the others are handled.
#[subscriber(RedisPubSub::new("payments"), on_failure(panic = drop))]
pub(crate) async fn ship(
    payment: &Payment,
    State(shop): State<Shop>,
    Out(refunds): Out<impl Publisher>,
) -> HandlerOutcome {
    sleep(PACKING).await;
    let Payment { order, amount } = *payment;
    if is_sold_out(order) {
        let refund = Refund { order, amount };
        let refunded = refunds.message(&refund).to().shop(&*shop.name).publish();
        settled(order, refunded.await)
    } else {
        settled(order, shop.note(order, "shipped").await)
    }
}

/// Pays back what was paid for an order.
#[subscriber(RedisPubSub::new("refunds"), on_failure(panic = drop))]
pub(crate) async fn pay_back(refund: &Refund, State(shop): State<Shop>) -> HandlerOutcome {
    settled(refund.order, shop.note(refund.order, "paid back").await)
}

/// Stands in for the warehouse: what every tenth order is for is sold out.
fn is_sold_out(order: i64) -> bool {
    order % 10 == 0
}

fn settled(order: i64, done: Result<(), impl Error + 'static>) -> HandlerOutcome {
    match done {
        Ok(()) => HandlerOutcome::ack(),
        Err(error) => {
            tracing::error!(order, error = &error as &dyn Error, "tried again later");
            // A `retry()` without a delay is lost: Redis has nothing to take back.
            HandlerOutcome::retry_after(LATER)
        }
    }
}

/// A shop's name, and its books.
#[derive(Debug, Clone)]
pub struct Shop {
    pub(crate) name: Arc<str>,
    pub(crate) pool: PgPool,
}

impl Shop {
    /// Notes what became of an order. A message that comes twice changes nothing.
    async fn note(&self, order: i64, outcome: &str) -> sqlx::Result<()> {
        let insert = "INSERT INTO orders (shop, id, outcome) VALUES ($1, $2, $3) \
                      ON CONFLICT DO NOTHING";
        let insert = sqlx::query(insert).bind(&*self.name).bind(order);
        insert.bind(outcome).execute(&self.pool).await?;
        Ok(())
    }
}

impl FromRef<Self> for Shop {
    fn from_ref(shop: &Self) -> Self {
        shop.clone()
    }
}
