//! Whether the tables are what the records say: for the start, or for a health endpoint.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use crate::connection::{Database, NO_ANSWER, read};
use crate::error::OutboxError;
use crate::failure::Failure;
use crate::registry::{Registered, Visit, Walk};
use crate::settings::Settings;
use crate::{Backend, Mark, Outbox, OutboxSpec, Publish, Statements};

/// What a database says of the table of a record.
#[derive(Debug, Clone, Default)]
pub struct TableDescription {
    /// Its columns.
    pub columns: Vec<ColumnDescription>,
    /// Its indexes, the primary key among them.
    pub indexes: Vec<IndexDescription>,
}

impl TableDescription {
    /// A table from rows of a catalogue: each column's name and type, and each column of each
    /// index, index by index: the index's name, the column's unless it is an expression, and the
    /// index's condition. `None`: there is no table without columns.
    #[must_use]
    pub fn new(
        columns: impl IntoIterator<Item = (String, String)>,
        index_columns: impl IntoIterator<Item = (String, Option<String>, Option<String>)>,
    ) -> Option<Self> {
        let columns = columns.into_iter();
        let columns = columns.map(|(name, data_type)| ColumnDescription { name, data_type });
        let mut table = Self {
            columns: columns.collect(),
            indexes: Vec::new(),
        };
        let mut last = None;
        for (index, column, condition) in index_columns {
            if last.as_ref() != Some(&index) {
                table.indexes.push(IndexDescription {
                    columns: Vec::new(),
                    condition,
                });
                last = Some(index);
            }
            if let Some(index) = table.indexes.last_mut() {
                index.columns.push(column.unwrap_or_default());
            }
        }
        (!table.columns.is_empty()).then_some(table)
    }
}

/// A column of a table.
#[derive(Debug, Clone)]
pub struct ColumnDescription {
    /// Its name.
    pub name: String,
    /// Its type, as the database calls it.
    pub data_type: String,
}

/// An index of a table.
#[derive(Debug, Clone)]
pub struct IndexDescription {
    /// Its columns, the leading one first.
    pub columns: Vec<String>,
    /// The condition of a partial index.
    pub condition: Option<String>,
}

/// What a column of the table is to the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnRole {
    /// The primary key.
    Id,
    /// The name that the message was published under.
    Name,
    /// The message's bytes.
    Payload,
    /// The message's headers.
    Headers,
    /// When the record was processed.
    ProcessedAt,
    /// Which of the declared consumers have marked the record.
    Marks,
}

/// Something in a table that is not what a record says, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableProblem {
    name: String,
    table: &'static str,
    what: String,
}

impl TableProblem {
    /// The registered name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &str {
        self.table
    }
}

impl Display for TableProblem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "table `{}` of `{}`: {}",
            self.table, self.name, self.what
        )
    }
}

impl<B: Backend, L: Walk<B>> Outbox<B, L> {
    /// Compares the table of each registered name with what its record says: for `on_startup`
    /// after the pool is set, or for a health endpoint. Reads the database's catalogue only.
    ///
    /// # Errors
    ///
    /// [`OutboxError::NoPool`], or [`OutboxError::Tables`] with every table, column, type or index
    /// that is missing or wrong, each with what to do.
    pub async fn check_tables(&self) -> Result<(), OutboxError> {
        let mut names = Vec::new();
        self.names.all(&mut names);
        names.retain(|registered| registered.is_name());
        let mut problems = Vec::new();
        for registered in names {
            let name = registered.name();
            let Some(database) = self.database() else {
                return Err(OutboxError::NoPool {
                    name: name.to_owned(),
                });
            };
            let check = Check {
                database,
                settings: &self.settings,
                name,
            };
            problems.extend(self.names.walk(name, check).await.unwrap_or_default());
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(OutboxError::Tables(problems))
        }
    }
}

struct Check<'a, B: Backend> {
    database: &'a Database<B>,
    settings: &'a Settings,
    name: &'a str,
}

impl<B: Backend> Visit<B> for Check<'_, B> {
    type Output = Vec<TableProblem>;

    async fn visit<R>(self, _registered: &Arc<Registered>) -> Self::Output
    where
        R: Publish<B> + Mark<B>,
        B: Statements<R>,
    {
        let described: Result<_, Failure> =
            read!(self.database, self.settings, NO_ANSWER, |conn| B::describe(
                &mut conn
            ))
            .await;
        let problems = match described {
            Err(failure) => vec![format!("it could not be looked at: {failure}")],
            Ok(None) => vec![
                "it does not exist: create it, as the `schema.sql` of the backend does, before the \
                 pool is given to the outbox"
                    .to_owned(),
            ],
            Ok(Some(table)) => problems::<R, B>(&table),
        };
        problems
            .into_iter()
            .map(|what| TableProblem {
                name: self.name.to_owned(),
                table: R::SPEC.table(),
                what,
            })
            .collect()
    }
}

fn problems<R, B>(table: &TableDescription) -> Vec<String>
where
    R: Mark<B>,
    B: Statements<R>,
{
    let spec = R::SPEC;
    let roles = [
        (ColumnRole::Id, Some(spec.id_column())),
        (ColumnRole::Name, Some(spec.name_column())),
        (ColumnRole::Payload, Some(spec.payload_column())),
        (ColumnRole::Headers, spec.headers_column()),
        (ColumnRole::ProcessedAt, spec.processed_at_column()),
        (ColumnRole::Marks, spec.marks_column()),
    ];
    let mut problems = Vec::new();
    for (role, column) in roles {
        let Some(column) = column else { continue };
        match table.columns.iter().find(|found| found.name == column) {
            None => problems.push(format!(
                "it has no column `{column}`: add it, or correct the role in the record"
            )),
            Some(found) => {
                if let Err(expected) = B::fits(role, &found.data_type) {
                    problems.push(format!(
                        "its column `{column}` is `{}`, where the record needs {expected}: change \
                         the column, or the record",
                        found.data_type
                    ));
                }
            }
        }
    }
    problems.extend(missing_indexes(spec, &table.indexes));
    problems
}

fn missing_indexes(spec: OutboxSpec, indexes: &[IndexDescription]) -> Vec<String> {
    let (table, id, name) = (spec.table(), spec.id_column(), spec.name_column());
    let mut missing = Vec::new();
    if !indexes.iter().any(|index| index.columns == [id]) {
        missing.push(format!(
            "its column `{id}` is not the primary key, so each delivery scans the table: make it \
             the primary key"
        ));
    }
    let finds_open = |index: &IndexDescription| {
        let of_name = index.columns.first().is_some_and(|first| first == name);
        let of_open = match (spec.processed_at_column(), &index.condition) {
            (None, condition) => condition.is_none(),
            (Some(column), Some(condition)) => condition.contains(column),
            (Some(column), None) => index.columns.get(1).is_some_and(|second| second == column),
        };
        of_name && of_open
    };
    if !indexes.iter().any(finds_open) {
        let condition = spec
            .processed_at_column()
            .map(|column| format!(" WHERE {column} IS NULL"))
            .unwrap_or_default();
        missing.push(format!(
            "no index finds its open records, so the start reads every row: CREATE INDEX \
             {table}_open ON {table} ({name}, {id}){condition}"
        ));
    }
    missing
}
