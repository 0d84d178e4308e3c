//! What SQLite's catalogue says of a table, and which declared types hold what a record has.

use outbox_core::{ColumnRole, IndexDescription, TableDescription};

/// A row of [`COLUMNS`](crate::sql::Sql::COLUMNS): name, declared type, place in the primary key.
pub(crate) type Column = (String, String, i64);

/// A row of [`INDEXES`](crate::sql::Sql::INDEXES): index, column unless it is an expression, text.
pub(crate) type IndexColumn = (String, Option<String>, Option<String>);

/// `None`: there is no such table.
pub(crate) fn describe(
    columns: Vec<Column>,
    index_columns: Vec<IndexColumn>,
) -> Option<TableDescription> {
    let mut key: Vec<&Column> = columns.iter().filter(|(_, _, place)| *place > 0).collect();
    key.sort_by_key(|(_, _, place)| *place);
    // The catalogue lists no index for a key that is the row's own number.
    let key = IndexDescription {
        columns: key.into_iter().map(|(name, _, _)| name.clone()).collect(),
        condition: None,
    };
    let columns = columns
        .into_iter()
        .map(|(name, declared, _)| (name, declared));
    let indexes = index_columns.into_iter();
    let indexes =
        indexes.map(|(index, column, text)| (index, column, text.as_deref().map(after_where)));
    let mut table = TableDescription::new(columns, indexes)?;
    table.indexes.push(key);
    Some(table)
}

fn after_where(create_index: &str) -> String {
    let at = create_index.to_ascii_uppercase().rfind(" WHERE ");
    at.and_then(|at| create_index.get(at..))
        .unwrap_or_default()
        .to_owned()
}

/// Whether a declared type holds what the record has in that role. `id` is the type that the
/// driver stores the record's ids as.
pub(crate) fn fits(role: ColumnRole, declared: &str, id: &str) -> Result<(), &'static str> {
    let affinity = affinity(declared);
    match role {
        ColumnRole::Id => match id {
            "INTEGER" => expect(affinity == "INTEGER", "INTEGER"),
            "TEXT" => expect(affinity == "TEXT", "TEXT"),
            "BLOB" => expect(affinity == "BLOB", "BLOB"),
            _ => Ok(()),
        },
        ColumnRole::Name => expect(affinity == "TEXT", "TEXT"),
        ColumnRole::Payload => expect(affinity == "BLOB" || affinity == "TEXT", "BLOB"),
        // A declared type such as JSON or TIMESTAMP keeps a text as it is.
        ColumnRole::Headers => expect(affinity == "TEXT" || affinity == "NUMERIC", "TEXT"),
        ColumnRole::Marks => expect(affinity == "INTEGER", "INTEGER"),
        ColumnRole::ProcessedAt => expect(
            affinity == "TEXT" || affinity == "NUMERIC",
            "TEXT, since it takes CURRENT_TIMESTAMP",
        ),
    }
}

fn expect(fits: bool, expected: &'static str) -> Result<(), &'static str> {
    if fits { Ok(()) } else { Err(expected) }
}

/// The affinity of a declared type, by SQLite's own rules.
fn affinity(declared: &str) -> &'static str {
    let declared = declared.to_ascii_uppercase();
    let has = |parts: &[&str]| parts.iter().any(|part| declared.contains(part));
    if has(&["INT"]) {
        "INTEGER"
    } else if has(&["CHAR", "CLOB", "TEXT"]) {
        "TEXT"
    } else if declared.is_empty() || has(&["BLOB"]) {
        "BLOB"
    } else if has(&["REAL", "FLOA", "DOUB"]) {
        "REAL"
    } else {
        "NUMERIC"
    }
}
