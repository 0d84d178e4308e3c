//! The driver `Postgres`: Postgres through sqlx.

use std::time::Duration;

use futures_util::TryStreamExt;
use outbox_core::{
    Backend, ColumnRole, Consumer, OpenIds, OpenRecord, OpenRecords, Record, Statements, Stored,
    StoredMessage, TableDescription, encode_headers,
};
use ruststream::OutgoingMessage;
use sqlx::encode::IsNull;
use sqlx::error::{BoxDynError, DatabaseError};
use sqlx::pool::PoolConnection;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{
    PgArgumentBuffer, PgArguments, PgConnection, PgPool, PgRow, PgStatement, PgTypeInfo, PgTypeKind,
};
use sqlx::query::Query;
use sqlx::{
    Arguments, AssertSqlSafe, Column, Connection, Either, Encode, Executor, Row, SqlSafeStr,
    Statement, Type, TypeInfo, ValueRef,
};

use crate::ColumnError;
use crate::id::{self, Key};
use crate::sql::{self, Sql};
use crate::table;
use crate::value::{self, Batch, ColumnType, Form, Value, marking};

/// Postgres through sqlx: the service's pool is a [`sqlx::PgPool`], and its own statements get a
/// [`sqlx::PgConnection`].
#[derive(Debug, Clone, Copy)]
pub struct Postgres;

impl Backend for Postgres {
    const NAME: &'static str = "Postgres";
    const ONE_WRITER: bool = false;
    const SHARES_OWN_PUBLISH: bool = false;

    type Pool = PgPool;
    type Connection = PgConnection;
    type Acquired = PoolConnection<sqlx::Postgres>;
    type Error = sqlx::Error;

    async fn acquire(pool: &PgPool) -> sqlx::Result<Self::Acquired> {
        pool.acquire().await
    }

    async fn begin(conn: &mut PgConnection, lock_wait: Duration) -> sqlx::Result<()> {
        // Somebody forgot a `Transaction`, and sqlx goes on counting it.
        if conn.is_in_transaction() {
            return Err(sqlx::Error::BeginFailed);
        }
        let begin = AssertSqlSafe(sql::begin(lock_wait));
        sqlx::raw_sql(begin).execute(conn).await.map(drop)
    }

    async fn commit(conn: &mut PgConnection) -> sqlx::Result<()> {
        execute(conn, sql::COMMIT).await
    }

    /// Statements are prepared anew after a failure: the table may have changed under them.
    async fn rollback(conn: &mut PgConnection) -> sqlx::Result<()> {
        execute(conn, sql::ROLLBACK).await?;
        conn.clear_cached_statements().await
    }

    fn discard(acquired: Self::Acquired) {
        drop(acquired.detach());
    }

    fn write_lock_held(error: &sqlx::Error) -> bool {
        error
            .as_database_error()
            .and_then(DatabaseError::code)
            .is_some_and(|code| sql::lock_held(&code))
    }
}

impl<R: Record> Statements<R> for Postgres {
    async fn insert(conn: &mut PgConnection, msg: &OutgoingMessage<'_>) -> sqlx::Result<R::Id> {
        let headers = R::SPEC.headers_column();
        let headers = headers.map(|_| encode_headers(msg.headers()));
        let name = Value::<R>::Name(msg.name());
        let payload = Value::Payload(msg.payload());
        let insert = prepare(conn, Sql::<R>::INSERT).await?;
        id::check::<R>(column(insert.column(0).type_info())).map_err(unreadable)?;
        let insert = match headers.as_deref().map(Value::Headers) {
            Some(headers) => bind(&insert, &[name, payload, headers])?,
            None => bind(&insert, &[name, payload])?,
        };
        let row = insert.fetch_one(conn).await?;
        read_id::<R>(&row)
    }

