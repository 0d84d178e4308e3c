//! The driver `Rusqlite`: SQLite through rusqlite, on a pool of deadpool's.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use deadpool_sqlite::{Object, Pool};
use outbox_core::{
    Backend, ColumnRole, Consumer, OpenIds, OpenRecord, OpenRecords, PAGE_ROWS, Record, Statements,
    Stored, StoredMessage, TableDescription, encode_headers,
};
use rusqlite::config::DbConfig;
use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, Value, ValueRef};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params, params_from_iter};
use ruststream::OutgoingMessage;
use tokio::task::spawn_blocking;

use crate::RusqliteError;
use crate::sql::{self, Sql};
use crate::table;

/// SQLite through rusqlite: the service's pool is a [`deadpool_sqlite::Pool`], and its own
/// statements get a [`RusqliteConnection`].
///
/// Every statement runs on a thread where it may block. An id is any type that has rusqlite's
/// `ToSql` and `FromSql`: `i64`, `String`, and `uuid::Uuid` (16 bytes) with rusqlite's feature
/// `uuid`. `uuid::fmt::Hyphenated` has neither; a UUID that is kept as text is a `String`, or a
/// type of the service's own.
#[derive(Debug, Clone, Copy)]
pub struct Rusqlite;

/// What a pool of deadpool-sqlite holds: `deadpool_sync::SyncWrapper<rusqlite::Connection>`. Its
/// `interact` runs a closure on the [`rusqlite::Connection`].
pub type RusqliteConnection = <Object as Deref>::Target;

type Result<T> = std::result::Result<T, RusqliteError>;

impl Backend for Rusqlite {
    const NAME: &'static str = "Rusqlite";
    const ONE_WRITER: bool = true;
    const SHARES_OWN_PUBLISH: bool = true;

    type Pool = Pool;
    type Connection = RusqliteConnection;
    type Acquired = Object;
    type Error = RusqliteError;

    async fn acquire(pool: &Pool) -> Result<Object> {
        Ok(pool.get().await?)
    }

    async fn begin(conn: &mut RusqliteConnection, lock_wait: Duration) -> Result<()> {
        run(conn, move |conn| {
            waiting_at_most(lock_wait, conn, begin_to_write)
        })
        .await
    }

    async fn commit(conn: &mut RusqliteConnection) -> Result<()> {
        run(conn, |conn| execute(conn, sql::COMMIT)).await
    }

    async fn rollback(conn: &mut RusqliteConnection) -> Result<()> {
        run(conn, |conn| {
            execute(conn, sql::SAVEPOINT)?;
            execute(conn, sql::ROLLBACK)
        })
        .await
    }

    /// A statement that still runs ends first: the connection is closed behind it.
    fn discard(acquired: Object) {
        let conn = Object::take(acquired);
        drop(spawn_blocking(move || {
            // SQLite 3.51.1 deadlocks where a close that checkpoints meets an open of the same file,
            // and the pool may open another connection at once.
            if let Ok(conn) = conn.lock() {
                let set = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
                drop(set);
            }
        }));
    }

    fn write_lock_held(error: &RusqliteError) -> bool {
        let RusqliteError::Database(error) = error else {
            return false;
        };
        error
            .sqlite_error()
            .is_some_and(|error| sql::lock_held(error.extended_code))
    }
}

/// Runs SQL on a thread where it may block. Whatever has not begun when its future is dropped does
/// not begin any more: a rollback may have overtaken it.
async fn run<T: Send + 'static>(
    conn: &RusqliteConnection,
    sql: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
) -> Result<T> {
    let waiting = Arc::new(());
    let awaited = Arc::downgrade(&waiting);
    let done = conn.interact(move |conn| awaited.upgrade().map(|_| sql(conn)));
    let done = done.await?.ok_or(RusqliteError::Cancelled)?;
    drop(waiting);
    Ok(done?)
}

