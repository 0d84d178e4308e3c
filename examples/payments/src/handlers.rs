//! What the service does with a message: it takes the payment of a checkout, and ships what is paid.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ruststream::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

/// How long it takes to pack an order.
const PACKING: Duration = Duration::from_millis(5);

/// When an order whose shipment could not be written down is tried again.
const LATER: Duration = Duration::from_secs(1);

/// A customer checks out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Outgoing)]
#[outgoing(name = "checkout")]
pub struct Checkout {
    /// The order's id.
    pub order: u64,
    /// What the order costs, in cents.
    pub amount: u64,
}

/// An order is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Outgoing)]
#[outgoing(name = "payments")]
pub struct Payment {
    /// The order's id.
    pub order: u64,
    /// What was paid, in cents.
    pub amount: u64,
}

impl From<Checkout> for Payment {
    fn from(Checkout { order, amount }: Checkout) -> Self {
        Self { order, amount }
    }
}

/// Takes the payment of a checkout that came in over the broker.
// By default a panic stops the service, and a message that panics again stops it at every start.
// With `drop` a panic costs one message its turn, and the others are handled.
#[subscriber("checkout", reply, on_failure(panic = drop))]
pub(crate) async fn take_payment(checkout: &Checkout) -> Payment {
    tracing::info!(checkout.order, checkout.amount, "paid");
    (*checkout).into()
}

/// Ships a paid order.
#[subscriber("payments", on_failure(panic = drop))]
pub(crate) async fn ship(payment: &Payment, State(shipped): State<ShipmentLog>) -> HandlerOutcome {
    sleep(PACKING).await;
    match shipped.append(payment.order) {
        Ok(()) => HandlerOutcome::ack(),
        Err(error) => {
            tracing::error!(payment.order, %error, "the shipment could not be written down");
            HandlerOutcome::retry_after(LATER)
        }
    }
}

/// The file of the shipped orders, one id a line.
#[derive(Debug, Clone)]
pub struct ShipmentLog(Arc<File>);

impl ShipmentLog {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    ///
    /// The file could not be opened for appending.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(Arc::new(file)))
    }

    /// Writes a whole line at once, so that a killed process leaves all of it or nothing.
    fn append(&self, order: u64) -> io::Result<()> {
        (&*self.0).write_all(format!("{order}\n").as_bytes())
    }
}
