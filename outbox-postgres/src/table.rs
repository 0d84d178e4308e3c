//! What Postgres's catalogue says of a table, and which types hold what a record has.

use outbox_core::{ColumnRole, OutboxSpec, Record};

use crate::id;
use crate::value::Form;

/// `$1` the table. Returns each column's name and type; of a domain, the one below.
pub(crate) const COLUMNS: &str = "SELECT a.attname::text, COALESCE(b.typname, t.typname)::text \
     FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
     LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype \
     WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped \
     ORDER BY a.attnum";

/// `$1` the table. Returns each column of each valid index, index by index: the index's name, the
/// column's, and the index's condition.
pub(crate) const INDEXES: &str = "SELECT x.indexrelid::regclass::text, a.attname::text, \
     pg_get_expr(x.indpred, x.indrelid) \
     FROM pg_index x CROSS JOIN LATERAL unnest(x.indkey::int2[]) WITH ORDINALITY k(attnum, place) \
     LEFT JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.attnum \
     WHERE x.indrelid = to_regclass($1) AND x.indisvalid AND k.place <= x.indnkeyatts \
     ORDER BY x.indexrelid, k.place";

/// The table's name, as `to_regclass` reads it.
pub(crate) fn name(spec: OutboxSpec) -> String {
    let quoted = |identifier: &str| format!("\"{}\"", identifier.replace('"', "\"\""));
    let table = quoted(spec.table());
    match spec.schema_name() {
        Some(schema) => format!("{}.{table}", quoted(schema)),
        None => table,
    }
}

/// Whether a type holds what a record has in that role.
pub(crate) fn fits<R: Record>(role: ColumnRole, data_type: &str) -> Result<(), &'static str> {
    let form = Form::named(data_type);
    let (fits, expected) = match role {
        ColumnRole::Id => match id::listed::<R>() {
            Some((forms, needed)) => (form.is_some_and(|form| forms.contains(&form)), needed),
            None => (true, ""),
        },
        ColumnRole::Name => (form == Some(Form::Text), "text"),
        ColumnRole::Payload => (form == Some(Form::Bytes), "bytea"),
        ColumnRole::Headers => (
            matches!(form, Some(Form::Text | Form::Json | Form::Jsonb)),
            "text, json or jsonb",
        ),
        ColumnRole::Marks => (
            matches!(form, Some(Form::Int4 | Form::Int8)),
            "integer or bigint",
        ),
        ColumnRole::ProcessedAt => (data_type == "timestamptz", "timestamptz"),
    };
    if fits { Ok(()) } else { Err(expected) }
}
