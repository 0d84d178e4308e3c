//! Every statement, as text, once.

#![allow(
    clippy::large_types_passed_by_value,
    reason = "texts are put together by the compiler"
)]

use std::fmt::Display;
use std::marker::PhantomData;

use outbox_core::{OutboxSpec, PAGE_ROWS, Record, Text};

pub(crate) const BEGIN: &str = "BEGIN";

/// Begins a transaction that holds the write lock.
pub(crate) const BEGIN_IMMEDIATE: &str = "BEGIN IMMEDIATE";

/// Begins a transaction that no reader can hold up when it commits.
pub(crate) const BEGIN_EXCLUSIVE: &str = "BEGIN EXCLUSIVE";

/// How the database keeps its journal.
pub(crate) const JOURNAL_MODE: &str = "PRAGMA journal_mode";

pub(crate) const COMMIT: &str = "COMMIT";

pub(crate) const ROLLBACK: &str = "ROLLBACK";

/// Begins a transaction where there is none: a rollback behind it succeeds in any state.
pub(crate) const SAVEPOINT: &str = "SAVEPOINT cut_off";

/// How many ids a statement for few of them has: each that is not bound costs a little.
const FEW: usize = 32;

/// How many ids the statement for so many of them has.
pub(crate) const fn page(ids: usize) -> usize {
    if ids <= FEW { FEW } else { PAGE_ROWS }
}

/// Whether an extended result code says that another connection holds a lock which it will let go.
/// A connection whose own open read is older than the last write is busy for ever.
pub(crate) const fn lock_held(code: i32) -> bool {
    const BUSY: i32 = 5;
    const LOCKED: i32 = 6;
    const BUSY_SNAPSHOT: i32 = BUSY | (2 << 8);
    matches!(code & 0xff, BUSY | LOCKED) && code != BUSY_SNAPSHOT
}

/// What is wrong with an id whose column keeps a text that the id's type does not write: a message
/// that carried it would find no record.
pub(crate) fn not_found_again(spec: OutboxSpec, kept: &str, id: &impl Display) -> Option<String> {
    let written = id.to_string();
    let column = spec.id_column();
    (written != kept).then(|| {
        format!(
            "the column `{column}` keeps the id `{kept}`, which its type writes as `{written}`, so \
             no message would find its record: keep ids as the type writes them"
        )
    })
}

/// Whether a commit waits for readers under this `journal_mode`.
pub(crate) fn readers_hold_up_commits(journal_mode: &str) -> bool {
    !matches!(journal_mode, "wal" | "memory" | "off")
}

/// The statements of a record type, a statement each.
///
/// A driver runs each read of the start between a `BEGIN` and a `COMMIT` of its own: on a
/// connection that came with somebody's open transaction it then fails, where it would otherwise
/// see what that transaction sees.
pub(crate) struct Sql<R>(PhantomData<R>);

impl<R: Record> Sql<R> {
    /// `?1` table, `?2` schema where the record names one. Returns each column's name, its declared
    /// type, and its place in the primary key.
    pub(crate) const COLUMNS: &'static str = const { &columns(R::SPEC) }.as_str();

    /// `?1` table, `?2` schema where the record names one. Returns each column of each index, index
    /// by index: the index's name, the column's, and the index's text where it is partial.
    pub(crate) const INDEXES: &'static str = const { &indexes(R::SPEC) }.as_str();

    /// `?1` name, `?2` payload, `?3` headers where the table has them. Returns the id.
    pub(crate) const INSERT: &'static str = const { &insert(R::SPEC) }.as_str();

    /// What [`INSERT`](Self::INSERT) binds, by position. Inserts and returns nothing where all of it is
    /// `NULL`.
    pub(crate) const INSERT_ANY: &'static str = const { &insert_any(R::SPEC) }.as_str();

    /// `?1` id. Returns the name, whether the record is processed, and its marks.
    pub(crate) const FETCH: &'static str = const { &fetch(R::SPEC) }.as_str();

    /// A page of ids. Returns the id, and what [`FETCH`](Self::FETCH) does.
    const FETCH_BATCH: &'static str = const { &fetch_batch(R::SPEC, PAGE_ROWS) }.as_str();

