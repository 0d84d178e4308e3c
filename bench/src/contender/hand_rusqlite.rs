//! By hand on SQLite through rusqlite.

use deadpool_sqlite::Pool;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::hand::{FETCH_SQLITE, INSERT_SQLITE, MARK_SQLITE, OPEN_SQLITE, Table};
use crate::Result;

impl Table for Pool {
    async fn record(&self, name: &str, payload: &[u8]) -> Result<i64> {
        let values = (name.to_owned(), payload.to_vec());
        on(self, move |conn| {
            let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let id = transaction
                .prepare_cached(INSERT_SQLITE)?
                .query_one(values, |row| row.get(0))?;
            transaction.commit()?;
            Ok(id)
        })
        .await
    }

    async fn fetch(&self, id: i64) -> Result<Option<(String, bool)>> {
        on(self, move |conn| {
            let mut fetch = conn.prepare_cached(FETCH_SQLITE)?;
            fetch
                .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })
        .await
    }

    async fn mark(&self, id: i64) -> Result {
        on(self, move |conn| {
            let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.prepare_cached(MARK_SQLITE)?.execute([id])?;
            transaction.commit()
        })
        .await
    }

    async fn open(&self, name: &str) -> Result<Vec<(i64, Vec<u8>)>> {
        let name = name.to_owned();
        on(self, move |conn| {
            let mut open = conn.prepare_cached(OPEN_SQLITE)?;
            let rows = open.query_map([name], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        })
        .await
    }
}

async fn on<T: Send + 'static>(
    pool: &Pool,
    sql: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
) -> Result<T> {
    let conn = pool.get().await?;
    let done = conn.interact(sql).await;
    Ok(done.map_err(|error| error.to_string())??)
}
