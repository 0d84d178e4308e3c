//! What a database crate implements: connections, one transaction, and the statements of a record.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::ops::DerefMut;
use std::time::Duration;

use ruststream::OutgoingMessage;

use crate::{ColumnRole, Consumer, OpenIds, OpenRecords, Record, Stored, TableDescription};

/// A database through one driver: how connections are taken, and what a transaction is.
///
/// The implementor is a marker such as `struct Sqlite;`.
///
/// A backend makes no decision: it retries nothing, logs nothing, and leaves every rule of the
/// outbox to this crate. It passes the suite behind the feature `conformance`.
///
/// Each method fails with whatever the database answers. Its future may be dropped at any await: the
/// connection is then discarded, so a method needs no cleanup of its own.
pub trait Backend: Copy + Debug + Send + Sync + 'static {
    /// What the driver is called in errors.
    const NAME: &'static str;

    /// Whether a transaction that may write begins by taking the one lock that all of them need. The
    /// outbox's own then take turns.
    const ONE_WRITER: bool;

    /// Whether a service's own [`Publish`](crate::Publish) is faster in a transaction that it shares
    /// with others than on a connection of its own.
    const SHARES_OWN_PUBLISH: bool;

    /// The pool that the service builds.
    type Pool: Clone + Send + Sync + 'static;

    /// What the service's own statements get.
    type Connection: Send;

    /// A connection taken from the pool. Dropping it gives the connection back.
    type Acquired: DerefMut<Target = Self::Connection> + Send + 'static;

    /// What the driver's calls fail with.
    type Error: StdError + Send + Sync + 'static;

    /// Takes a connection from the pool, waiting as long as the pool does.
    fn acquire(
        pool: &Self::Pool,
    ) -> impl Future<Output = Result<Self::Acquired, Self::Error>> + Send;

    /// Begins a transaction that may write. `lock_wait` is how long a statement may wait for a
    /// lock, for a database that can be told; the caller gives up after that time in any case.
    ///
    /// # Errors
    ///
    /// An error for which [`write_lock_held`](Self::write_lock_held) is true leaves the
    /// connection without a transaction and is tried again until `lock_wait` is over. Any other
    /// one discards the connection: among them, that the connection came with a transaction that
    /// somebody else left open.
    fn begin(
        conn: &mut Self::Connection,
        lock_wait: Duration,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Commits. `Ok` means that every other connection sees what was written.
    ///
    /// # Errors
    ///
    /// Whatever the database answers. Nothing was committed, or it is not known; the connection
    /// is discarded.
    fn commit(conn: &mut Self::Connection) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Ends whatever transaction the connection is in, undone. `Ok` without one, too: it is called
    /// after a statement, a begin or a commit was cut off.
    fn rollback(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Takes the connection out of its pool and closes it, whatever state it is in. The pool can
    /// open another in its place at once.
    fn discard(acquired: Self::Acquired);

    /// Whether the error says that another transaction holds a lock that the statement needs.
    fn write_lock_held(error: &Self::Error) -> bool;
}

/// A driver that runs the default statements of the record `R`.
///
/// The driver is the implementor, not the record, so that a backend crate can write one
/// implementation for every record: `impl<R: Record> Statements<R> for Sqlite where R::Id: ..`.
/// Each method runs a constant text put together from [`Record::SPEC`], and fails with whatever the
/// database answers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot run the statements of `{R}`",
    note = "the driver must be able to bind and read the record's id: use `i64`, `uuid::Uuid` or \
            `String`, or implement the driver's encode and decode traits for the id's type",
    note = "for `uuid` ids turn on the driver's own `uuid` feature"
)]
pub trait Statements<R: Record>: Backend {
    /// Inserts a record of `msg` and returns the id that the database gave it.
    fn insert(
        conn: &mut Self::Connection,
        msg: &OutgoingMessage<'_>,
    ) -> impl Future<Output = Result<R::Id, Self::Error>> + Send;