    /// The same, of no more than [`FEW`] ids.
    const FETCH_FEW: &'static str = const { &fetch_batch(R::SPEC, FEW) }.as_str();

    /// `?1` the consumer's mark and `?2` all marks, where the table has them, then the id.
    pub(crate) const MARK: &'static str = const { &mark(R::SPEC) }.as_str();

    /// As [`MARK`](Self::MARK), then a page of ids.
    const MARK_BATCH: &'static str = const { &mark_batch(R::SPEC, PAGE_ROWS) }.as_str();

    /// The same, for no more than [`FEW`] ids.
    const MARK_FEW: &'static str = const { &mark_batch(R::SPEC, FEW) }.as_str();

    /// `?1` name. Returns the ids, ascending.
    pub(crate) const OPEN_IDS: &'static str = const { &open_ids(R::SPEC) }.as_str();

    /// A page of ids. Returns the id and the length of what the record holds.
    pub(crate) const OPEN_SIZES: &'static str = const { &open_sizes(R::SPEC) }.as_str();

    /// A page of ids. Returns the id, the payload, and the headers where the table has them.
    pub(crate) const OPEN_RECORDS: &'static str = const { &open_records(R::SPEC) }.as_str();

    /// Reads so many records by a page of ids. Returns the id, and what [`FETCH`](Self::FETCH) does.
    pub(crate) const fn fetch_batch(ids: usize) -> &'static str {
        if page(ids) == FEW {
            Self::FETCH_FEW
        } else {
            Self::FETCH_BATCH
        }
    }

    /// As [`MARK`](Self::MARK), for so many records, then a page of ids.
    pub(crate) const fn mark_batch(ids: usize) -> &'static str {
        if page(ids) == FEW {
            Self::MARK_FEW
        } else {
            Self::MARK_BATCH
        }
    }
}

const fn columns(spec: OutboxSpec) -> Text {
    let schema = if spec.schema_name().is_some() {
        ", ?2"
    } else {
        ""
    };
    Text::new()
        .push("SELECT name, type, pk FROM pragma_table_info(?1")
        .push(schema)
        .push(")")
}

const fn indexes(spec: OutboxSpec) -> Text {
    let schema = if spec.schema_name().is_some() {
        ", ?2"
    } else {
        ""
    };
    let text = Text::new()
        .push("SELECT i.name, c.name, CASE WHEN i.partial THEN m.sql END FROM pragma_index_list(?1")
        .push(schema)
        .push(") AS i JOIN pragma_index_info(i.name")
        .push(schema)
        .push(") AS c LEFT JOIN ");
    let text = match spec.schema_name() {
        Some(schema) => text.quoted(schema).push("."),
        None => text,
    };
    text.push("sqlite_master AS m ON m.type = 'index' AND m.name = i.name ORDER BY i.seq, c.seqno")
}

const fn insert(spec: OutboxSpec) -> Text {
    let text = from(Text::new().push("INSERT INTO "), spec)
        .push(" (")
        .quoted(spec.name_column())
        .push(", ")
        .quoted(spec.payload_column());
    let text = match spec.headers_column() {
        Some(headers) => text.push(", ").quoted(headers).push(") VALUES (?1, ?2, ?3"),
        None => text.push(") VALUES (?1, ?2"),
    };
    text.push(") RETURNING ").quoted(spec.id_column())
}

const fn insert_any(spec: OutboxSpec) -> Text {
    let text = from(Text::new().push("INSERT INTO "), spec)
        .push(" (")
        .quoted(spec.name_column())
        .push(", ")
        .quoted(spec.payload_column());
    let text = match spec.headers_column() {
        Some(headers) => text
            .push(", ")
            .quoted(headers)
            .push(") SELECT * FROM (SELECT ? AS name, ?, ?)"),
        None => text.push(") SELECT * FROM (SELECT ? AS name, ?)"),
    };
    text.push(" WHERE name IS NOT NULL RETURNING ")
        .quoted(spec.id_column())
}

const fn fetch(spec: OutboxSpec) -> Text {
    state(Text::new().push("SELECT "), spec)
        .push(" WHERE ")
        .quoted(spec.id_column())
        .push(" = ?1")
}

