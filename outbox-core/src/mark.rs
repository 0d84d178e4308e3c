//! What is done to a record: written, taken into work, closed, and found again at the start.

use ruststream::OutgoingMessage;

use crate::{Backend, Consumer, Record, Statements};

/// How a message becomes a record of the service's table: the service's own insert.
///
/// `#[outbox(table = "..", publish)]` derives it. It runs in a transaction of the outbox's own,
/// which is committed before the message is sent: an `Err` means that the message was neither
/// recorded nor sent. Other messages may share the transaction, so an insert does not end it, and it
/// is run again where one of the others fails: what it did before is undone then. `msg` carries no id
/// header; a record of its own is about to give it one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how a message is recorded through `{B}`",
    label = "this record has no `Publish<{B}>`",
    note = "let the derive write the insert: `#[outbox(table = \"..\", publish)]`",
    note = "or write it: `impl outbox::Publish<{B}> for {Self} {{ async fn publish(conn: &mut .., \
            msg: &OutgoingMessage<'_>) -> Result<Self::Id, ..> {{ /* INSERT .. RETURNING id */ }} }}`"
)]
pub trait Publish<B: Backend>: Record {
    /// Whether the insert is the backend's, so that several messages are recorded in one statement.
    /// The derive says so.
    const BATCHED: bool = false;

    /// Inserts the record of `msg` and returns its id.
    ///
    /// # Errors
    ///
    /// Whatever the database answers; the caller of the publish gets it as the source of an
    /// [`OutboxError`](crate::OutboxError), and nothing is sent.
    fn publish(
        conn: &mut B::Connection,
        msg: &OutgoingMessage<'_>,
    ) -> impl Future<Output = Result<Self::Id, B::Error>> + Send;
}

/// What happens to a record once it is written. Each step has a default that the backend runs.
///
/// `#[derive(Outbox)]` implements it with every default; `#[outbox(.., custom)]` leaves it to the
/// service, which overrides only what it wants and may call the default as
/// `<Sqlite as Statements<Self>>::fetch(conn, id)`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how a record is marked through `{B}`",
    label = "this record has no `Mark<{B}>`",
    note = "drop `custom` from `#[outbox(..)]` to take the backend's statements, or write \
            `impl outbox::Mark<{B}> for {Self} {{}}` and override what you want"
)]
pub trait Mark<B: Statements<Self>>: Record {
    /// Whether [`retry`](Self::retry) is the service's own. While it is `false` a retried
    /// delivery takes no connection.
    const RETRY: bool = false;

    /// Whether each step is the backend's, so that the records of a batch are read, and marked, in
    /// one statement. The derive says so. While it is `false`, a batch takes the steps record by
    /// record.
    const BATCHED: bool = false;

    /// Reads the record when its message arrives, before the handler runs. `None`: the table has
    /// no record with this id.
    ///
    /// # Errors
    ///
    /// Whatever the database answers; the delivery is retried later without its handler.
    fn fetch(
        conn: &mut B::Connection,
        id: &Self::Id,
    ) -> impl Future<Output = Result<Option<Stored>, B::Error>> + Send {
        B::fetch(conn, id)
    }

    /// Closes the record after the handler acknowledged. Returns whether it changed an open
    /// record.
    ///
    /// # Errors
    ///
    /// Whatever the database answers: it is logged, the record stays open, and the handler's
    /// outcome stands.
    fn ack(
        conn: &mut B::Connection,
        id: &Self::Id,
    ) -> impl Future<Output = Result<bool, B::Error>> + Send {
        B::mark(conn, id, Consumer::SOLE)
    }

    /// Closes the record after the handler dropped its message. Returns whether it changed an
    /// open record.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    fn discard(
        conn: &mut B::Connection,
        id: &Self::Id,
    ) -> impl Future<Output = Result<bool, B::Error>> + Send {
        B::mark(conn, id, Consumer::SOLE)
    }

    /// Marks the record for one of the declared consumers of its name, after its handler
    /// acknowledged or dropped: in place of [`ack`](Self::ack) and [`discard`](Self::discard). The
    /// last of them closes the record. Returns whether the record was open.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    fn consume(
        conn: &mut B::Connection,
        id: &Self::Id,
        consumer: Consumer,
    ) -> impl Future<Output = Result<bool, B::Error>> + Send {
        B::mark(conn, id, consumer)
    }

    /// Runs after the handler asked for a retry, if [`RETRY`](Self::RETRY) says so. The record
    /// stays open.
    ///
    /// # Errors
    ///
    /// Whatever the database answers: it is logged, and the handler's outcome stands.
    fn retry(
        conn: &mut B::Connection,
        id: &Self::Id,
    ) -> impl Future<Output = Result<(), B::Error>> + Send {
        let _ = (conn, id);
        std::future::ready(Ok(()))
    }

    /// The ids that a start sends again: the open records of `name`, in ascending order.
    ///
    /// # Errors
    ///
    /// Whatever the database answers; the start then reports the whole name as not sent.
    fn recover(
        conn: &mut B::Connection,
        name: &str,
    ) -> impl Future<Output = Result<OpenIds<Self::Id, B::Error>, B::Error>> + Send {
        B::open_ids(conn, name)
    }
}

/// What a fetch reads of a record: its state, not its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The name that the record was written under.
    pub name: String,
    /// Whether the record is closed. In a table that deletes, no record that is there is.
    pub processed: bool,
    /// The marks of the name's declared consumers. 0, where the table has no such column.
    pub marks: i64,
}

/// The ids of the open records of one name.
#[derive(Debug)]
pub struct OpenIds<Id, E> {
    /// The ids, ascending.
    pub ids: Vec<Id>,
    /// One error for each row whose id could not be read. The start reports them after it has
    /// sent the others.
    pub unreadable: Vec<E>,
}

impl<Id, E> OpenIds<Id, E> {
    /// No ids yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ids: Vec::new(),
            unreadable: Vec::new(),
        }
    }

    /// Adds a row's id, or the error that stands in its place.
    pub fn push(&mut self, id: Result<Id, E>) {
        match id {
            Ok(id) => self.ids.push(id),
            Err(error) => self.unreadable.push(error),
        }
    }
}

impl<Id, E> Default for OpenIds<Id, E> {
    fn default() -> Self {
        Self::new()
    }
}

/// The open records of a page.
pub type OpenRecords<Id, E> = Vec<OpenRecord<Id, E>>;

/// An open record as the start reads it.
#[derive(Debug)]
pub struct OpenRecord<Id, E> {
    /// The record's id.
    pub id: Id,
    /// Its message, or why the row could not be read.
    pub message: Result<StoredMessage, E>,
}

/// The message of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMessage {
    /// The message's bytes.
    pub payload: Vec<u8>,
    /// The text of the headers column. `None`: the table has no such column, or it holds `NULL`.
    pub headers: Option<String>,
}
