//! The driver `TokioPostgres`: Postgres through tokio-postgres, on a pool of deadpool's.

use std::pin::pin;
use std::time::Duration;

use bytes::BytesMut;
use deadpool_postgres::{ClientWrapper, Object, Pool};
use futures_util::TryStreamExt;
use outbox_core::{
    Backend, BoxError, ColumnRole, Consumer, OpenIds, OpenRecord, OpenRecords, Record, Statements,
    Stored, StoredMessage, TableDescription, encode_headers,
};
use ruststream::OutgoingMessage;
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};
use tokio_postgres::{Row, Statement};

use crate::TokioPostgresError;
use crate::id::{self, Key};
use crate::sql::{self, Sql};
use crate::table;
use crate::value::{self, Batch, ColumnType, Value, marking};

/// Postgres through tokio-postgres: the service's pool is a [`deadpool_postgres::Pool`], and its
/// own statements get a [`deadpool_postgres::ClientWrapper`].
#[derive(Debug, Clone, Copy)]
pub struct TokioPostgres;

type Result<T> = std::result::Result<T, TokioPostgresError>;

impl Backend for TokioPostgres {
    const NAME: &'static str = "TokioPostgres";
    const ONE_WRITER: bool = false;
    const SHARES_OWN_PUBLISH: bool = true;

    type Pool = Pool;
    type Connection = ClientWrapper;
    type Acquired = Object;
    type Error = TokioPostgresError;

    async fn acquire(pool: &Pool) -> Result<Object> {
        Ok(pool.get().await?)
    }

    async fn begin(conn: &mut ClientWrapper, lock_wait: Duration) -> Result<()> {
        execute(conn, &sql::begin(lock_wait)).await
    }

    async fn commit(conn: &mut ClientWrapper) -> Result<()> {
        execute(conn, sql::COMMIT).await
    }

    /// Statements are prepared anew after a failure: the table may have changed under them.
    async fn rollback(conn: &mut ClientWrapper) -> Result<()> {
        execute(conn, sql::ROLLBACK).await?;
        conn.statement_cache.clear();
        Ok(())
    }

    fn discard(acquired: Object) {
        drop(Object::take(acquired));
    }

    fn write_lock_held(error: &TokioPostgresError) -> bool {
        let TokioPostgresError::Database(error) = error else {
            return false;
        };
        error
            .code()
            .is_some_and(|state| sql::lock_held(state.code()))
    }
}

impl<R: Record> Statements<R> for TokioPostgres {
    async fn insert(conn: &mut ClientWrapper, msg: &OutgoingMessage<'_>) -> Result<R::Id> {
        let headers = R::SPEC.headers_column();
        let headers = headers.map(|_| encode_headers(msg.headers()));
        let name = Value::<R>::Name(msg.name());
        let payload = Value::<R>::Payload(msg.payload());
        let insert = conn.prepare_cached(Sql::<R>::INSERT).await?;
        id::check::<R>(column(insert.columns()[0].type_()))?;
        let row = match headers.as_deref().map(Value::<R>::Headers) {
            Some(headers) => {
                conn.query_one(&insert, &[&name, &payload, &headers])
                    .await?
            }
            None => conn.query_one(&insert, &[&name, &payload]).await?,
        };
        read_id::<R>(&row)
    }

