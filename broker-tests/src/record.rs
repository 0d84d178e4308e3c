//! The records of the service under test, and the names that they are published under.

use outbox_core::{Node, Outbox};
use uuid::Uuid;

use crate::Driver;

/// A message of the service under test. Its table is the one that the backend crates ship.
#[derive(Debug, outbox_sqlite::Outbox)]
#[outbox(table = "outbox", publish)]
pub struct Message {
    /// Travels with the message.
    #[field(id)]
    pub id: i64,
    /// What it was published under.
    #[field(name)]
    pub name: String,
    /// Its payload.
    #[field(payload)]
    pub payload: Vec<u8>,
    /// Its headers.
    #[field(headers)]
    pub headers: Option<String>,
    /// `None` while the record is open.
    #[field(processed_at)]
    pub processed_at: Option<String>,
}

/// The registered names of a service: a broker has those of many tests at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The first registered name.
    pub payments: String,
    /// The second registered name.
    pub refunds: String,
}

impl Names {
    /// Names that nobody else has.
    #[must_use]
    pub fn unique() -> Self {
        Self::with_prefix(&format!("t{}", Uuid::new_v4().simple()))
    }

    /// The names of one service, for each of its processes.
    #[must_use]
    pub fn with_prefix(prefix: &str) -> Self {
        Self {
            payments: format!("{prefix}.payments"),
            refunds: format!("{prefix}.refunds"),
        }
    }
}

/// The registry of the service under test.
pub type Registry<D> = Outbox<D, Node<Message, Node<Message>>>;

/// A registry of the names, without a pool. The environment's `OUTBOX_GROUP_COMMIT=off` has it share
/// no transactions.
#[must_use]
pub fn registry<D: Driver>(names: &Names) -> Registry<D> {
    let share = std::env::var_os("OUTBOX_GROUP_COMMIT").is_none_or(|value| value != "off");
    Outbox::deferred()
        .group_commit(share)
        .register::<Message>(names.payments.clone())
        .register::<Message>(names.refunds.clone())
}
