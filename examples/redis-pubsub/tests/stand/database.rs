//! A Postgres database of one test.

use std::thread;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::runtime::Runtime;
use url::Url;
use uuid::Uuid;

use super::Result;

/// A database that is dropped with the value.
pub(crate) struct Database {
    pub(crate) url: String,
    name: String,
    server: String,
}

impl Database {
    /// An empty database on the server.
    pub(crate) async fn create(server: String) -> Result<Self> {
        let name = format!("redis_pubsub_{}", Uuid::new_v4().simple());
        let mut url = Url::parse(&server)?;
        url.set_path(&name);
        execute(&server, format!("CREATE DATABASE {name}")).await?;
        Ok(Self {
            url: url.into(),
            name,
            server,
        })
    }
}

impl Drop for Database {
    /// On a thread of its own: the test's runtime may be the one that drops it.
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        let server = self.server.clone();
        let dropping = thread::spawn(move || Runtime::new()?.block_on(execute(&server, drop)));
        let dropped = dropping.join();
        if !matches!(dropped, Ok(Ok(()))) {
            eprintln!("{} was not dropped: {dropped:?}", self.name);
        }
    }
}

async fn execute(url: &str, sql: String) -> Result {
    let mut conn = PgConnection::connect(url).await?;
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await?;
    conn.close().await?;
    Ok(())
}