const fn fetch_batch(spec: OutboxSpec, ids: usize) -> Text {
    let text = Text::new()
        .push("SELECT ")
        .quoted(spec.id_column())
        .push(", ");
    in_page(state(text, spec).push(" WHERE "), spec, 1, ids)
}

/// What a fetch reads of a record.
const fn state(text: Text, spec: OutboxSpec) -> Text {
    let text = text.quoted(spec.name_column()).push(", ");
    let text = match spec.processed_at_column() {
        Some(processed_at) => text.quoted(processed_at).push(" IS NOT NULL"),
        None => text.push("FALSE"),
    };
    let text = match spec.marks_column() {
        Some(marks) => text.push(", COALESCE(").quoted(marks).push(", 0) FROM "),
        None => text.push(", 0 FROM "),
    };
    from(text, spec)
}

const fn mark(spec: OutboxSpec) -> Text {
    let text = marking(spec).quoted(spec.id_column()).push(" = ?");
    and_open(text.number(first_id(spec)), spec)
}

const fn mark_batch(spec: OutboxSpec, ids: usize) -> Text {
    open_alone(in_page(marking(spec), spec, first_id(spec), ids), spec)
}

/// A mark, up to the records that it is for.
const fn marking(spec: OutboxSpec) -> Text {
    let Some(processed_at) = spec.processed_at_column() else {
        return from(Text::new().push("DELETE FROM "), spec).push(" WHERE ");
    };
    let text = from(Text::new().push("UPDATE "), spec).push(" SET ");
    let text = match spec.marks_column() {
        Some(marks) => text
            .quoted(marks)
            .push(" = COALESCE(")
            .quoted(marks)
            .push(", 0) | ?1, ")
            .quoted(processed_at)
            .push(" = CASE WHEN (COALESCE(")
            .quoted(marks)
            .push(", 0) | ?1) & ?2 = ?2 THEN CURRENT_TIMESTAMP END"),
        None => text.quoted(processed_at).push(" = CURRENT_TIMESTAMP"),
    };
    text.push(" WHERE ")
}

const fn open_ids(spec: OutboxSpec) -> Text {
    let text = Text::new()
        .push("SELECT ")
        .quoted(spec.id_column())
        .push(" FROM ");
    let text = from(text, spec)
        .push(" WHERE ")
        .quoted(spec.name_column())
        .push(" = ?1");
    in_order(and_open(text, spec), spec)
}

const fn open_sizes(spec: OutboxSpec) -> Text {
    let text = Text::new()
        .push("SELECT ")
        .quoted(spec.id_column())
        .push(", COALESCE(length(")
        .quoted(spec.payload_column())
        .push("), 0)");
    let text = match spec.headers_column() {
        Some(headers) => text
            .push(" + COALESCE(length(")
            .quoted(headers)
            .push("), 0)"),
        None => text,
    };
    in_order(of_page(text, spec), spec)
}

const fn open_records(spec: OutboxSpec) -> Text {
    let text = Text::new()
        .push("SELECT ")
        .quoted(spec.id_column())
        .push(", ")
        .quoted(spec.payload_column());
    let text = match spec.headers_column() {
        Some(headers) => text.push(", ").quoted(headers),
        None => text,
    };
    in_order(of_page(text, spec), spec)
}

const fn from(text: Text, spec: OutboxSpec) -> Text {
    let text = match spec.schema_name() {
        Some(schema) => text.quoted(schema).push("."),
        None => text,
    };
    text.quoted(spec.table())
}

/// The open ones of a page of ids.
const fn of_page(text: Text, spec: OutboxSpec) -> Text {
    let text = from(text.push(" FROM "), spec).push(" WHERE ");
    open_alone(in_page(text, spec, 1, PAGE_ROWS), spec)
}

/// A page of ids, a parameter each, from the number `first` on. Those that are not bound are `NULL`,
/// which no id equals. A range of ids would also read what was written since, where ids are not
/// ascending.
const fn in_page(text: Text, spec: OutboxSpec, first: usize, ids: usize) -> Text {
    let mut text = text.quoted(spec.id_column()).push(" IN (?").number(first);
    let mut parameter = first + 1;
    while parameter < first + ids {
        text = text.push(",?").number(parameter);
        parameter += 1;
    }
    text.push(")")
}

