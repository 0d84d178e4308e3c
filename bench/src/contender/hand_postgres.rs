//! By hand on Postgres through sqlx.

use sqlx::PgPool;

use super::hand::{FETCH_POSTGRES, INSERT_POSTGRES, MARK_POSTGRES, OPEN_POSTGRES, Table};
use crate::Result;

impl Table for PgPool {
    async fn record(&self, name: &str, payload: &[u8]) -> Result<i64> {
        let mut transaction = self.begin().await?;
        let insert = sqlx::query_scalar(INSERT_POSTGRES).bind(name).bind(payload);
        let id = insert.fetch_one(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(id)
    }

    async fn fetch(&self, id: i64) -> Result<Option<(String, bool)>> {
        let fetch = sqlx::query_as(FETCH_POSTGRES).bind(id);
        Ok(fetch.fetch_optional(self).await?)
    }

    async fn mark(&self, id: i64) -> Result {
        let mut transaction = self.begin().await?;
        let mark = sqlx::query(MARK_POSTGRES).bind(id);
        mark.execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(())
    }

    async fn open(&self, name: &str) -> Result<Vec<(i64, Vec<u8>)>> {
        let open = sqlx::query_as(OPEN_POSTGRES).bind(name);
        Ok(open.fetch_all(self).await?)
    }
}
