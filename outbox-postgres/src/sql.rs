//! Every statement, as text, once for both drivers.

#![allow(
    clippy::large_types_passed_by_value,
    reason = "texts are put together by the compiler"
)]

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outbox_core::{OutboxSpec, Record, Text};

/// Begins a transaction. Where somebody left one open, a plain `BEGIN` would join it with a
/// warning; the last two words refuse it as soon as it has run a query.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED NOT DEFERRABLE";

/// Commits, and fails where a plain `COMMIT` would answer with a rollback and no error: in a
/// transaction that a failed statement aborted, and in none at all. A savepoint is refused in both.
pub(crate) const COMMIT: &str = "SAVEPOINT outbox; COMMIT";

pub(crate) const ROLLBACK: &str = "ROLLBACK";

/// [`BEGIN`], with the longest that a statement of the transaction waits for a lock. The text of
/// the last `lock_wait` is kept: a service has one.
pub(crate) fn begin(lock_wait: Duration) -> Arc<str> {
    static LAST: Mutex<Option<(u32, Arc<str>)>> = Mutex::new(None);
    let millis = lock_timeout(lock_wait);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match &*last {
        Some((of, text)) if *of == millis => Arc::clone(text),
        _ => {
            let text: Arc<str> = format!("{BEGIN}; SET LOCAL lock_timeout = {millis}").into();
            *last = Some((millis, Arc::clone(&text)));
            text
        }
    }
}

/// A little less than the caller waits, so that the database's answer comes before the caller
/// gives up, and the connection is clean. In milliseconds, of which none would be no limit.
fn lock_timeout(lock_wait: Duration) -> u32 {
    const MOST: u32 = i32::MAX.unsigned_abs();
    let millis = u32::try_from(lock_wait.as_millis()).unwrap_or(MOST);
    (millis - millis / 8).clamp(1, MOST)
}

/// Whether the SQLSTATE says that somebody else holds a lock: the wait for it ran out, or would
/// never have ended.
pub(crate) fn lock_held(sqlstate: &str) -> bool {
    matches!(sqlstate, "55P03" | "40P01")
}

/// The statements of a record type.
///
/// A driver runs each read of the start between a [`BEGIN`] and a [`COMMIT`] of its own: on a
/// connection that came with somebody's open transaction it then fails, where it would otherwise
/// see what that transaction sees.
pub(crate) struct Sql<R>(PhantomData<R>);

impl<R: Record> Sql<R> {
    /// `$1` name, `$2` payload, `$3` headers where the table has them. Returns the id.
    pub(crate) const INSERT: &'static str = const { &insert(R::SPEC) }.as_str();

    /// As [`INSERT`](Self::INSERT), of several records, with arrays: for ids of a sequence that the
    /// id's column owns. Returns, in the order of the arrays, each id and whether a row has it; no row
    /// at all, and none inserted, where there is no such sequence that may be used.
    pub(crate) const INSERT_BATCH: &'static str = const { &insert_batch(R::SPEC, "text") }.as_str();

    /// The same, where the headers' column is `json`.
    pub(crate) const INSERT_BATCH_JSON: &'static str =
        const { &insert_batch(R::SPEC, "json") }.as_str();

    /// The same, where the headers' column is `jsonb`.
    pub(crate) const INSERT_BATCH_JSONB: &'static str =
        const { &insert_batch(R::SPEC, "jsonb") }.as_str();

    /// `$1` id. Returns the name, whether the record is processed, and its marks.
    pub(crate) const FETCH: &'static str = const { &fetch(R::SPEC) }.as_str();

    /// `$1` ids. Returns the id, and what [`FETCH`](Self::FETCH) does.
    pub(crate) const FETCH_BATCH: &'static str = const { &fetch_batch(R::SPEC) }.as_str();

    /// `$1` id, `$2` the consumer's mark, `$3` all marks, where the table has them.
    pub(crate) const MARK: &'static str = const { &mark(R::SPEC) }.as_str();

    /// As [`MARK`](Self::MARK), for `$1` ids.
    pub(crate) const MARK_BATCH: &'static str = const { &mark_batch(R::SPEC) }.as_str();

    /// `$1` name. Returns the ids, ascending.
    pub(crate) const OPEN_IDS: &'static str = const { &open_ids(R::SPEC) }.as_str();

    /// `$1` ids. Returns the id and the length of what the record holds.
    pub(crate) const OPEN_SIZES: &'static str = const { &open_sizes(R::SPEC) }.as_str();

    /// `$1` ids. Returns the id, the payload, and the headers' text where the table has them.
    pub(crate) const OPEN_RECORDS: &'static str = const { &open_records(R::SPEC) }.as_str();
}

const fn insert(spec: OutboxSpec) -> Text {
    let text = from(Text::new().push("INSERT INTO "), spec)
        .push(" (")
        .quoted(spec.name_column())
        .push(", ")
        .quoted(spec.payload_column());
    let text = match spec.headers_column() {
        Some(headers) => text.push(", ").quoted(headers).push(") VALUES ($1, $2, $3"),
        None => text.push(") VALUES ($1, $2"),
    };
    text.push(") RETURNING ").quoted(spec.id_column())
}

