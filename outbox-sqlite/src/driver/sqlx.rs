//! The driver `Sqlite`: SQLite through sqlx.

use std::marker::PhantomData;
use std::time::Duration;

use futures_util::TryStreamExt;
use outbox_core::{
    Backend, ColumnRole, Consumer, OpenIds, OpenRecord, OpenRecords, Record, Statements, Stored,
    StoredMessage, TableDescription, Text, encode_headers,
};
use ruststream::OutgoingMessage;
use sqlx::error::DatabaseError;
use sqlx::error::UnexpectedNullError;
use sqlx::pool::PoolConnection;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqlitePool, SqliteRow};
use sqlx::{Decode, Encode, Row, Type, TypeInfo, ValueRef};

use crate::sql::{self, Sql};
use crate::table;

/// SQLite through sqlx: the service's pool is a [`sqlx::SqlitePool`], and its own statements get a
/// [`sqlx::SqliteConnection`].
#[derive(Debug, Clone, Copy)]
pub struct Sqlite;

impl Backend for Sqlite {
    const NAME: &'static str = "Sqlite";
    const ONE_WRITER: bool = true;
    const SHARES_OWN_PUBLISH: bool = true;

    type Pool = SqlitePool;
    type Connection = SqliteConnection;
    type Acquired = PoolConnection<sqlx::Sqlite>;
    type Error = sqlx::Error;

    async fn acquire(pool: &SqlitePool) -> sqlx::Result<Self::Acquired> {
        pool.acquire().await
    }

    /// Takes the write lock at once. The wait is the connection's busy timeout, cut off by the
    /// caller at `lock_wait`.
    ///
    /// With a rollback journal a commit waits for readers, and could succeed after its caller
    /// gave up: there the transaction starts with the lock that keeps readers out.
    async fn begin(conn: &mut SqliteConnection, _lock_wait: Duration) -> sqlx::Result<()> {
        let mut journal_mode = String::new();
        let mut rows = sqlx::query(BEGIN_IMMEDIATE).fetch(&mut *conn);
        while let Some(row) = rows.try_next().await? {
            journal_mode = row.try_get(0)?;
        }
        drop(rows);
        if sql::readers_hold_up_commits(&journal_mode) {
            sqlx::query(BEGIN_EXCLUSIVE).execute(conn).await?;
        }
        Ok(())
    }

    async fn commit(conn: &mut SqliteConnection) -> sqlx::Result<()> {
        sqlx::query(sql::COMMIT).execute(conn).await.map(drop)
    }

    async fn rollback(conn: &mut SqliteConnection) -> sqlx::Result<()> {
        sqlx::query(ROLLBACK).execute(conn).await.map(drop)
    }

    fn discard(acquired: Self::Acquired) {
        drop(acquired.detach());
    }

    fn write_lock_held(error: &sqlx::Error) -> bool {
        error
            .as_database_error()
            .and_then(DatabaseError::code)
            .and_then(|code| code.parse().ok())
            .is_some_and(sql::lock_held)
    }
}

/// Statements that go to the connection's thread together.
const fn script(statements: &[&str]) -> Text {
    let mut text = Text::new();
    let mut at = 0;
    while at < statements.len() {
        text = text.push(statements[at]).push(";");
        at += 1;
    }
    text
}

const BEGIN_IMMEDIATE: &str = {
    const TEXT: &Text = &script(&[sql::BEGIN_IMMEDIATE, sql::JOURNAL_MODE]);
    TEXT.as_str()
};

const BEGIN_EXCLUSIVE: &str = {
    const TEXT: &Text = &script(&[sql::ROLLBACK, sql::BEGIN_EXCLUSIVE]);
    TEXT.as_str()
};

const ROLLBACK: &str = {
    const TEXT: &Text = &script(&[sql::SAVEPOINT, sql::ROLLBACK]);
    TEXT.as_str()
};

/// Inserts that go to the connection's thread together.
struct Inserts<R>(PhantomData<R>);

impl<R: Record> Inserts<R> {
    const FEW: usize = 8;
    const MANY: usize = 64;

    const OF_FEW: &'static str =
        const { &inserts::<4096>(Sql::<R>::INSERT_ANY, Self::FEW) }.as_str();
    const OF_MANY: &'static str =
        const { &inserts::<32_768>(Sql::<R>::INSERT_ANY, Self::MANY) }.as_str();
}