    /// [`insert`](Self::insert) for several messages. Returns their ids in the messages' order. They
    /// are at most [`PAGE_ROWS`]. A statement for each, unless the driver has one for all.
    fn insert_batch(
        conn: &mut Self::Connection,
        messages: &[OutgoingMessage<'_>],
    ) -> impl Future<Output = Result<Vec<R::Id>, Self::Error>> + Send {
        async move {
            let mut ids = Vec::with_capacity(messages.len());
            for msg in messages {
                ids.push(Self::insert(conn, msg).await?);
            }
            Ok(ids)
        }
    }

    /// Reads the record's state by its primary key, inside a transaction or outside.
    fn fetch(
        conn: &mut Self::Connection,
        id: &R::Id,
    ) -> impl Future<Output = Result<Option<Stored>, Self::Error>> + Send;

    /// Marks an open record, by its primary key. Sets the consumer's bit, where the table has a
    /// column for it; once the record has all of the consumer's bits, it is closed: the database's
    /// clock is written into `processed_at`, or the row is deleted where the table has no such
    /// column. Returns whether an open record was there.
    fn mark(
        conn: &mut Self::Connection,
        id: &R::Id,
        consumer: Consumer,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// [`fetch`](Self::fetch) for the records of a batch: those of `ids` that are in the table.
    /// `ids` are at most [`PAGE_ROWS`]. A statement for each, unless the driver has one for all.
    fn fetch_batch(
        conn: &mut Self::Connection,
        ids: &[R::Id],
    ) -> impl Future<Output = Result<Vec<(R::Id, Stored)>, Self::Error>> + Send {
        async move {
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                if let Some(stored) = Self::fetch(conn, id).await?
                    && let Ok(id) = id.to_string().parse()
                {
                    found.push((id, stored));
                }
            }
            Ok(found)
        }
    }

    /// [`mark`](Self::mark) for the records of a batch. Returns how many of them were open. `ids`
    /// are at most [`PAGE_ROWS`]. A statement for each, unless the driver has one for all.
    fn mark_batch(
        conn: &mut Self::Connection,
        ids: &[R::Id],
        consumer: Consumer,
    ) -> impl Future<Output = Result<u64, Self::Error>> + Send {
        async move {
            let mut open = 0;
            for id in ids {
                open += u64::from(Self::mark(conn, id, consumer).await?);
            }
            Ok(open)
        }
    }

    /// The ids of the open records of `name`, ascending. The rows are streamed: memory grows by
    /// the ids alone.
    fn open_ids(
        conn: &mut Self::Connection,
        name: &str,
    ) -> impl Future<Output = Result<OpenIds<R::Id, Self::Error>, Self::Error>> + Send;

    /// Those of `ids` that are still open, ascending, each with the bytes of its payload and
    /// headers: how many of them fit a page. `ids` are at most [`PAGE_ROWS`].
    fn open_sizes(
        conn: &mut Self::Connection,
        ids: &[R::Id],
    ) -> impl Future<Output = Result<Vec<(R::Id, u64)>, Self::Error>> + Send;

    /// Those of `ids` that are still open, ascending. A row that cannot be read is an
    /// `Err` in its place. `ids` are at most [`PAGE_ROWS`].
    fn open_records(
        conn: &mut Self::Connection,
        ids: &[R::Id],
    ) -> impl Future<Output = Result<OpenRecords<R::Id, Self::Error>, Self::Error>> + Send;

    /// The record's table, from the database's catalogue. `None`: there is no such table.
    fn describe(
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Option<TableDescription>, Self::Error>> + Send;

    /// Whether a column of this type holds what the record has in that role.
    ///
    /// # Errors
    ///
    /// The types that would.
    fn fits(role: ColumnRole, data_type: &str) -> Result<(), &'static str>;
}

/// The most rows of a statement.
pub const PAGE_ROWS: usize = 256;

/// The most bytes of payload and headers that a start reads at once; a single record may be
/// larger.
pub const PAGE_BYTES: u64 = 4 * 1024 * 1024;
