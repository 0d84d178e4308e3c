//! A SQLite file for one test, looked at and broken through a connection of its own.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

mod driver;

use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use outbox_core::conformance::{Row, Stand, StandRecord};
use outbox_sqlite::outbox::Statements;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
};
use sqlx::{AssertSqlSafe, Connection, Decode, Row as _, Type};
use tempfile::TempDir;
use tokio::sync::Mutex;

pub use driver::{Driver, Opening};

/// How the table makes ids of a type.
pub trait StandId: Display + FromStr + Send + Sync + 'static {
    const COLUMN: &'static str;

    /// As what the stand looks at them.
    type Seen: Display + Type<sqlx::Sqlite> + for<'r> Decode<'r, sqlx::Sqlite>;
}

impl StandId for i64 {
    const COLUMN: &'static str = "INTEGER PRIMARY KEY AUTOINCREMENT";

    type Seen = Self;
}

impl StandId for uuid::Uuid {
    const COLUMN: &'static str = "BLOB PRIMARY KEY DEFAULT (randomblob(16))";

    type Seen = Self;
}

const TEXT_UUID: &str = "TEXT PRIMARY KEY DEFAULT (lower(hex(randomblob(4)) || '-' || \
     hex(randomblob(2)) || '-' || hex(randomblob(2)) || '-' || hex(randomblob(2)) || '-' || \
     hex(randomblob(6))))";

impl StandId for uuid::fmt::Hyphenated {
    const COLUMN: &'static str = TEXT_UUID;

    type Seen = Self;
}

impl StandId for String {
    const COLUMN: &'static str = TEXT_UUID;

    type Seen = Self;
}

/// The database of one test.
///
/// It is watched through one connection that stays open. Version 3.51.1 of SQLite, which the
/// drivers resolve to together, can lock itself up where one connection of a process to a file in
/// WAL mode closes while another one opens.
pub struct SqliteStand<D, Id = i64, const DELETES: bool = false, const MARKS: bool = false> {
    folder: TempDir,
    watch: Mutex<SqliteConnection>,
    types: PhantomData<fn() -> (D, Id)>,
}

impl<D, Id, const DELETES: bool, const MARKS: bool> SqliteStand<D, Id, DELETES, MARKS> {
    /// A pool of four connections, with the driver's defaults otherwise.
    pub fn opening(&self) -> Opening {
        Opening {
            url: url(&self.folder),
            size: 4,
            setup: String::new(),
        }
    }

    /// A pool past every driver under test: of the service's own tables, or of the peer.
    pub fn own_pool(&self) -> SqlitePool {
        let options = SqliteConnectOptions::new().filename(url(&self.folder));
        SqlitePoolOptions::new().connect_lazy_with(options)
    }

    pub async fn connect(&self) -> SqliteConnection {
        let options = options(&self.folder);
        SqliteConnection::connect_with(&options).await.unwrap()
    }

    pub async fn execute(&self, sql: &str) {
        let mut watch = self.watch.lock().await;
        let script = sqlx::raw_sql(AssertSqlSafe(sql));
        script.execute(&mut *watch).await.unwrap();
    }
}

impl<D, Id: StandId, const DELETES: bool, const MARKS: bool> SqliteStand<D, Id, DELETES, MARKS> {
    pub async fn with_journal(journal: SqliteJournalMode) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = options(&folder)
            .create_if_missing(true)
            .journal_mode(journal);
        let watch = SqliteConnection::connect_with(&options).await.unwrap();
        let stand = Self {
            folder,
            watch: Mutex::new(watch),
            types: PhantomData,
        };
        stand.execute(&table::<Id>(DELETES)).await;
        if MARKS {
            stand.execute("ALTER TABLE outbox ADD marks INTEGER").await;
        }
        stand
    }
}

fn url(folder: &TempDir) -> String {
    format!("file:{}", folder.path().join("test.db").display())
}

fn options(folder: &TempDir) -> SqliteConnectOptions {
    let options = SqliteConnectOptions::new().filename(url(folder));
    options.busy_timeout(Duration::from_secs(20))
}

/// The table of a stand: the shipped one, but for the id's type and what may be `NULL`.
pub fn table<Id: StandId>(deletes: bool) -> String {
    let (processed_at, open) = if deletes {
        ("", "")
    } else {
        (", processed_at TEXT", " WHERE processed_at IS NULL")
    };
    format!(
        "CREATE TABLE outbox (id {}, name TEXT, payload BLOB, headers TEXT{processed_at});
         CREATE INDEX outbox_open ON outbox (name, id){open};",
        Id::COLUMN
    )
}