/// The number of a mark's first id.
const fn first_id(spec: OutboxSpec) -> usize {
    match spec.marks_column() {
        Some(_) => 3,
        None => 1,
    }
}

/// Of a page, the open ones. The plus keeps the planner from walking the index of open records for
/// each page.
const fn open_alone(text: Text, spec: OutboxSpec) -> Text {
    match spec.processed_at_column() {
        Some(processed_at) => text.push(" AND +").quoted(processed_at).push(" IS NULL"),
        None => text,
    }
}

const fn and_open(text: Text, spec: OutboxSpec) -> Text {
    match spec.processed_at_column() {
        Some(processed_at) => text.push(" AND ").quoted(processed_at).push(" IS NULL"),
        None => text,
    }
}

const fn in_order(text: Text, spec: OutboxSpec) -> Text {
    text.push(" ORDER BY ").quoted(spec.id_column())
}

#[cfg(test)]
mod tests {
    use outbox_core::conformance::StandRecord;
    use sqlx::sqlite::SqliteConnection;
    use sqlx::{AssertSqlSafe, Connection, Row};

    use super::*;

    async fn plan(conn: &mut SqliteConnection, text: &str) -> Vec<String> {
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {text}"));
        let steps = sqlx::query(explain).fetch_all(conn).await.unwrap();
        steps.iter().map(|step| step.get("detail")).collect()
    }

    /// A table of ten open records among many processed ones, whose statistics are known.
    async fn table(sql: &str) -> SqliteConnection {
        let mut conn = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let numbers = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 5000)";
        let fill = format!(
            "{sql};
             INSERT INTO outbox (name, payload) {numbers} SELECT 'payments', x'00' FROM n;
             ANALYZE;"
        );
        sqlx::raw_sql(AssertSqlSafe(fill))
            .execute(&mut conn)
            .await
            .unwrap();
        conn
    }

    async fn assert_no_scan<R: Record>(conn: &mut SqliteConnection) {
        type S<R> = Sql<R>;
        for text in [
            S::<R>::INSERT,
            S::<R>::FETCH,
            S::<R>::FETCH_BATCH,
            S::<R>::FETCH_FEW,
            S::<R>::MARK,
            S::<R>::MARK_BATCH,
            S::<R>::MARK_FEW,
            S::<R>::OPEN_IDS,
            S::<R>::OPEN_SIZES,
            S::<R>::OPEN_RECORDS,
        ] {
            let plan = plan(conn, text).await;
            assert!(
                plan.iter()
                    .all(|step| !step.contains("SCAN") && !step.contains("TEMP B-TREE")),
                "{text}: {plan:?}"
            );
        }
    }

    #[tokio::test]
    async fn no_statement_scans_a_table_that_marks() {
        let mut conn = table(include_str!("../schema.sql")).await;
        let process = "UPDATE outbox SET processed_at = CURRENT_TIMESTAMP WHERE id > 10; ANALYZE";
        sqlx::raw_sql(process).execute(&mut conn).await.unwrap();
        assert_no_scan::<StandRecord>(&mut conn).await;
        let ids = plan(&mut conn, Sql::<StandRecord>::OPEN_IDS).await;
        assert!(
            ids[0].contains("outbox_open"),
            "by the index of open records: {ids:?}"
        );
        let count = "SELECT count(*) FROM outbox WHERE name = 'payments' AND processed_at IS NULL";
        let count = plan(&mut conn, count).await;
        assert!(
            count[0].contains("outbox_open"),
            "a backlog count too: {count:?}"
        );
    }

    #[tokio::test]
    async fn no_statement_scans_a_table_that_deletes() {
        let mut conn = table(include_str!("../schema_delete.sql")).await;
        assert_no_scan::<StandRecord<i64, true>>(&mut conn).await;
    }

    #[test]
    fn identifiers_are_quoted() {
        struct Odd;
        impl Record for Odd {
            type Id = i64;
            const SPEC: OutboxSpec =
                OutboxSpec::new("my \"table\"", "select", "name", "payload").schema("main");
        }
        assert_eq!(
            Sql::<Odd>::FETCH,
            r#"SELECT "name", FALSE, 0 FROM "main"."my ""table""" WHERE "select" = ?1"#
        );
    }
}
