//! The drivers under test: how each one opens and closes a pool.

mod postgres_sqlx;
mod postgres_tokio;
mod sqlite_rusqlite;
mod sqlite_sqlx;

use outbox_core::Statements;

use crate::{Kind, Message, Result};

/// A driver under test.
pub trait Driver: Statements<Message> {
    /// Its database.
    const KIND: Kind;

    /// Opens a pool of at most `size` connections to the database of this URL.
    ///
    /// # Errors
    ///
    /// The URL is not one of this driver's.
    fn open(url: &str, size: u32) -> Result<Self::Pool>;

    /// Closes the pool.
    fn close(pool: &Self::Pool) -> impl Future<Output = ()> + Send;
}
