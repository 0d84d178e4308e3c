//! What goes wrong between the outbox and its table, and what the calls of a driver fail with.

/// A column that does not take, or does not give, what the outbox keeps in it. Where a statement
/// fails with it, the statement was not run.
#[derive(Debug, thiserror::Error)]
#[error("the column `{column}` has the type {found}, {problem}")]
pub struct ColumnError {
    pub(crate) column: &'static str,
    pub(crate) found: String,
    pub(crate) problem: String,
}

impl ColumnError {
    /// The column, as the record names it.
    #[must_use]
    pub const fn column(&self) -> &'static str {
        self.column
    }

    /// The column's type, as the database names it.
    #[must_use]
    pub fn column_type(&self) -> &str {
        &self.found
    }
}

/// What a call of the driver [`TokioPostgres`](crate::TokioPostgres) fails with. `?` makes one of
/// each error that a service's own statements come to.
#[cfg(feature = "tokio-postgres")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokioPostgresError {
    /// The database refused, or a value could not be bound or read.
    #[error(transparent)]
    Database(#[from] tokio_postgres::Error),

    /// The pool gave no connection.
    #[error(transparent)]
    Pool(#[from] deadpool_postgres::PoolError),

    /// The record does not fit its table.
    #[error(transparent)]
    Column(#[from] ColumnError),
}
