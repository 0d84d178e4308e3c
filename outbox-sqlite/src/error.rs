//! What the calls of a driver fail with, where the driver has more than one error of its own.

use deadpool_sqlite::InteractError;

/// What a call of the driver [`Rusqlite`](crate::Rusqlite) fails with. `?` makes one of each error
/// that a service's own statements come to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RusqliteError {
    /// The database refused, or a value could not be bound or read.
    #[error(transparent)]
    Database(#[from] rusqlite::Error),

    /// The pool gave no connection.
    #[error(transparent)]
    Pool(#[from] deadpool_sqlite::PoolError),

    /// The closure of an `interact` panicked. The pool closes the connection, which ends its
    /// transaction without a commit.
    #[error("the statement was not run to its end, since its closure panicked: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
    },

    /// The closure of an `interact` was dropped before it ran.
    #[error("the statement was not run: the runtime that it was given to is shutting down")]
    Cancelled,
}

impl From<InteractError> for RusqliteError {
    /// Keeps the text of a panic: its payload cannot be shared between threads, as an error must.
    fn from(error: InteractError) -> Self {
        let InteractError::Panic(payload) = error else {
            return Self::Cancelled;
        };
        let said = payload.downcast_ref::<&str>().map(ToString::to_string);
        let said = said.or_else(|| payload.downcast_ref::<String>().cloned());
        Self::Panicked {
            message: said.unwrap_or_else(|| "its payload is no text".to_owned()),
        }
    }
}
