//! A SQLite file for one test, looked at and broken through a connection of its own.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

use std::fmt::Display;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use outbox_core::conformance::{Row, Stand, StandRecord};
use outbox_sqlite::Sqlite;
use outbox_sqlite::outbox::Statements;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
};
use sqlx::{AssertSqlSafe, Connection, Decode, Row as _, Type};
use tempfile::TempDir;

/// How the table makes ids of a type.
pub trait StandId: Display + FromStr + Send + Sync + 'static {
    const COLUMN: &'static str;
}

impl StandId for i64 {
    const COLUMN: &'static str = "INTEGER PRIMARY KEY AUTOINCREMENT";
}

impl StandId for uuid::Uuid {
    const COLUMN: &'static str = "BLOB PRIMARY KEY DEFAULT (randomblob(16))";
}

const TEXT_UUID: &str = "TEXT PRIMARY KEY DEFAULT (lower(hex(randomblob(4)) || '-' || \
     hex(randomblob(2)) || '-' || hex(randomblob(2)) || '-' || hex(randomblob(2)) || '-' || \
     hex(randomblob(6))))";

impl StandId for uuid::fmt::Hyphenated {
    const COLUMN: &'static str = TEXT_UUID;
}

impl StandId for String {
    const COLUMN: &'static str = TEXT_UUID;
}

/// The database of one test.
pub struct SqliteStand<Id = i64, const DELETES: bool = false> {
    folder: TempDir,
    id: PhantomData<fn() -> Id>,
}

impl<Id, const DELETES: bool> SqliteStand<Id, DELETES> {
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("test.db")
    }

    pub fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new().filename(self.file())
    }

    pub async fn connect(&self) -> SqliteConnection {
        let options = self.options().busy_timeout(Duration::from_secs(20));
        SqliteConnection::connect_with(&options).await.unwrap()
    }

    pub async fn execute(&self, sql: &str) {
        let mut conn = self.connect().await;
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut conn)
            .await
            .unwrap();
        conn.close().await.unwrap();
    }
}

impl<Id: StandId, const DELETES: bool> SqliteStand<Id, DELETES> {
    pub async fn with_journal(journal: SqliteJournalMode) -> Self {
        let stand = Self {
            folder: tempfile::tempdir().unwrap(),
            id: PhantomData,
        };
        let options = stand
            .options()
            .create_if_missing(true)
            .journal_mode(journal);
        let conn = SqliteConnection::connect_with(&options).await.unwrap();
        conn.close().await.unwrap();
        stand.execute(&table::<Id>(DELETES)).await;
        stand
    }
}

/// The table of a stand: the shipped one, but for the id's type and what may be `NULL`.
pub fn table<Id: StandId>(deletes: bool) -> String {
    let (processed_at, open) = match deletes {
        true => ("", ""),
        false => (", processed_at TEXT", " WHERE processed_at IS NULL"),
    };
    format!(
        "CREATE TABLE outbox (id {}, name TEXT, payload BLOB, headers TEXT{processed_at});
         CREATE INDEX outbox_open ON outbox (name, id){open};",
        Id::COLUMN
    )
}

impl<Id, const DELETES: bool> Stand for SqliteStand<Id, DELETES>
where
    Id: StandId + Type<sqlx::Sqlite> + for<'r> Decode<'r, sqlx::Sqlite>,
    Sqlite: Statements<StandRecord<Id, DELETES>>,
{
    type Backend = Sqlite;
    type Record = StandRecord<Id, DELETES>;
    type Lock = SqliteConnection;

    async fn open() -> Self {
        Self::with_journal(SqliteJournalMode::Wal).await
    }

    async fn pool(&self, size: u32) -> SqlitePool {
        let options = SqlitePoolOptions::new().max_connections(size);
        options.connect_lazy_with(self.options())
    }

    async fn rows(&self) -> Vec<Row> {
        let open = if DELETES {
            "TRUE"
        } else {
            "processed_at IS NULL"
        };
        let sql = format!("SELECT id, name, payload, headers, {open} FROM outbox ORDER BY id");
        let mut conn = self.connect().await;
        let rows = sqlx::query(AssertSqlSafe(sql))
            .fetch_all(&mut conn)
            .await
            .unwrap();
        let rows = rows.iter().map(|row| Row {
            id: row.get::<Id, _>(0).to_string(),
            name: row.get(1),
            payload: row.get(2),
            headers: row.get(3),
            open: row.get(4),
        });
        rows.collect()
    }

    async fn store(&self, name: &str, payload: Option<&[u8]>, headers: Option<&str>) -> String {
        let mut conn = self.connect().await;
        let row = sqlx::query(
            "INSERT INTO outbox (name, payload, headers) VALUES (?, ?, ?) RETURNING id",
        )
        .bind(name)
        .bind(payload)
        .bind(headers)
        .fetch_all(&mut conn)
        .await
        .unwrap();
        row[0].get::<Id, _>(0).to_string()
    }

    async fn close(&self, id: &str) {
        let mut conn = self.connect().await;
        let rows = self.rows().await;
        let at = rows.iter().position(|row| row.id == id).unwrap();
        let of_row = "(SELECT rowid FROM outbox ORDER BY id LIMIT 1 OFFSET ?)";
        let sql = match DELETES {
            true => format!("DELETE FROM outbox WHERE rowid = {of_row}"),
            false => {
                format!("UPDATE outbox SET processed_at = CURRENT_TIMESTAMP WHERE rowid = {of_row}")
            }
        };
        let at = i64::try_from(at).unwrap();
        let closed = sqlx::query(AssertSqlSafe(sql))
            .bind(at)
            .execute(&mut conn)
            .await
            .unwrap();
        assert_eq!(closed.rows_affected(), 1);
    }

    async fn hide_table(&self, hidden: bool) {
        self.execute(match hidden {
            true => "ALTER TABLE outbox RENAME TO hidden",
            false => "ALTER TABLE hidden RENAME TO outbox",
        })
        .await;
    }

    async fn refuse_commits(&self, refuse: bool) {
        self.execute(match refuse {
            true => {
                "CREATE TABLE parent (id INTEGER PRIMARY KEY);
                 CREATE TABLE child (parent REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
                 CREATE TRIGGER refuse AFTER INSERT ON outbox
                     BEGIN INSERT INTO child VALUES (1); END;"
            }
            false => "DROP TRIGGER refuse; DROP TABLE child; DROP TABLE parent;",
        })
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
    async fn begin_by_hand(conn: &mut SqliteConnection) {
        sqlx::query("BEGIN").execute(&mut *conn).await.unwrap();
        sqlx::query("SELECT count(*) FROM outbox")
            .fetch_all(conn)
            .await
            .unwrap();
    }
}
