//! A database of one side's own, prepared and checked from outside.

use std::thread;
use std::time::Duration;

use sqlx::{AnyConnection, AssertSqlSafe, Connection, Row as _};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use url::Url;
use uuid::Uuid;

use crate::Result;

/// How many connections each pool has.
pub(crate) const POOL: u32 = 10;

/// How long anything waits for a connection or a lock: nobody gives up before the bench does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What every connection to a SQLite file is told, whoever opens it.
pub(crate) const SQLITE_SETUP: &str = "PRAGMA synchronous = FULL";

/// A database, and how it keeps its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Wal,
    Rollback,
    Postgres,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Wal, Self::Rollback, Self::Postgres];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Wal => "SQLite, WAL",
            Self::Rollback => "SQLite, rollback journal",
            Self::Postgres => "Postgres",
        }
    }
}

/// It keeps its connection: SQLite 3.51.1 may lock up where a connection closes while another opens.
#[derive(Debug)]
pub(crate) struct Database {
    url: String,
    kind: Kind,
    admin: Mutex<AnyConnection>,
    /// The processed rows that it keeps.
    processed: usize,
    place: Place,
}

#[derive(Debug)]
enum Place {
    File { _folder: TempDir },
    Server { url: String, name: String },
}

impl Database {
    /// A new database with so many processed rows.
    pub(crate) async fn create(kind: Kind, server: &str, processed: usize) -> Result<Self> {
        let (url, place) = match kind {
            Kind::Wal | Kind::Rollback => {
                let folder = tempfile::Builder::new().prefix("outbox-bench-").tempdir()?;
                let path = folder.path().join("bench.db");
                let url = format!("sqlite://{}", path.display());
                (url, Place::File { _folder: folder })
            }
            Kind::Postgres => {
                let name = format!("outbox_{}", Uuid::new_v4().simple());
                let create = format!("CREATE DATABASE {name} TEMPLATE template0");
                execute(&mut connect(server).await?, &create).await?;
                let mut url = Url::parse(server)?;
                url.set_path(&name);
                let server = server.to_owned();
                (url.into(), Place::Server { url: server, name })
            }
        };
        let admin = match kind {
            Kind::Postgres => connect(&url).await?,
            Kind::Wal | Kind::Rollback => connect(&format!("{url}?mode=rwc")).await?,
        };
        let database = Self {
            url,
            kind,
            admin: Mutex::new(admin),
            processed,
            place,
        };
        if kind == Kind::Wal {
            // The file keeps it, for every later connection.
            database.execute("PRAGMA journal_mode = WAL").await?;
        }
        database.execute(database.schema()).await?;
        database.fill(processed, "CURRENT_TIMESTAMP").await?;
        Ok(database)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Removes all but the processed rows that it keeps.
    pub(crate) async fn reset(&self) -> Result {
        let delete = format!("DELETE FROM outbox WHERE id > {}", self.processed);
        let delete = match self.kind {
            Kind::Wal => format!("{delete}; PRAGMA wal_checkpoint(TRUNCATE)"),
            Kind::Postgres if self.processed == 0 => "TRUNCATE outbox".to_owned(),
            Kind::Rollback | Kind::Postgres => delete,
        };
        self.execute(&delete).await
    }

    /// Stores open records.
    pub(crate) async fn store_open(&self, count: usize) -> Result {
        self.fill(count, "NULL").await
    }

    /// Fails unless these are the records that were written since the reset.
    pub(crate) async fn assert_records(&self, written: usize, open: usize) -> Result {
        let count = format!(
            "SELECT count(*), count(*) - count(processed_at) FROM outbox WHERE id > {}",
            self.processed
        );
        let mut admin = self.admin.lock().await;
        let row = sqlx::query(AssertSqlSafe(count))
            .fetch_one(&mut *admin)
            .await?;
        let found: [i64; 2] = [row.try_get(0)?, row.try_get(1)?];
        if found != [i64::try_from(written)?, i64::try_from(open)?] {
            let found = format!("{} records, {} of them open", found[0], found[1]);
            return Err(format!("expected {written}, {open} of them open, found {found}").into());
        }
        Ok(())
    }

    async fn fill(&self, count: usize, processed_at: &str) -> Result {
        if count == 0 {
            return Ok(());
        }
        let payload = match self.kind {
            Kind::Wal | Kind::Rollback => "zeroblob(64)",
            Kind::Postgres => "decode(repeat('00', 64), 'hex')",
        };
        let fill = format!(
            "WITH RECURSIVE numbers(i) AS \
                 (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < {count}) \
             INSERT INTO outbox (name, payload, processed_at) \
             SELECT 'payments', {payload}, {processed_at} FROM numbers"
        );
        self.execute(&fill).await?;
        self.execute("ANALYZE").await
    }

    async fn execute(&self, sql: &str) -> Result {
        execute(&mut *self.admin.lock().await, sql).await
    }

    fn schema(&self) -> &'static str {
        match self.kind {
            Kind::Wal | Kind::Rollback => outbox_sqlite::SCHEMA,
            Kind::Postgres => outbox_postgres::SCHEMA,
        }
    }
}

impl Drop for Database {
    /// On a thread of its own: the bench's runtime is the one that drops it.
    fn drop(&mut self) {
        let Place::Server { url, name } = &self.place else {
            return;
        };
        let (url, drop) = (url.clone(), format!("DROP DATABASE {name} WITH (FORCE)"));
        let dropped = thread::spawn(move || {
            Runtime::new()?.block_on(async { execute(&mut connect(&url).await?, &drop).await })
        });
        let dropped = dropped.join();
        if !matches!(dropped, Ok(Ok(()))) {
            eprintln!("{name} was not dropped: {dropped:?}");
        }
    }
}

async fn connect(url: &str) -> Result<AnyConnection> {
    sqlx::any::install_default_drivers();
    Ok(AnyConnection::connect(url).await?)
}

async fn execute(conn: &mut AnyConnection, sql: &str) -> Result {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await?;
    Ok(())
}
