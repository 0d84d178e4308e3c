//! Why a statement was not run, or not committed.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use crate::error::{BoxError, Chain, OutboxError};

/// Why a statement was not run, or not committed.
#[derive(Debug)]
pub(crate) enum Failure {
    NoPool,
    /// No connection of this driver's pool came free in that time.
    PoolTimedOut(&'static str, Duration),
    /// This driver's pool gave no connection.
    Acquire(&'static str, BoxError),
    WriteLockHeld(Duration, Option<BoxError>),
    NoAnswer(Duration),
    /// The database refused it, and nothing of it stays.
    Database(BoxError),
    /// The commit's answer was lost, so it is not known whether it was committed.
    Unconfirmed(BoxError),
    /// The task that ran it ended: the service's own statement panicked, or its runtime is gone.
    Interrupted,
}

impl Failure {
    /// The failure as the publisher of a message for `name` gets it.
    pub(crate) fn of_record(self, name: &str) -> OutboxError {
        let name = name.to_owned();
        match self {
            Self::NoPool => OutboxError::NoPool { name },
            Self::PoolTimedOut(backend, waited) => OutboxError::PoolTimedOut {
                name,
                backend,
                waited,
            },
            Self::Acquire(backend, source) => OutboxError::Acquire {
                name,
                backend,
                source,
            },
            Self::WriteLockHeld(waited, source) => OutboxError::WriteLockHeld {
                name,
                waited,
                source,
            },
            Self::NoAnswer(_) | Self::Interrupted => OutboxError::NotRecorded {
                name,
                source: self.to_string().into(),
            },
            Self::Database(source) | Self::Unconfirmed(source) => {
                OutboxError::NotRecorded { name, source }
            }
        }
    }

    /// Whether it may be the failure of one operation of a group: nothing of the group stays, and the
    /// others may go through.
    pub(crate) fn is_of_one(&self) -> bool {
        matches!(
            self,
            Self::Database(_) | Self::WriteLockHeld(..) | Self::Interrupted
        )
    }

    /// The same failure for another operation that it met. Its source is the text of this one's.
    pub(crate) fn share(&self) -> Self {
        let text = |error: &BoxError| BoxError::from(Chain(&**error).to_string());
        match self {
            Self::NoPool => Self::NoPool,
            Self::PoolTimedOut(backend, waited) => Self::PoolTimedOut(backend, *waited),
            Self::Acquire(backend, error) => Self::Acquire(backend, text(error)),
            Self::WriteLockHeld(waited, error) => {
                Self::WriteLockHeld(*waited, error.as_ref().map(text))
            }
            Self::NoAnswer(waited) => Self::NoAnswer(*waited),
            Self::Database(error) => Self::Database(text(error)),
            Self::Unconfirmed(error) => Self::Unconfirmed(text(error)),
            Self::Interrupted => Self::Interrupted,
        }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPool => f.write_str("the outbox has no pool: call `set_pool` in `on_startup`"),
            Self::PoolTimedOut(backend, waited) => {
                write!(
                    f,
                    "no connection of the {backend} pool came free within {waited:?}"
                )
            }
            Self::Acquire(backend, error) => {
                write!(
                    f,
                    "the {backend} pool gave no connection: {}",
                    Chain(&**error)
                )
            }
            Self::WriteLockHeld(waited, _) => {
                write!(
                    f,
                    "another transaction kept the lock that it needs for {waited:?}"
                )
            }
            Self::NoAnswer(waited) => write!(f, "the database did not answer within {waited:?}"),
            Self::Database(error) | Self::Unconfirmed(error) => write!(f, "{}", Chain(&**error)),
            Self::Interrupted => f.write_str(
                "the task that ran its statement ended: the record's own statement panicked, or \
                 the runtime that drives the pool shut down",
            ),
        }
    }
}
