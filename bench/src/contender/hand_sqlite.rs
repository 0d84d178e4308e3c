//! By hand on SQLite through sqlx.

use sqlx::SqlitePool;

use super::hand::{FETCH_SQLITE, INSERT_SQLITE, MARK_SQLITE, OPEN_SQLITE, Table};
use crate::Result;

const BEGIN: &str = "BEGIN IMMEDIATE";

impl Table for SqlitePool {
    async fn record(&self, name: &str, payload: &[u8]) -> Result<i64> {
        let mut transaction = self.begin_with(BEGIN).await?;
        let insert = sqlx::query_scalar(INSERT_SQLITE).bind(name).bind(payload);
        let id = insert.fetch_one(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(id)
    }

    async fn fetch(&self, id: i64) -> Result<Option<(String, bool)>> {
        let fetch = sqlx::query_as(FETCH_SQLITE).bind(id);
        Ok(fetch.fetch_optional(self).await?)
    }

    async fn mark(&self, id: i64) -> Result {
        let mut transaction = self.begin_with(BEGIN).await?;
        let mark = sqlx::query(MARK_SQLITE).bind(id);
        mark.execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(())
    }

    async fn open(&self, name: &str) -> Result<Vec<(i64, Vec<u8>)>> {
        let open = sqlx::query_as(OPEN_SQLITE).bind(name);
        Ok(open.fetch_all(self).await?)
    }
}