fn execute(conn: &Connection, statement: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(statement)?.execute([]).map(drop)
}

/// Runs SQL with a busy timeout of no more than `lock_wait`: whoever gave up waiting for it does
/// not leave a thread behind. A shorter timeout is left alone, and with it a busy handler of the
/// service's, which reads as none.
fn waiting_at_most<T>(
    lock_wait: Duration,
    conn: &Connection,
    sql: fn(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    // Not a cached statement: it would answer for ever with what it read when it was prepared.
    let own = conn.pragma_query_value(None, "busy_timeout", |row| row.get::<_, u32>(0))?;
    let own = Duration::from_millis(own.into());
    if own <= lock_wait {
        return sql(conn);
    }
    conn.busy_timeout(lock_wait)?;
    let done = sql(conn);
    conn.busy_timeout(own)?;
    done
}

/// Takes the write lock. With a rollback journal a commit waits for readers, and could succeed
/// after its caller gave up: there the transaction starts with the lock that keeps readers out.
fn begin_to_write(conn: &Connection) -> rusqlite::Result<()> {
    execute(conn, sql::BEGIN_IMMEDIATE)?;
    let journal_mode: String = conn
        .prepare_cached(sql::JOURNAL_MODE)?
        .query_one([], |row| row.get(0))?;
    if sql::readers_hold_up_commits(&journal_mode) {
        execute(conn, sql::ROLLBACK)?;
        execute(conn, sql::BEGIN_EXCLUSIVE)?;
    }
    Ok(())
}

impl<R> Statements<R> for Rusqlite
where
    R: Record,
    R::Id: ToSql + FromSql,
{
    async fn insert(conn: &mut RusqliteConnection, msg: &OutgoingMessage<'_>) -> Result<R::Id> {
        let row = Inserted::of::<R>(msg);
        run(conn, move |conn| {
            row.insert::<R>(&mut conn.prepare_cached(Sql::<R>::INSERT)?)
        })
        .await
    }

    async fn insert_batch(
        conn: &mut RusqliteConnection,
        messages: &[OutgoingMessage<'_>],
    ) -> Result<Vec<R::Id>> {
        let rows: Vec<Inserted> = messages.iter().map(Inserted::of::<R>).collect();
        run(conn, move |conn| {
            let mut insert = conn.prepare_cached(Sql::<R>::INSERT)?;
            let ids = rows.iter().map(|row| row.insert::<R>(&mut insert));
            ids.collect()
        })
        .await
    }

    async fn fetch(conn: &mut RusqliteConnection, id: &R::Id) -> Result<Option<Stored>> {
        let id = owned(id)?;
        run(conn, move |conn| {
            let mut fetch = conn.prepare_cached(Sql::<R>::FETCH)?;
            fetch.query_row([id], |row| stored(row, 0)).optional()
        })
        .await
    }

    async fn mark(conn: &mut RusqliteConnection, id: &R::Id, consumer: Consumer) -> Result<bool> {
        let mut params = marks::<R>(consumer);
        params.push(owned(id)?);
        Ok(write(conn, Sql::<R>::MARK, params).await? > 0)
    }

    async fn fetch_batch(
        conn: &mut RusqliteConnection,
        ids: &[R::Id],
    ) -> Result<Vec<(R::Id, Stored)>> {
        let fetch = Sql::<R>::fetch_batch(ids.len());
        let ids = page(ids, sql::page(ids.len()))?;
        run(conn, move |conn| {
            let mut fetch = conn.prepare_cached(fetch)?;
            let found = |row: &Row<'_>| Ok((row.get(0)?, stored(row, 1)?));
            fetch.query_map(params_from_iter(ids), found)?.collect()
        })
        .await
    }

    async fn mark_batch(
        conn: &mut RusqliteConnection,
        ids: &[R::Id],
        consumer: Consumer,
    ) -> Result<u64> {
        let mut params = marks::<R>(consumer);
        params.append(&mut page(ids, sql::page(ids.len()))?);
        Ok(write(conn, Sql::<R>::mark_batch(ids.len()), params).await? as u64)
    }

    async fn open_ids(
        conn: &mut RusqliteConnection,
        name: &str,
    ) -> Result<OpenIds<R::Id, RusqliteError>> {
        let name = vec![name.to_owned().into()];
        let add = |ids: &mut OpenIds<_, _>, row: &Row<'_>| {
            ids.push(read_id::<R>(row).map_err(RusqliteError::from));
            Ok(())
        };
        read(conn, Sql::<R>::OPEN_IDS, name, add).await
    }

    async fn open_sizes(conn: &mut RusqliteConnection, ids: &[R::Id]) -> Result<Vec<(R::Id, u64)>> {
        let add = |sizes: &mut Vec<_>, row: &Row<'_>| {
            let size: i64 = row.get(1)?;
            sizes.push((row.get(0)?, size.unsigned_abs()));
            Ok(())
        };
        read(conn, Sql::<R>::OPEN_SIZES, page(ids, PAGE_ROWS)?, add).await
    }

    async fn open_records(
        conn: &mut RusqliteConnection,
        ids: &[R::Id],
    ) -> Result<OpenRecords<R::Id, RusqliteError>> {
        let add = |records: &mut Vec<_>, row: &Row<'_>| {
            records.push(OpenRecord {
                id: row.get(0)?,
                message: message::<R>(row).map_err(RusqliteError::from),
            });
            Ok(())
        };
        read(conn, Sql::<R>::OPEN_RECORDS, page(ids, PAGE_ROWS)?, add).await
    }

    async fn describe(conn: &mut RusqliteConnection) -> Result<Option<TableDescription>> {
        let table = [Some(R::SPEC.table()), R::SPEC.schema_name()];
        let table = table
            .into_iter()
            .flatten()
            .map(|name| Value::from(name.to_owned()));
        let table: Vec<Value> = table.collect();
        let column = |columns: &mut Vec<_>, row: &Row<'_>| {
            columns.push((row.get(0)?, row.get(1)?, row.get(2)?));
            Ok(())
        };
        let columns = read(conn, Sql::<R>::COLUMNS, table.clone(), column).await?;
        let index = |indexes: &mut Vec<_>, row: &Row<'_>| {
            indexes.push((row.get(0)?, row.get(1)?, row.get(2)?));
            Ok(())
        };
        let indexes = read(conn, Sql::<R>::INDEXES, table, index).await?;
        Ok(table::describe(columns, indexes))
    }

    /// What an id is stored as is known of a value only: of one of the usual texts.
    fn fits(role: ColumnRole, data_type: &str) -> std::result::Result<(), &'static str> {
        let texts = ["1", "00000000-0000-7000-8000-000000000001"];
        let id = texts.iter().find_map(|text| text.parse::<R::Id>().ok());
        let stored = id.and_then(|id| owned(&id).ok());
        let stored = stored.map_or("", |id| match id {
            Value::Integer(_) => "INTEGER",
            Value::Text(_) => "TEXT",
            Value::Blob(_) => "BLOB",
            Value::Null | Value::Real(_) => "",
        });
        table::fits(role, data_type, stored)
    }
}