    async fn insert_batch(
        conn: &mut ClientWrapper,
        messages: &[OutgoingMessage<'_>],
    ) -> Result<Vec<R::Id>> {
        let insert = conn.prepare_cached(Sql::<R>::INSERT).await?;
        let id = column(insert.columns()[0].type_());
        id::check::<R>(id)?;
        let mut ids = Vec::with_capacity(messages.len());
        if let Some(text) = Batch::text::<R>(id, insert.params().get(2).map(column)) {
            let batch = Batch::of::<R>(messages);
            let insert = conn.prepare_cached(text).await?;
            let mut rows = pin!(conn.query_raw(&insert, batch.values::<R>()).await?);
            while let Some(row) = rows.try_next().await? {
                value::has_row::<R>(id, row.try_get(1)?)?;
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

    async fn fetch(conn: &mut ClientWrapper, id: &R::Id) -> Result<Option<Stored>> {
        let Some((fetch, key)) = find::<R>(conn, Sql::<R>::FETCH, id).await? else {
            return Ok(None);
        };
        let row = conn.query_opt(&fetch, &[&Value::<R>::Key(&key)]).await?;
        row.map(|row| stored(&row, 0)).transpose()
    }

    async fn mark(conn: &mut ClientWrapper, id: &R::Id, consumer: Consumer) -> Result<bool> {
        let Some((mark, key)) = find::<R>(conn, Sql::<R>::MARK, id).await? else {
            return Ok(false);
        };
        let values = marking::<R>(Value::Key(&key), consumer);
        Ok(conn.execute_raw(&mark, values).await? > 0)
    }

    async fn fetch_batch(conn: &mut ClientWrapper, ids: &[R::Id]) -> Result<Vec<(R::Id, Stored)>> {
        let fetch = conn.prepare_cached(Sql::<R>::FETCH_BATCH).await?;
        let rows = conn.query(&fetch, &[&Value::<R>::Ids(ids)]).await?;
        let found = rows
            .iter()
            .map(|row| Ok((read_id::<R>(row)?, stored(row, 1)?)));
        found.collect()
    }

    async fn mark_batch(
        conn: &mut ClientWrapper,
        ids: &[R::Id],
        consumer: Consumer,
    ) -> Result<u64> {
        let mark = conn.prepare_cached(Sql::<R>::MARK_BATCH).await?;
        let values = marking::<R>(Value::Ids(ids), consumer);
        Ok(conn.execute_raw(&mark, values).await?)
    }

    async fn open_ids(
        conn: &mut ClientWrapper,
        name: &str,
    ) -> Result<OpenIds<R::Id, TokioPostgresError>> {
        let mut ids = OpenIds::new();
        let value = Value::<R>::Name(name);
        read(conn, Sql::<R>::OPEN_IDS, value, |row| {
            ids.push(read_id::<R>(&row));
            Ok(())
        })
        .await?;
        Ok(ids)
    }

    async fn open_sizes(conn: &mut ClientWrapper, ids: &[R::Id]) -> Result<Vec<(R::Id, u64)>> {
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
        conn: &mut ClientWrapper,
        ids: &[R::Id],
    ) -> Result<OpenRecords<R::Id, TokioPostgresError>> {
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

    async fn describe(conn: &mut ClientWrapper) -> Result<Option<TableDescription>> {
        let name = table::name(R::SPEC);
        let columns = conn.query(table::COLUMNS, &[&name]).await?;
        let columns = columns
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        let indexes = conn.query(table::INDEXES, &[&name]).await?;
        let indexes = indexes.iter();
        let indexes = indexes.map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let indexes = indexes.collect::<Result<Vec<_>>>()?;
        Ok(TableDescription::new(columns, indexes))
    }

    fn fits(role: ColumnRole, data_type: &str) -> std::result::Result<(), &'static str> {
        table::fits::<R>(role, data_type)
    }
}

async fn execute(conn: &ClientWrapper, text: &str) -> Result<()> {
    Ok(conn.batch_execute(text).await?)
}

/// A statement, and the key of the row that it is for. `None`: the id's column cannot hold the id,
/// and has not grown since the statement was prepared.
async fn find<R: Record>(
    conn: &ClientWrapper,
    text: &'static str,
    id: &R::Id,
) -> Result<Option<(Statement, Key)>> {
    let key = |statement: &Statement| id::key::<R>(column(&statement.params()[0]), id);
    let statement = conn.prepare_cached(text).await?;
    if let Some(key) = key(&statement)? {
        return Ok(Some((statement, key)));
    }
    conn.statement_cache.remove(text, &[]);
    let statement = conn.prepare_cached(text).await?;
    Ok(key(&statement)?.map(|key| (statement, key)))
}

/// Reads rows in a transaction that it begins itself.
async fn read<R: Record>(
    conn: &ClientWrapper,
    text: &'static str,
    value: Value<'_, R>,
    mut add: impl FnMut(Row) -> Result<()> + Send,
) -> Result<()> {
    execute(conn, sql::BEGIN).await?;
    let statement = conn.prepare_cached(text).await?;
    let mut rows = pin!(conn.query_raw(&statement, [value]).await?);
    while let Some(row) = rows.try_next().await? {
        add(row)?;
    }
    execute(conn, sql::COMMIT).await
}

impl<R: Record> ToSql for Value<'_, R> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, BoxError> {
        self.write(column(ty), out)?;
        Ok(IsNull::No)
    }

    /// Any, since the error of a type that does not fit is this crate's own: it names the column.
    fn accepts(_ty: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The bytes of a value, which may be `NULL`.
struct Raw<'a>(Option<&'a [u8]>);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_ty: &Type, bytes: &'a [u8]) -> std::result::Result<Self, BoxError> {
        Ok(Self(Some(bytes)))
    }

    fn from_sql_null(_ty: &Type) -> std::result::Result<Self, BoxError> {
        Ok(Self(None))
    }

    fn accepts(_ty: &Type) -> bool {
        true
    }
}

fn column(ty: &Type) -> ColumnType<'_> {
    match ty.kind() {
        Kind::Domain(base) => column(base),
        Kind::Array(element) => ColumnType {
            is_array: true,
            ..column(element)
        },
        _ => ColumnType {
            oid: ty.oid(),
            name: ty.name(),
            is_array: false,
        },
    }
}

/// The state of a record, from the column `first` on.
fn stored(row: &Row, first: usize) -> Result<Stored> {
    Ok(Stored {
        name: row.try_get(first)?,
        processed: row.try_get(first + 1)?,
        marks: row.try_get(first + 2)?,
    })
}

fn read_id<R: Record>(row: &Row) -> Result<R::Id> {
    let Raw(bytes) = row.try_get(0)?;
    Ok(id::read::<R>(column(row.columns()[0].type_()), bytes)?)
}

fn message<R: Record>(row: &Row) -> Result<StoredMessage> {
    let payload = row.try_get(1)?;
    let ty = column(row.columns()[1].type_());
    Ok(StoredMessage {
        payload: value::payload::<R>(ty, payload)?,
        headers: match R::SPEC.headers_column() {
            Some(_) => row.try_get(2)?,
            None => None,
        },
    })
}