impl<D, Id, const DELETES: bool, const MARKS: bool> Stand for SqliteStand<D, Id, DELETES, MARKS>
where
    D: Driver + Statements<StandRecord<Id, DELETES, MARKS>>,
    Id: StandId,
{
    type Backend = D;
    type Record = StandRecord<Id, DELETES, MARKS>;
    type Lock = SqliteConnection;

    async fn open() -> Self {
        Self::with_journal(SqliteJournalMode::Wal).await
    }

    async fn pool(&self, size: u32) -> D::Pool {
        D::open(self.opening().size(size)).await
    }

    async fn rows(&self) -> Vec<Row> {
        let open = if DELETES {
            "TRUE"
        } else {
            "processed_at IS NULL"
        };
        let sql = format!("SELECT id, name, payload, headers, {open} FROM outbox ORDER BY id");
        let mut watch = self.watch.lock().await;
        let rows = sqlx::query(AssertSqlSafe(sql))
            .fetch_all(&mut *watch)
            .await
            .unwrap();
        let rows = rows.iter().map(|row| Row {
            id: row.get::<Id::Seen, _>(0).to_string(),
            name: row.get(1),
            payload: row.get(2),
            headers: row.get(3),
            open: row.get(4),
        });
        rows.collect()
    }

    async fn store(&self, name: &str, payload: Option<&[u8]>, headers: Option<&str>) -> String {
        let mut watch = self.watch.lock().await;
        let row = sqlx::query(
            "INSERT INTO outbox (name, payload, headers) VALUES (?, ?, ?) RETURNING id",
        )
        .bind(name)
        .bind(payload)
        .bind(headers)
        .fetch_all(&mut *watch)
        .await
        .unwrap();
        row[0].get::<Id::Seen, _>(0).to_string()
    }

    async fn close(&self, id: &str) {
        let rows = self.rows().await;
        let mut watch = self.watch.lock().await;
        let at = rows.iter().position(|row| row.id == id).unwrap();
        let of_row = "(SELECT rowid FROM outbox ORDER BY id LIMIT 1 OFFSET ?)";
        let sql = if DELETES {
            format!("DELETE FROM outbox WHERE rowid = {of_row}")
        } else {
            format!("UPDATE outbox SET processed_at = CURRENT_TIMESTAMP WHERE rowid = {of_row}")
        };
        let at = i64::try_from(at).unwrap();
        let closed = sqlx::query(AssertSqlSafe(sql))
            .bind(at)
            .execute(&mut *watch)
            .await
            .unwrap();
        assert_eq!(closed.rows_affected(), 1);
    }

    async fn hide_table(&self, hidden: bool) {
        self.execute(if hidden {
            "ALTER TABLE outbox RENAME TO hidden"
        } else {
            "ALTER TABLE hidden RENAME TO outbox"
        })
        .await;
    }

    async fn refuse_commits(&self, refuse: bool) {
        self.execute(if refuse {
            "CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE child (parent REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
             CREATE TRIGGER refuse AFTER INSERT ON outbox
                 BEGIN INSERT INTO child VALUES (1); END;"
        } else {
            "DROP TRIGGER refuse; DROP TABLE child; DROP TABLE parent;"
        })
        .await;
    }

    async fn refuse(&self, payload: &str) {
        self.execute(&format!(
            "CREATE TRIGGER refuse_row BEFORE INSERT ON outbox WHEN NEW.payload = CAST('{payload}' AS BLOB)
                 BEGIN SELECT RAISE(ABORT, 'the row was refused'); END;"
        ))
        .await;
    }

    async fn lock(&self) -> SqliteConnection {
        let mut conn = self.connect().await;
        sqlx::query("BEGIN IMMEDIATE")
            .execute(&mut conn)
            .await
            .unwrap();
        conn
    }

    async fn unlock(mut lock: SqliteConnection) {
        sqlx::query("ROLLBACK").execute(&mut lock).await.unwrap();
    }

    /// With a read, so that the transaction sees the table as it is now.
    async fn begin_by_hand(conn: &mut D::Connection) {
        D::execute(conn, "BEGIN; SELECT count(*) FROM outbox").await;
    }
}