/// A row that is to be inserted, as it goes to another thread.
struct Inserted {
    name: String,
    payload: Vec<u8>,
    headers: Option<String>,
}

impl Inserted {
    fn of<R: Record>(msg: &OutgoingMessage<'_>) -> Self {
        let headers = R::SPEC.headers_column();
        Self {
            name: msg.name().to_owned(),
            payload: msg.payload().to_vec(),
            headers: headers.map(|_| encode_headers(msg.headers())),
        }
    }

    fn insert<R: Record>(&self, insert: &mut CachedStatement<'_>) -> rusqlite::Result<R::Id>
    where
        R::Id: FromSql,
    {
        let Self {
            name,
            payload,
            headers,
        } = self;
        match headers {
            Some(headers) => insert.query_one(params![name, payload, headers], read_id::<R>),
            None => insert.query_one(params![name, payload], read_id::<R>),
        }
    }
}

/// Reads rows in a transaction that it begins itself.
async fn read<T: Default + Send + 'static>(
    conn: &RusqliteConnection,
    select: &'static str,
    params: Vec<Value>,
    add: fn(&mut T, &Row<'_>) -> rusqlite::Result<()>,
) -> Result<T> {
    run(conn, move |conn| {
        let mut read = T::default();
        execute(conn, sql::BEGIN)?;
        let mut select = conn.prepare_cached(select)?;
        let mut rows = select.query(params_from_iter(params))?;
        while let Some(row) = rows.next()? {
            add(&mut read, row)?;
        }
        execute(conn, sql::COMMIT)?;
        Ok(read)
    })
    .await
}

/// Changes rows, and returns how many.
async fn write(
    conn: &RusqliteConnection,
    statement: &'static str,
    params: Vec<Value>,
) -> Result<usize> {
    run(conn, move |conn| {
        let mut write = conn.prepare_cached(statement)?;
        write.execute(params_from_iter(params))
    })
    .await
}

/// What a mark binds before the ids.
fn marks<R: Record>(consumer: Consumer) -> Vec<Value> {
    match R::SPEC.marks_column() {
        Some(_) => vec![consumer.mark().into(), consumer.all().into()],
        None => Vec::new(),
    }
}

/// The state of a record, from the column `first` on.
fn stored(row: &Row<'_>, first: usize) -> rusqlite::Result<Stored> {
    Ok(Stored {
        name: row.get(first)?,
        processed: row.get(first + 1)?,
        marks: row.get(first + 2)?,
    })
}

/// Reads an id that finds its row again. Of an id that is kept as text, the type may read a text
/// that it does not write.
fn read_id<R: Record>(row: &Row<'_>) -> rusqlite::Result<R::Id>
where
    R::Id: FromSql,
{
    let id: R::Id = row.get(0)?;
    if let ValueRef::Text(kept) = row.get_ref(0)?
        && let Some(problem) = sql::not_found_again(R::SPEC, &String::from_utf8_lossy(kept), &id)
    {
        let text = rusqlite::types::Type::Text;
        return Err(rusqlite::Error::FromSqlConversionFailure(
            0,
            text,
            problem.into(),
        ));
    }
    Ok(id)
}

fn message<R: Record>(row: &Row<'_>) -> rusqlite::Result<StoredMessage> {
    let Bytes(payload) = row.get(1)?;
    Ok(StoredMessage {
        payload,
        headers: match R::SPEC.headers_column() {
            Some(_) => row.get(2)?,
            None => None,
        },
    })
}

/// A payload, which a service may keep as text.
struct Bytes(Vec<u8>);

impl FromSql for Bytes {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_bytes().map(<[u8]>::to_vec).map(Self)
    }
}

/// The parameters of a statement for so many ids. Those that are over are `NULL`, which no id equals.
fn page(ids: &[impl ToSql], size: usize) -> rusqlite::Result<Vec<Value>> {
    let ids = ids.iter().map(owned);
    let mut page = ids.collect::<rusqlite::Result<Vec<_>>>()?;
    page.resize(size, Value::Null);
    Ok(page)
}

/// The value of an id, as it goes to another thread.
fn owned(id: &impl ToSql) -> rusqlite::Result<Value> {
    match id.to_sql()? {
        ToSqlOutput::Borrowed(value) => Ok(value.into()),
        ToSqlOutput::Owned(value) => Ok(value),
        _ => {
            let no_value = "an id must be bound as a value";
            Err(rusqlite::Error::ToSqlConversionFailure(no_value.into()))
        }
    }
}
