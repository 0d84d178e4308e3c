//! A database of one's own with the table of the backend crates, looked at from outside.

use std::env;
use std::thread;
use std::time::Duration;

use sqlx::{AnyConnection, AssertSqlSafe, Connection, Row as _};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use url::Url;
use uuid::Uuid;

use crate::Result;

/// How long a connection to a SQLite file waits for a lock.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The variable with the URL of the Postgres server: of a superuser, and any of its databases.
pub(crate) const POSTGRES_URL: &str = "OUTBOX_POSTGRES_URL";

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file in WAL mode.
    Sqlite,
    /// A database on a server that others use at the same time.
    Postgres,
}

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its id.
    pub id: i64,
    /// What its message was published under.
    pub name: String,
    /// Its message.
    pub payload: Vec<u8>,
    /// Whether it is open.
    pub open: bool,
}

/// A database with an empty table. It goes away with the value.
#[derive(Debug)]
pub struct Database {
    url: String,
    kind: Kind,
    place: Place,
}

#[derive(Debug)]
enum Place {
    File { _folder: TempDir },
    Server { url: String, name: String },
}

impl Database {
    /// A new database.
    ///
    /// # Errors
    ///
    /// There is no server, or it made no database, or there is no temporary folder.
    pub async fn create(kind: Kind) -> Result<Self> {
        let database = match kind {
            Kind::Sqlite => {
                let folder = tempfile::Builder::new().prefix("outbox-").tempdir()?;
                let url = format!("sqlite://{}", folder.path().join("test.db").display());
                let mut conn = connect(&format!("{url}?mode=rwc")).await?;
                let wal = sqlx::raw_sql("PRAGMA journal_mode = WAL");
                wal.execute(&mut conn).await?;
                conn.close().await?;
                let place = Place::File { _folder: folder };
                Self { url, kind, place }
            }
            Kind::Postgres => {
                let server = env::var(POSTGRES_URL);
                let server = server.map_err(|_| format!("{POSTGRES_URL} is not set"))?;
                let name = format!("outbox_{}", Uuid::new_v4().simple());
                execute(
                    &server,
                    &format!("CREATE DATABASE {name} TEMPLATE template0"),
                )
                .await?;
                let mut url = Url::parse(&server)?;
                url.set_path(&name);
                let place = Place::Server { url: server, name };
                let url = url.into();
                Self { url, kind, place }
            }
        };
        database.execute(database.schema()).await?;
        Ok(database)
    }

    /// What a driver opens a pool on.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The records, by id.
    ///
    /// # Errors
    ///
    /// Whatever the database answers.
    pub async fn rows(&self) -> Result<Vec<Row>> {
        let select = "SELECT id, name, payload, \
             CASE WHEN processed_at IS NULL THEN 1 ELSE 0 END FROM outbox ORDER BY id";
        let mut conn = connect(&self.url).await?;
        let rows = sqlx::query(select).fetch_all(&mut conn).await?;
        conn.close().await?;
        let rows = rows.iter().map(|row| {
            Ok(Row {
                id: row.try_get(0)?,
                name: row.try_get(1)?,
                payload: row.try_get(2)?,
                open: row.try_get::<i32, _>(3)? == 1,
            })
        });
        rows.collect()
    }

    /// How many records are open.
    ///
    /// # Errors
    ///
    /// Whatever the database answers.
    pub async fn open(&self) -> Result<i64> {
        let count = "SELECT count(*) FROM outbox WHERE processed_at IS NULL";
        let mut conn = connect(&self.url).await?;
        let open = sqlx::query_scalar(count).fetch_one(&mut conn).await?;
        conn.close().await?;
        Ok(open)
    }

    /// Stores `count` open records of `name` at once. Their payloads are the numbers from 1 on, as
    /// text.
    ///
    /// # Errors
    ///
    /// Whatever the database answers.
    pub async fn store(&self, name: &str, count: i64) -> Result {
        let payload = match self.kind {
            Kind::Sqlite => "CAST(CAST(i AS TEXT) AS BLOB)",
            Kind::Postgres => "convert_to(CAST(i AS text), 'UTF8')",
        };
        let insert = format!(
            "WITH RECURSIVE numbers(i) AS \
                 (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < {count}) \
             INSERT INTO outbox (name, payload) SELECT $1, {payload} FROM numbers"
        );
        let mut conn = connect(&self.url).await?;
        let insert = sqlx::query(AssertSqlSafe(insert)).bind(name);
        insert.execute(&mut conn).await?;
        conn.close().await?;
        Ok(())
    }

    /// Runs SQL.
    ///
    /// # Errors
    ///
    /// Whatever the database answers.
    pub async fn execute(&self, sql: &str) -> Result {
        execute(&self.url, sql).await
    }

    fn schema(&self) -> &'static str {
        match self.kind {
            Kind::Sqlite => outbox_sqlite::SCHEMA,
            Kind::Postgres => outbox_postgres::SCHEMA,
        }
    }
}

impl Drop for Database {
    /// On a thread of its own: the test's runtime may be the one that drops it.
    fn drop(&mut self) {
        let Place::Server { url, name } = &self.place else {
            return;
        };
        let (url, drop) = (url.clone(), format!("DROP DATABASE {name} WITH (FORCE)"));
        let dropping = thread::spawn(move || Runtime::new()?.block_on(execute(&url, &drop)));
        let dropped = dropping.join();
        if !matches!(dropped, Ok(Ok(()))) {
            eprintln!("{name} was not dropped: {dropped:?}");
        }
    }
}

async fn connect(url: &str) -> Result<AnyConnection> {
    sqlx::any::install_default_drivers();
    Ok(AnyConnection::connect(url).await?)
}

async fn execute(url: &str, sql: &str) -> Result {
    let mut conn = connect(url).await?;
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await?;
    conn.close().await?;
    Ok(())
}
