//! What can fail, and what holds afterwards.

use std::error::Error as StdError;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use crate::TableProblem;

/// A source of an error, whatever database or broker it came from.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// What went wrong in the outbox. Each variant says whether the message was recorded and sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// The registry has no pool yet. The message was neither recorded nor sent.
    #[error(
        "the outbox has no pool, so the message for `{name}` was not sent: call `set_pool` in \
         `on_startup` before anything is published"
    )]
    NoPool {
        /// The name that the message was published under.
        name: String,
    },

    /// [`set_pool`](crate::Outbox::set_pool) was called twice. The first pool stays.
    #[error("the outbox has a pool already: the first one stays, this one was not taken")]
    PoolAlreadySet,

    /// No connection was to be had. The message was neither recorded nor sent.
    #[error(
        "no connection of the {backend} pool came free for the outbox within {waited:?}, so the \
         message for `{name}` was not sent: a handler that holds a connection while it publishes a \
         tracked message needs a second one, so give the pool one connection more than the \
         handlers hold at once"
    )]
    PoolTimedOut {
        /// The name that the message was published under.
        name: String,
        /// The driver.
        backend: &'static str,
        /// The registry's `acquire_timeout`.
        waited: Duration,
    },

    /// The pool failed to give a connection. The message was neither recorded nor sent.
    #[error("the {backend} pool gave no connection, so the message for `{name}` was not sent")]
    Acquire {
        /// The name that the message was published under.
        name: String,
        /// The driver.
        backend: &'static str,
        /// What the pool answered.
        source: BoxError,
    },

    /// Another transaction holds the lock that the record's insert needs. The message was neither
    /// recorded nor sent, and nothing will be written later.
    #[error(
        "another transaction holds the write lock that the record of a message for `{name}` needs, \
         and kept it for {waited:?}: the message was not sent; it is usually the handler's own \
         transaction, so publish before that transaction's first statement, or after its commit"
    )]
    WriteLockHeld {
        /// The name that the message was published under.
        name: String,
        /// The registry's `lock_wait`.
        waited: Duration,
        /// What the database answered, where it answered in time.
        source: Option<BoxError>,
    },

    /// The database did not confirm the record. The message was not sent. Where it was the commit
    /// that failed, the record may be there all the same: the next start then sends it.
    #[error("the record of a message for `{name}` was not saved, so the message was not sent")]
    NotRecorded {
        /// The name that the message was published under.
        name: String,
        /// What the database answered.
        source: BoxError,
    },

    /// The record was saved, and its message could not be sent. The next start sends it.
    #[error(
        "record {id} of `{name}` was saved but its message was not sent: the record stays open and \
         the next start sends it again"
    )]
    NotSent {
        /// The name that the message was published under.
        name: String,
        /// The record's id.
        id: String,
        /// What the broker's publisher answered.
        source: BoxError,
    },

    /// Open records could not be sent again at the start. They stay open for the next one; the
    /// others were sent.
    #[error("{0}")]
    NotRepublished(RepublishReport),

    /// [`check_tables`](crate::Outbox::check_tables) found tables that are not what the records
    /// say.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Tables(Vec<TableProblem>),
}

impl OutboxError {
    pub(crate) fn not_sent(name: &str, id: &[u8], source: BoxError) -> Self {
        Self::NotSent {
            name: name.to_owned(),
            id: String::from_utf8_lossy(id).into_owned(),
            source,
        }
    }
}

/// The open records that a start could not send again.
#[derive(Debug, Default)]
pub struct RepublishReport {
    pub(crate) sent: u64,
    pub(crate) failed: u64,
    pub(crate) failures: Vec<RepublishFailure>,
    pub(crate) given_up: bool,
}

impl RepublishReport {
    /// The most failures that a report keeps; [`failed`](Self::failed) counts the rest.
    pub const KEPT: usize = 100;

    /// How many records were sent.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// How many failures there were.
    #[must_use]
    pub const fn failed(&self) -> u64 {
        self.failed
    }

    /// The first [`KEPT`](Self::KEPT) failures.
    #[must_use]
    pub fn failures(&self) -> &[RepublishFailure] {
        &self.failures
    }

    /// Whether the broker was taken for gone, so that the records after the last failure were not
    /// tried.
    #[must_use]
    pub const fn given_up(&self) -> bool {
        self.given_up
    }
}

impl Display for RepublishReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} open records were not sent again at the start and stay open ({} were sent",
            self.failed, self.sent
        )?;
        if self.given_up {
            f.write_str(
                "; every send failed for 10s, so the broker is gone and the rest was not tried",
            )?;
        }
        f.write_str(")")?;
        for failure in &self.failures {
            write!(f, "; {failure}")?;
        }
        let unnamed = self.failed.saturating_sub(self.failures.len() as u64);
        if unnamed > 0 {
            write!(f, "; and {unnamed} more")?;
        }
        Ok(())
    }
}

/// One record, or one name, that a start could not send again.
#[derive(Debug)]
pub struct RepublishFailure {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) cause: String,
}

impl RepublishFailure {
    /// The registered name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The record's id. `None`: the records of the name, or the record's id, could not be read.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// What happened.
    #[must_use]
    pub fn cause(&self) -> &str {
        &self.cause
    }
}

impl Display for RepublishFailure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.id {
            Some(id) => write!(f, "record {id} of `{}`: {}", self.name, self.cause),
            None => write!(f, "records of `{}`: {}", self.name, self.cause),
        }
    }
}

/// An error with all its sources on one line, as the log prints it.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn StdError + 'static));

impl Display for Chain<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}