const fn inserts<const CAPACITY: usize>(insert: &str, most: usize) -> Text<CAPACITY> {
    let mut text = Text::new();
    let mut at = 0;
    while at < most {
        text = text.push(insert).push(";");
        at += 1;
    }
    text
}

/// The reads of the start, each in its transaction.
struct Reads<R>(PhantomData<R>);

impl<R: Record> Reads<R> {
    const OPEN_IDS: &'static str = const { &read(Sql::<R>::OPEN_IDS) }.as_str();
    const OPEN_SIZES: &'static str = const { &read(Sql::<R>::OPEN_SIZES) }.as_str();
    const OPEN_RECORDS: &'static str = const { &read(Sql::<R>::OPEN_RECORDS) }.as_str();
}

const fn read(select: &str) -> Text {
    script(&[sql::BEGIN, select, sql::COMMIT])
}

impl<R> Statements<R> for Sqlite
where
    R: Record,
    R::Id: Type<sqlx::Sqlite> + for<'q> Encode<'q, sqlx::Sqlite> + for<'r> Decode<'r, sqlx::Sqlite>,
{
    async fn insert(conn: &mut SqliteConnection, msg: &OutgoingMessage<'_>) -> sqlx::Result<R::Id> {
        let mut insert = sqlx::query(Sql::<R>::INSERT)
            .bind(msg.name())
            .bind(msg.payload());
        if R::SPEC.headers_column().is_some() {
            insert = insert.bind(encode_headers(msg.headers()));
        }
        read_id::<R>(&insert.fetch_one(conn).await?)
    }

    /// Those that are over in a command insert nothing.
    async fn insert_batch(
        conn: &mut SqliteConnection,
        messages: &[OutgoingMessage<'_>],
    ) -> sqlx::Result<Vec<R::Id>> {
        let mut ids = Vec::with_capacity(messages.len());
        for messages in messages.chunks(Inserts::<R>::MANY) {
            let few = messages.len() <= Inserts::<R>::FEW;
            let mut insert = sqlx::query(if few {
                Inserts::<R>::OF_FEW
            } else {
                Inserts::<R>::OF_MANY
            });
            for msg in messages {
                insert = insert.bind(msg.name()).bind(msg.payload());
                if R::SPEC.headers_column().is_some() {
                    insert = insert.bind(encode_headers(msg.headers()));
                }
            }
            let mut rows = insert.fetch(&mut *conn);
            while let Some(row) = rows.try_next().await? {
                ids.push(read_id::<R>(&row)?);
            }
        }
        Ok(ids)
    }

    async fn fetch(conn: &mut SqliteConnection, id: &R::Id) -> sqlx::Result<Option<Stored>> {
        let fetch = sqlx::query(Sql::<R>::FETCH).bind(id);
        let row = fetch.fetch_optional(conn).await?;
        row.map(|row| stored(&row, 0)).transpose()
    }

    async fn mark(
        conn: &mut SqliteConnection,
        id: &R::Id,
        consumer: Consumer,
    ) -> sqlx::Result<bool> {
        let mark = marking::<R>(Sql::<R>::MARK, consumer).bind(id);
        Ok(mark.execute(conn).await?.rows_affected() > 0)
    }

    async fn fetch_batch(
        conn: &mut SqliteConnection,
        ids: &[R::Id],
    ) -> sqlx::Result<Vec<(R::Id, Stored)>> {
        let mut found = Vec::with_capacity(ids.len());
        let query = sqlx::query(Sql::<R>::fetch_batch(ids.len()));
        let mut rows = ids.iter().fold(query, Query::bind).fetch(conn);
        while let Some(row) = rows.try_next().await? {
            found.push((row.try_get(0)?, stored(&row, 1)?));
        }
        Ok(found)
    }

    async fn mark_batch(
        conn: &mut SqliteConnection,
        ids: &[R::Id],
        consumer: Consumer,
    ) -> sqlx::Result<u64> {
        let mark = marking::<R>(Sql::<R>::mark_batch(ids.len()), consumer);
        let mark = ids.iter().fold(mark, Query::bind);
        Ok(mark.execute(conn).await?.rows_affected())
    }

    async fn open_ids(
        conn: &mut SqliteConnection,
        name: &str,
    ) -> sqlx::Result<OpenIds<R::Id, sqlx::Error>> {
        let mut ids = OpenIds::new();
        let mut rows = sqlx::query(Reads::<R>::OPEN_IDS).bind(name).fetch(conn);
        while let Some(row) = rows.try_next().await? {
            ids.push(read_id::<R>(&row));
        }
        Ok(ids)
    }

    async fn open_sizes(
        conn: &mut SqliteConnection,
        ids: &[R::Id],
    ) -> sqlx::Result<Vec<(R::Id, u64)>> {
        let mut sizes = Vec::with_capacity(ids.len());
        let query = sqlx::query(Reads::<R>::OPEN_SIZES);
        let mut rows = ids.iter().fold(query, Query::bind).fetch(conn);
        while let Some(row) = rows.try_next().await? {
            let size: i64 = row.try_get(1)?;
            sizes.push((row.try_get(0)?, size.unsigned_abs()));
        }
        Ok(sizes)
    }

    async fn open_records(
        conn: &mut SqliteConnection,
        ids: &[R::Id],
    ) -> sqlx::Result<OpenRecords<R::Id, sqlx::Error>> {
        let mut records = Vec::with_capacity(ids.len());
        let query = sqlx::query(Reads::<R>::OPEN_RECORDS);
        let mut rows = ids.iter().fold(query, Query::bind).fetch(conn);
        while let Some(row) = rows.try_next().await? {
            records.push(OpenRecord {
                id: row.try_get(0)?,
                message: message::<R>(&row),
            });
        }
        Ok(records)
    }

    async fn describe(conn: &mut SqliteConnection) -> sqlx::Result<Option<TableDescription>> {
        let (name, schema) = (R::SPEC.table(), R::SPEC.schema_name());
        let columns = sqlx::query_as(Sql::<R>::COLUMNS).bind(name).bind(schema);
        let columns = columns.fetch_all(&mut *conn).await?;
        let indexes = sqlx::query_as(Sql::<R>::INDEXES).bind(name).bind(schema);
        let indexes = indexes.fetch_all(conn).await?;
        Ok(table::describe(columns, indexes))
    }

    fn fits(role: ColumnRole, data_type: &str) -> Result<(), &'static str> {
        table::fits(role, data_type, R::Id::type_info().name())
    }
}

