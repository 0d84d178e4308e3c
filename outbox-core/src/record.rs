//! What a stored record is: its id, and the table and columns it lives in.

use std::fmt::Display;
use std::str::FromStr;

/// A row of the service's outbox table.
///
/// `#[derive(Outbox)]` implements it from the struct's field roles. The outbox reads the columns
/// that [`SPEC`](Self::SPEC) names and never decodes a whole row, so the struct itself needs no
/// database traits.
///
/// # Examples
///
/// ```
/// use outbox_core::{OutboxSpec, Record};
///
/// struct PaymentOutbox;
///
/// impl Record for PaymentOutbox {
///     type Id = i64;
///     const SPEC: OutboxSpec =
///         OutboxSpec::new("outbox", "id", "name", "payload").processed_at("processed_at");
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an outbox record",
    label = "not a record",
    note = "derive it: `#[derive(Outbox)] #[outbox(table = \"..\")]` with the roles \
            `#[field(id)]`, `#[field(name)]` and `#[field(payload)]`"
)]
pub trait Record: Sized + Send + Sync + 'static {
    /// The record's primary key. Its text (`Display`) travels in the header
    /// [`OUTBOX_ID_HEADER`](crate::OUTBOX_ID_HEADER) and is read back with `FromStr`.
    type Id: Display + FromStr + Send + Sync + 'static;

    /// The table and its columns.
    const SPEC: OutboxSpec;
}

/// The table and the columns of a [`Record`], as a constant.
///
/// Every name is an identifier as the database knows it; the backends quote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxSpec {
    table: &'static str,
    schema: Option<&'static str>,
    id: &'static str,
    name: &'static str,
    payload: &'static str,
    headers: Option<&'static str>,
    processed_at: Option<&'static str>,
    marks: Option<&'static str>,
}

impl OutboxSpec {
    /// A table with the three columns that every record has: the primary key, the name that the
    /// message was published under, and the message's bytes.
    ///
    /// # Panics
    ///
    /// If a name is empty. In a constant, that is a compile error.
    #[must_use]
    pub const fn new(
        table: &'static str,
        id: &'static str,
        name: &'static str,
        payload: &'static str,
    ) -> Self {
        Self {
            table: named(table),
            schema: None,
            id: named(id),
            name: named(name),
            payload: named(payload),
            headers: None,
            processed_at: None,
            marks: None,
        }
    }

    /// Names the schema that the table lives in. Without it the database's search path decides.
    ///
    /// # Panics
    ///
    /// If the name is empty.
    #[must_use]
    pub const fn schema(mut self, schema: &'static str) -> Self {
        self.schema = Some(named(schema));
        self
    }

    /// Names the text column that keeps the message's headers as a JSON object. Without it a
    /// message that is sent again carries its id and nothing else.
    ///
    /// # Panics
    ///
    /// If the name is empty.
    #[must_use]
    pub const fn headers(mut self, column: &'static str) -> Self {
        self.headers = Some(named(column));
        self
    }

    /// Names the column that takes the time at which the record was processed. Without it a
    /// processed record is deleted.
    ///
    /// # Panics
    ///
    /// If the name is empty.
    #[must_use]
    pub const fn processed_at(mut self, column: &'static str) -> Self {
        self.processed_at = Some(named(column));
        self
    }

    /// Names the integer column that takes the marks of a name's declared consumers, a bit each:
    /// see [`Outbox::consumer`](crate::Outbox::consumer). It needs a `processed_at` column beside
    /// it, and starts as 0 or `NULL`.
    ///
    /// # Panics
    ///
    /// If the name is empty.
    #[must_use]
    pub const fn marks(mut self, column: &'static str) -> Self {
        self.marks = Some(named(column));
        self
    }

    /// The table.
    #[must_use]
    pub const fn table(&self) -> &'static str {
        self.table
    }

    /// The table's schema, if one was named.
    #[must_use]
    pub const fn schema_name(&self) -> Option<&'static str> {
        self.schema
    }

    /// The primary key's column.
    #[must_use]
    pub const fn id_column(&self) -> &'static str {
        self.id
    }

    /// The column of the name that a message was published under.
    #[must_use]
    pub const fn name_column(&self) -> &'static str {
        self.name
    }

    /// The column of the message's bytes.
    #[must_use]
    pub const fn payload_column(&self) -> &'static str {
        self.payload
    }

    /// The column of the headers, if the table has one.
    #[must_use]
    pub const fn headers_column(&self) -> Option<&'static str> {
        self.headers
    }

    /// The column of the processing time. `None`: processed records are deleted.
    #[must_use]
    pub const fn processed_at_column(&self) -> Option<&'static str> {
        self.processed_at
    }

    /// The column of the consumers' marks, if the table has one beside its `processed_at`.
    #[must_use]
    pub const fn marks_column(&self) -> Option<&'static str> {
        match self.processed_at {
            Some(_) => self.marks,
            None => None,
        }
    }
}

const fn named(identifier: &'static str) -> &'static str {
    assert!(
        !identifier.is_empty(),
        "a table, schema or column of an `OutboxSpec` has an empty name: write the name"
    );
    identifier
}
