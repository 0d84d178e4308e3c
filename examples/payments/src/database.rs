//! What the service needs of a database, and the four ways to it, one file each.

mod postgres_sqlx;
mod postgres_tokio;
mod sqlite_rusqlite;
mod sqlite_sqlx;

use outbox_sqlite::outbox;

use crate::error::Error;
use crate::record::PaymentOutbox;

/// A database through one of the outbox's drivers.
pub trait Database: outbox::Statements<PaymentOutbox> {
    /// How `--driver` names the driver.
    const DRIVER: &str;

    /// Opens the database, and makes its table.
    ///
    /// # Errors
    ///
    /// The URL is not one of this database, there is no connection, or no table was made.
    fn open(url: &str) -> impl Future<Output = Result<Self::Pool, Error>> + Send;

    /// Counts the records: all of them, and those that are open.
    ///
    /// # Errors
    ///
    /// Whatever the database answers.
    fn count(pool: &Self::Pool) -> impl Future<Output = Result<(i64, i64), Error>> + Send;

    /// Closes the pool.
    fn close(pool: &Self::Pool) -> impl Future<Output = ()> + Send;
}

const COUNT: &str = "SELECT count(*), count(*) FILTER (WHERE processed_at IS NULL) FROM outbox";