/// The ids are taken from the sequence beside the order of the arrays: in which order an insert
/// returns its rows is not defined.
const fn insert_batch(spec: OutboxSpec, headers_type: &str) -> Text {
    let text = Text::new().push("WITH owned AS MATERIALIZED (SELECT pg_get_serial_sequence(");
    let table = from(Text::new(), spec);
    let text = text
        .literal(table.as_str())
        .push(", ")
        .literal(spec.id_column())
        .push(
            ") AS sequence), new AS MATERIALIZED (\
             SELECT nextval(owned.sequence::regclass) AS id, n.* FROM owned, unnest($1::text[], $2::bytea[]",
        );
    let text = match spec.headers_column() {
        Some(_) => text.push(", $3::text[]) WITH ORDINALITY AS n(name, payload, headers, place)"),
        None => text.push(") WITH ORDINALITY AS n(name, payload, place)"),
    };
    let text = text
        .push(" WHERE has_sequence_privilege(owned.sequence, 'USAGE')), inserted AS (INSERT INTO ");
    let text = from(text, spec)
        .push(" (")
        .quoted(spec.id_column())
        .push(", ")
        .quoted(spec.name_column())
        .push(", ")
        .quoted(spec.payload_column());
    let text = match spec.headers_column() {
        Some(headers) => text
            .push(", ")
            .quoted(headers)
            .push(") OVERRIDING SYSTEM VALUE SELECT id, name, payload, headers::")
            .push(headers_type),
        None => text.push(") OVERRIDING SYSTEM VALUE SELECT id, name, payload"),
    };
    text.push(" FROM new ORDER BY place RETURNING ")
        .quoted(spec.id_column())
        .push(
            " AS id) SELECT new.id, inserted.id IS NOT NULL FROM new LEFT JOIN inserted USING (id) \
             ORDER BY place",
        )
}

const fn fetch(spec: OutboxSpec) -> Text {
    with_id(state(Text::new().push("SELECT "), spec), spec)
}

const fn fetch_batch(spec: OutboxSpec) -> Text {
    let text = Text::new()
        .push("SELECT ")
        .quoted(spec.id_column())
        .push(", ");
    in_page(state(text, spec), spec)
}

/// What a fetch reads of a record.
const fn state(text: Text, spec: OutboxSpec) -> Text {
    let text = text.quoted(spec.name_column()).push(", ");
    let text = match spec.processed_at_column() {
        Some(processed_at) => text.quoted(processed_at).push(" IS NOT NULL"),
        None => text.push("FALSE"),
    };
    let text = match spec.marks_column() {
        Some(marks) => text
            .push(", COALESCE(")
            .quoted(marks)
            .push(", 0)::bigint FROM "),
        None => text.push(", 0::bigint FROM "),
    };
    from(text, spec)
}

const fn mark(spec: OutboxSpec) -> Text {
    and_open(with_id(marking(spec), spec), spec)
}

const fn mark_batch(spec: OutboxSpec) -> Text {
    open_alone(in_page(marking(spec), spec), spec)
}

/// A mark, up to the records that it is for.
const fn marking(spec: OutboxSpec) -> Text {
    let Some(processed_at) = spec.processed_at_column() else {
        return from(Text::new().push("DELETE FROM "), spec);
    };
    let text = from(Text::new().push("UPDATE "), spec).push(" SET ");
    match spec.marks_column() {
        Some(marks) => text
            .quoted(marks)
            .push(" = COALESCE(")
            .quoted(marks)
            .push(", 0) | $2, ")
            .quoted(processed_at)
            .push(" = CASE WHEN (COALESCE(")
            .quoted(marks)
            .push(", 0) | $2) & $3 = $3 THEN now() END"),
        None => text.quoted(processed_at).push(" = now()"),
    }
}

const fn with_id(text: Text, spec: OutboxSpec) -> Text {
    text.push(" WHERE ").quoted(spec.id_column()).push(" = $1")
}

const fn open_ids(spec: OutboxSpec) -> Text {
    let text = Text::new()
        .push("SELECT ")
        .quoted(spec.id_column())
        .push(" FROM ");
    let text = from(text, spec)
        .push(" WHERE ")
        .quoted(spec.name_column())
        .push(" = $1");
    in_order(and_open(text, spec), spec)
}