    async fn insert_batch(
        conn: &mut PgConnection,
        messages: &[OutgoingMessage<'_>],
    ) -> sqlx::Result<Vec<R::Id>> {
        let insert = prepare(conn, Sql::<R>::INSERT).await?;
        let id = column(insert.column(0).type_info());
        id::check::<R>(id).map_err(unreadable)?;
        let mut ids = Vec::with_capacity(messages.len());
        if let Some(text) = Batch::text::<R>(id, parameters(&insert).get(2).map(column)) {
            let batch = Batch::of::<R>(messages);
            let insert = prepare(conn, text).await?;
            let insert = bind(&insert, &batch.values::<R>())?;
            for row in insert.fetch_all(&mut *conn).await? {
                value::has_row::<R>(id, row.try_get(1)?).map_err(unreadable)?;
                ids.push(read_id::<R>(&row)?);
            }
        }
        if ids.is_empty() {
            for msg in messages {
                ids.push(<Self as Statements<R>>::insert(conn, msg).await?);
            }
        }
        Ok(ids)
    }

    async fn fetch(conn: &mut PgConnection, id: &R::Id) -> sqlx::Result<Option<Stored>> {
        let Some((fetch, key)) = find::<R>(conn, Sql::<R>::FETCH, id).await? else {
            return Ok(None);
        };
        let fetch = bind(&fetch, &[Value::<R>::Key(&key)])?;
        let row = fetch.fetch_optional(conn).await?;
        row.map(|row| stored(&row, 0)).transpose()
    }

    async fn mark(conn: &mut PgConnection, id: &R::Id, consumer: Consumer) -> sqlx::Result<bool> {
        let Some((mark, key)) = find::<R>(conn, Sql::<R>::MARK, id).await? else {
            return Ok(false);
        };
        let mark = bind(&mark, marking::<R>(Value::Key(&key), consumer).as_slice())?;
        Ok(mark.execute(conn).await?.rows_affected() > 0)
    }

    async fn fetch_batch(
        conn: &mut PgConnection,
        ids: &[R::Id],
    ) -> sqlx::Result<Vec<(R::Id, Stored)>> {
        let fetch = prepare(conn, Sql::<R>::FETCH_BATCH).await?;
        let rows = bind(&fetch, &[Value::<R>::Ids(ids)])?
            .fetch_all(conn)
            .await?;
        let found = rows
            .iter()
            .map(|row| Ok((read_id::<R>(row)?, stored(row, 1)?)));
        found.collect()
    }

    async fn mark_batch(
        conn: &mut PgConnection,
        ids: &[R::Id],
        consumer: Consumer,
    ) -> sqlx::Result<u64> {
        let mark = prepare(conn, Sql::<R>::MARK_BATCH).await?;
        let mark = bind(&mark, marking::<R>(Value::Ids(ids), consumer).as_slice())?;
        Ok(mark.execute(conn).await?.rows_affected())
    }

    async fn open_ids(
        conn: &mut PgConnection,
        name: &str,
    ) -> sqlx::Result<OpenIds<R::Id, sqlx::Error>> {
        let mut ids = OpenIds::new();
        let value = Value::<R>::Name(name);
        read(conn, Sql::<R>::OPEN_IDS, value, |row| {
            ids.push(read_id::<R>(&row));
            Ok(())
        })
        .await?;
        Ok(ids)
    }

    async fn open_sizes(conn: &mut PgConnection, ids: &[R::Id]) -> sqlx::Result<Vec<(R::Id, u64)>> {
        let mut sizes = Vec::with_capacity(ids.len());
        let value = Value::<R>::Ids(ids);
        read(conn, Sql::<R>::OPEN_SIZES, value, |row| {
            let size: i64 = row.try_get(1)?;
            sizes.push((read_id::<R>(&row)?, size.unsigned_abs()));
            Ok(())
        })
        .await?;
        Ok(sizes)
    }

    async fn open_records(
        conn: &mut PgConnection,
        ids: &[R::Id],
    ) -> sqlx::Result<OpenRecords<R::Id, sqlx::Error>> {
        let mut records = Vec::with_capacity(ids.len());
        let value = Value::<R>::Ids(ids);
        read(conn, Sql::<R>::OPEN_RECORDS, value, |row| {
            records.push(OpenRecord {
                id: read_id::<R>(&row)?,
                message: message::<R>(&row),
            });
            Ok(())
        })
        .await?;
        Ok(records)
    }

    async fn describe(conn: &mut PgConnection) -> sqlx::Result<Option<TableDescription>> {
        let name = table::name(R::SPEC);
        let columns = sqlx::query_as(table::COLUMNS).bind(&name);
        let columns: Vec<_> = columns.fetch_all(&mut *conn).await?;
        let indexes = sqlx::query_as(table::INDEXES).bind(&name);
        let indexes: Vec<_> = indexes.fetch_all(conn).await?;
        Ok(TableDescription::new(columns, indexes))
    }

    fn fits(role: ColumnRole, data_type: &str) -> Result<(), &'static str> {
        table::fits::<R>(role, data_type)
    }
}

async fn execute(conn: &mut PgConnection, text: &'static str) -> sqlx::Result<()> {
    sqlx::raw_sql(text).execute(conn).await.map(drop)
}

/// Takes the statement from the connection's cache, or has it prepared, with its parameters'
/// types as the database infers them.
async fn prepare(conn: &mut PgConnection, text: &'static str) -> sqlx::Result<PgStatement> {
    conn.prepare(text.into_sql_str()).await
}

