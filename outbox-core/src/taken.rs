//! A delivery with a record's id, and one that is in a handler's hands.

use bytes::Bytes;
use ruststream::Str;
use ruststream::runtime::HandlerOutcome;

use crate::TARGET;
use crate::consumers::Consumer;
use crate::handlers::Mount;
use crate::registry::Registered;
use crate::retry::Expected;

/// A delivery that carries the id of a record.
#[derive(Debug)]
pub(crate) struct Delivery<'a> {
    /// What is registered under the subscription's name.
    pub(crate) registered: &'a Registered,
    pub(crate) mount: Mount,
    pub(crate) id: Str,
    /// How often it was retried before, as the runtime counts it.
    pub(crate) retries: u64,
    /// Whether the outbox has asked for a later copy of it, for the same handler, that is on its way.
    pub(crate) comes_again: bool,
}

impl<'a> Delivery<'a> {
    /// `None`, with a warning: the message carries no id that can be read, so its handler runs
    /// untracked.
    pub(crate) fn of(
        registered: &'a Registered,
        mount: Mount,
        id: Option<Bytes>,
        retries: u64,
    ) -> Option<Self> {
        let name = registered.name();
        let Some(id) = id else {
            if registered.first_without_id() {
                tracing::warn!(
                    target: TARGET,
                    name,
                    "a message arrived without the header {}, so its handler runs untracked: a \
                     publisher that bypasses the outbox's layers sends such messages; this is said \
                     once per name",
                    crate::OUTBOX_ID_HEADER,
                );
            }
            return None;
        };
        let Ok(id) = Str::try_from(id) else {
            tracing::warn!(
                target: TARGET,
                name,
                "a message arrived with an id that is not UTF-8, so its handler runs untracked and \
                 nothing is marked",
            );
            return None;
        };
        if registered.is_name() {
            registered.pace.take(&id);
        }
        let comes_again = registered.arrived(mount.id, &id, retries);
        Some(Self {
            registered,
            mount,
            id,
            retries,
            comes_again,
        })
    }

    /// It is answered with a retry. The runtime may make a copy of it.
    pub(crate) fn expect_copy(&self, copy: &Expected) {
        self.registered
            .expect_copy(self.mount.id, &self.id, self.retries, copy);
    }
}

/// How a handler settled its delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    Acked,
    Dropped,
    Retried,
}

impl Settled {
    fn by(outcome: &HandlerOutcome) -> Self {
        if outcome.is_ack() {
            Self::Acked
        } else if outcome.is_drop() {
            Self::Dropped
        } else {
            Self::Retried
        }
    }
}

/// A delivery that its handler has. Dropped by a panic or with its task, it says which record stays
/// open: the runtime's own line names none. The runtime may answer a panic with a copy.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    delivery: Delivery<'a>,
    /// The name that the record was written under.
    name: &'a str,
    /// What is marked after the handler, if anything is.
    consumer: Option<Consumer>,
    settled: bool,
}

impl<'a> Taken<'a> {
    pub(crate) fn new(delivery: Delivery<'a>, name: &'a str, consumer: Option<Consumer>) -> Self {
        Self {
            delivery,
            name,
            consumer,
            settled: false,
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.delivery.id
    }

    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    /// What is registered under the subscription's name.
    pub(crate) fn registered(&self) -> &'a Registered {
        self.delivery.registered
    }

    pub(crate) fn consumer(&self) -> Option<Consumer> {
        self.consumer
    }

    /// The handler came to an outcome.
    pub(crate) fn settle(&mut self, outcome: &HandlerOutcome) -> Settled {
        self.settled = true;
        let settled = Settled::by(outcome);
        if settled == Settled::Retried {
            let copy = Expected::after(outcome.retry_delay());
            self.delivery.expect_copy(&copy);
        }
        settled
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        self.delivery.expect_copy(&Expected::after(None));
        if self.consumer.is_none() {
            return;
        }
        tracing::error!(
            target: TARGET,
            name = self.name,
            id = self.id(),
            panicked = std::thread::panicking(),
            "the handler did not come to an outcome: the record stays open, and the next start \
             sends its message again",
        );
    }
}