const fn open_sizes(spec: OutboxSpec) -> Text {
    let text = Text::new()
        .push("SELECT ")
        .quoted(spec.id_column())
        .push(", coalesce(octet_length(")
        .quoted(spec.payload_column())
        .push("), 0)::bigint");
    let text = match spec.headers_column() {
        Some(headers) => text
            .push(" + coalesce(octet_length(")
            .quoted(headers)
            .push("::text), 0)"),
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
        Some(headers) => text.push(", ").quoted(headers).push("::text"),
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
    open_alone(in_page(from(text.push(" FROM "), spec), spec), spec)
}

/// A page of ids. A range of ids would also read what was written since, where ids are not
/// ascending.
const fn in_page(text: Text, spec: OutboxSpec) -> Text {
    text.push(" WHERE ")
        .quoted(spec.id_column())
        .push(" = ANY($1)")
}

/// Of a page, the open ones. `IS TRUE` keeps the planner from walking the whole index of open
/// records, which it takes for small, for each page.
const fn open_alone(text: Text, spec: OutboxSpec) -> Text {
    match spec.processed_at_column() {
        Some(processed_at) => text
            .push(" AND (")
            .quoted(processed_at)
            .push(" IS NULL) IS TRUE"),
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
    use outbox_core::conformance::{StandRecord, skip};
    use sqlx::{AssertSqlSafe, PgConnection};

    use super::*;
    use crate::server::{Database, missing};

    /// The plans of a statement: for what it is given, and for any value.
    async fn plans(conn: &mut PgConnection, text: &str) -> Vec<String> {
        let parameters = match text {
            _ if text.contains("ANY($1)") => "('{3, 5, 7}')",
            _ if text.contains("$3") => "('payments', '', '{}')",
            _ if text.contains("name\" = $1") => "('payments')",
            _ => "(5)",
        };
        let mut plans = Vec::new();
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let prepare = format!("SET plan_cache_mode = {mode}; PREPARE statement AS {text}");
            let prepare = sqlx::raw_sql(AssertSqlSafe(prepare));
            prepare.execute(&mut *conn).await.unwrap();
            let explain = AssertSqlSafe(format!("EXPLAIN EXECUTE statement {parameters}"));
            let steps: Vec<String> = sqlx::query_scalar(explain)
                .persistent(false)
                .fetch_all(&mut *conn)
                .await
                .unwrap();
            plans.push(steps.join("\n"));
            let forget = sqlx::raw_sql("DEALLOCATE statement");
            forget.execute(&mut *conn).await.unwrap();
        }
        plans
    }

    /// A table of ten open records among many others, whose statistics are known.
    async fn table(schema: &str, process: &str) -> (Database, PgConnection) {
        let database = Database::create().await;
        let mut conn = database.connect().await;
        let fill = format!(
            "{schema};
             INSERT INTO outbox (name, payload)
                 SELECT 'payments', '\\x00' FROM generate_series(1, 20000);
             {process};"
        );
        for text in [fill.as_str(), "VACUUM ANALYZE outbox"] {
            let run = sqlx::raw_sql(AssertSqlSafe(text));
            run.execute(&mut conn).await.unwrap();
        }
        (database, conn)
    }

    /// Every statement finds its rows by this index.
    async fn assert_by_index<R: Record>(conn: &mut PgConnection) {
        for (text, index) in [
            (Sql::<R>::INSERT, "Insert on outbox"),
            (Sql::<R>::FETCH, "outbox_pkey"),
            (Sql::<R>::FETCH_BATCH, "outbox_pkey"),
            (Sql::<R>::MARK, "outbox_pkey"),
            (Sql::<R>::MARK_BATCH, "outbox_pkey"),
            (Sql::<R>::OPEN_IDS, "outbox_open"),
            (Sql::<R>::OPEN_SIZES, "outbox_pkey"),
            (Sql::<R>::OPEN_RECORDS, "outbox_pkey"),
        ] {
            for plan in plans(conn, text).await {
                assert!(plan.contains(index), "{text}: {plan}");
                assert!(!plan.contains("Seq Scan"), "{text}: {plan}");
            }
        }
    }

    #[tokio::test]
    async fn no_statement_scans_a_table_that_marks() {
        if let Some(missing) = missing() {
            return skip(&missing);
        }
        let process = "UPDATE outbox SET processed_at = now() WHERE id > 10";
        let (_database, mut conn) = table(include_str!("../schema.sql"), process).await;
        assert_by_index::<StandRecord>(&mut conn).await;
        let count = "SELECT count(*) FROM outbox WHERE \"name\" = $1 AND processed_at IS NULL";
        for plan in plans(&mut conn, count).await {
            assert!(plan.contains("outbox_open"), "a backlog count too: {plan}");
        }
    }

    #[tokio::test]
    async fn no_statement_scans_a_table_that_deletes() {
        if let Some(missing) = missing() {
            return skip(&missing);
        }
        let of_others = "UPDATE outbox SET name = 'refunds' WHERE id > 10";
        let (_database, mut conn) = table(include_str!("../schema_delete.sql"), of_others).await;
        assert_by_index::<StandRecord<i64, true>>(&mut conn).await;
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
            r#"SELECT "name", FALSE, 0::bigint FROM "main"."my ""table""" WHERE "select" = $1"#
        );
    }

    #[test]
    fn a_lock_timeout_is_never_off() {
        for (wait, millis) in [
            (Duration::ZERO, 1),
            (Duration::from_millis(400), 350),
            (Duration::MAX, i32::MAX.unsigned_abs()),
        ] {
            let begin = begin(wait);
            let timeout = begin.rsplit(' ').next().unwrap();
            let timeout: u32 = timeout.parse().unwrap();
            assert!(
                timeout <= millis && timeout >= millis - millis / 8,
                "{begin}"
            );
        }
    }
}