fn parameters(statement: &PgStatement) -> &[PgTypeInfo] {
    let types = statement.parameters().and_then(Either::left);
    types.unwrap_or_default()
}

/// A statement, and the key of the row that it is for. `None`: the id's column cannot hold the id,
/// and has not grown since the statement was prepared.
async fn find<R: Record>(
    conn: &mut PgConnection,
    text: &'static str,
    id: &R::Id,
) -> sqlx::Result<Option<(PgStatement, Key)>> {
    let key = |statement: &PgStatement| {
        let key = id::key::<R>(column(&parameters(statement)[0]), id);
        key.map_err(|error| sqlx::Error::Encode(error.into()))
    };
    let statement = prepare(conn, text).await?;
    if let Some(key) = key(&statement)? {
        return Ok(Some((statement, key)));
    }
    conn.clear_cached_statements().await?;
    let statement = prepare(conn, text).await?;
    Ok(key(&statement)?.map(|key| (statement, key)))
}

fn bind<'q, R: Record>(
    statement: &'q PgStatement,
    values: &[Value<'_, R>],
) -> sqlx::Result<Query<'q, sqlx::Postgres, PgArguments>> {
    let mut arguments = PgArguments::default();
    for (value, ty) in values.iter().zip(parameters(statement)) {
        let bound = Bound { value, ty };
        arguments.add(bound).map_err(sqlx::Error::Encode)?;
    }
    Ok(statement.query_with(arguments))
}

/// Reads rows in a transaction that it begins itself.
async fn read<R: Record>(
    conn: &mut PgConnection,
    text: &'static str,
    value: Value<'_, R>,
    mut add: impl FnMut(PgRow) -> sqlx::Result<()> + Send,
) -> sqlx::Result<()> {
    execute(conn, sql::BEGIN).await?;
    let statement = prepare(conn, text).await?;
    let mut rows = bind(&statement, &[value])?.fetch(&mut *conn);
    while let Some(row) = rows.try_next().await? {
        add(row)?;
    }
    drop(rows);
    execute(conn, sql::COMMIT).await
}

/// A value, with the type of the parameter that it is bound to.
struct Bound<'a, R: Record> {
    value: &'a Value<'a, R>,
    ty: &'a PgTypeInfo,
}

impl<R: Record> Type<sqlx::Postgres> for Bound<'_, R> {
    fn type_info() -> PgTypeInfo {
        const UNKNOWN: PgTypeInfo = PgTypeInfo::with_oid(Oid(705));
        UNKNOWN
    }
}

impl<R: Record> Encode<'_, sqlx::Postgres> for Bound<'_, R> {
    fn encode_by_ref(&self, out: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        self.value.write(column(self.ty), &mut **out)?;
        Ok(IsNull::No)
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(self.ty.clone())
    }
}

fn column(ty: &PgTypeInfo) -> ColumnType<'_> {
    let oid = ty.oid().map_or(0, |oid| oid.0);
    let simple = ColumnType {
        oid,
        name: ty.name(),
        is_array: false,
    };
    // The kind of a type that the connection could not look up is not to be asked for.
    if Form::built_in(oid).is_some() || oid == 0 {
        return simple;
    }
    match ty.kind() {
        PgTypeKind::Domain(base) => column(base),
        PgTypeKind::Array(element) => ColumnType {
            is_array: true,
            ..column(element)
        },
        _ => simple,
    }
}

fn unreadable(error: ColumnError) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}

/// The state of a record, from the column `first` on.
fn stored(row: &PgRow, first: usize) -> sqlx::Result<Stored> {
    Ok(Stored {
        name: row.try_get(first)?,
        processed: row.try_get(first + 1)?,
        marks: row.try_get(first + 2)?,
    })
}

fn read_id<R: Record>(row: &PgRow) -> sqlx::Result<R::Id> {
    let value = row.try_get_raw(0)?;
    let bytes = (!value.is_null()).then(|| value.as_bytes()).transpose();
    let bytes = bytes.map_err(sqlx::Error::Decode)?;
    id::read::<R>(column(&value.type_info()), bytes).map_err(unreadable)
}

fn message<R: Record>(row: &PgRow) -> sqlx::Result<StoredMessage> {
    let payload = row.try_get(1)?;
    let ty = column(row.column(1).type_info());
    Ok(StoredMessage {
        payload: value::payload::<R>(ty, payload).map_err(unreadable)?,
        headers: match R::SPEC.headers_column() {
            Some(_) => row.try_get(2)?,
            None => None,
        },
    })
}
