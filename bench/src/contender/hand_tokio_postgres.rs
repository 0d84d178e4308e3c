//! By hand on Postgres through tokio-postgres.

use deadpool_postgres::Pool;

use super::hand::{FETCH_POSTGRES, INSERT_POSTGRES, MARK_POSTGRES, OPEN_POSTGRES, Table};
use crate::Result;

impl Table for Pool {
    async fn record(&self, name: &str, payload: &[u8]) -> Result<i64> {
        let mut conn = self.get().await?;
        let transaction = conn.transaction().await?;
        let insert = transaction.prepare_cached(INSERT_POSTGRES).await?;
        let row = transaction.query_one(&insert, &[&name, &payload]).await?;
        transaction.commit().await?;
        Ok(row.try_get(0)?)
    }

    async fn fetch(&self, id: i64) -> Result<Option<(String, bool)>> {
        let conn = self.get().await?;
        let fetch = conn.prepare_cached(FETCH_POSTGRES).await?;
        let row = conn.query_opt(&fetch, &[&id]).await?;
        let row = row.map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        row.transpose()
    }

    async fn mark(&self, id: i64) -> Result {
        let mut conn = self.get().await?;
        let transaction = conn.transaction().await?;
        let mark = transaction.prepare_cached(MARK_POSTGRES).await?;
        transaction.execute(&mark, &[&id]).await?;
        transaction.commit().await?;
        Ok(())
    }

    async fn open(&self, name: &str) -> Result<Vec<(i64, Vec<u8>)>> {
        let conn = self.get().await?;
        let open = conn.prepare_cached(OPEN_POSTGRES).await?;
        let rows = conn.query(&open, &[&name]).await?;
        let rows = rows.iter();
        rows.map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
            .collect()
    }
}