/// A mark, with what it binds before the ids.
fn marking<'q, R: Record>(
    text: &'static str,
    consumer: Consumer,
) -> Query<'q, sqlx::Sqlite, SqliteArguments> {
    let mark = sqlx::query(text);
    match R::SPEC.marks_column() {
        Some(_) => mark.bind(consumer.mark()).bind(consumer.all()),
        None => mark,
    }
}

/// The state of a record, from the column `first` on.
fn stored(row: &SqliteRow, first: usize) -> sqlx::Result<Stored> {
    Ok(Stored {
        name: row.try_get(first)?,
        processed: row.try_get(first + 1)?,
        marks: row.try_get(first + 2)?,
    })
}

/// Reads an id that finds its row again. Of an id that is kept as text, an uppercase UUID say, the
/// type may read a text that it does not write.
fn read_id<R: Record>(row: &SqliteRow) -> sqlx::Result<R::Id>
where
    R::Id: Type<sqlx::Sqlite> + for<'r> Decode<'r, sqlx::Sqlite>,
{
    let id: R::Id = row.try_get(0)?;
    let kept = row.try_get_raw(0)?;
    if kept.type_info().name() == "TEXT" {
        let kept = <&str as Decode<sqlx::Sqlite>>::decode(kept).map_err(sqlx::Error::Decode)?;
        if let Some(problem) = sql::not_found_again(R::SPEC, kept, &id) {
            return Err(sqlx::Error::Decode(problem.into()));
        }
    }
    Ok(id)
}

fn message<R: Record>(row: &SqliteRow) -> sqlx::Result<StoredMessage> {
    // Bytes are decoded from NULL as well: as none.
    let payload: Option<Vec<u8>> = row.try_get(1)?;
    let null = || sqlx::Error::ColumnDecode {
        index: R::SPEC.payload_column().to_owned(),
        source: UnexpectedNullError.into(),
    };
    Ok(StoredMessage {
        payload: payload.ok_or_else(null)?,
        headers: match R::SPEC.headers_column() {
            Some(_) => row.try_get(2)?,
            None => None,
        },
    })
}
