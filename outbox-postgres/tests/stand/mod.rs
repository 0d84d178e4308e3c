//! A Postgres database for one test, looked at and broken through a connection of its own.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    unused_macros,
    reason = "each test binary uses its part"
)]

mod cases;
mod driver;
mod server;

use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;

use outbox_core::conformance::{Row, Stand, StandRecord};
use outbox_postgres::outbox::Statements;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, Row as _};

pub(crate) use cases::{cases, run};
pub use driver::{Driver, Opening};
pub(crate) use server::{Database, missing};

/// How the table makes ids of a type.
pub trait StandId: Display + FromStr + Send + Sync + 'static {
    const COLUMN: &'static str;
}

impl StandId for i64 {
    const COLUMN: &'static str = "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY";
}

impl StandId for uuid::Uuid {
    const COLUMN: &'static str = "uuid PRIMARY KEY DEFAULT gen_random_uuid()";
}

const TEXT_UUID: &str = "text PRIMARY KEY DEFAULT gen_random_uuid()::text";

impl StandId for uuid::fmt::Hyphenated {
    const COLUMN: &'static str = TEXT_UUID;
}

impl StandId for String {
    const COLUMN: &'static str = TEXT_UUID;
}

/// The database of one test, for a driver under test.
pub struct PostgresStand<D, Id = i64, const DELETES: bool = false, const MARKS: bool = false> {
    database: Database,
    types: PhantomData<fn() -> (D, Id)>,
}

impl<D, Id, const DELETES: bool, const MARKS: bool> PostgresStand<D, Id, DELETES, MARKS> {
    /// A database with tables of the test's own.
    pub async fn with(tables: &str) -> Self {
        let stand = Self {
            database: Database::create().await,
            types: PhantomData,
        };
        stand.execute(tables).await;
        stand
    }

    pub fn opening(&self) -> Opening {
        Opening {
            server: self.database.server.clone(),
            database: self.database.name.clone(),
            size: 4,
            setup: String::new(),
        }
    }

    /// A pool past every driver under test: of the service's own tables, or of the peer.
    pub fn own_pool(&self) -> PgPool {
        let options: PgConnectOptions = self.database.server.parse().unwrap();
        PgPoolOptions::new().connect_lazy_with(options.database(&self.database.name))
    }

    pub async fn connect(&self) -> PgConnection {
        self.database.connect().await
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

/// The table of a stand: the shipped one, but for the id's type and what may be `NULL`.
pub fn table(id: &str, deletes: bool) -> String {
    let (processed_at, open) = if deletes {
        ("", "")
    } else {
        (", processed_at timestamptz", " WHERE processed_at IS NULL")
    };
    format!(
        "CREATE TABLE outbox (id {id}, name text, payload bytea, headers text{processed_at});
         CREATE INDEX outbox_open ON outbox (name, id){open};"
    )
}

impl<D, Id, const DELETES: bool, const MARKS: bool> Stand for PostgresStand<D, Id, DELETES, MARKS>
where
    D: Driver + Statements<StandRecord<Id, DELETES, MARKS>>,
    Id: StandId,
{
    type Backend = D;
    type Record = StandRecord<Id, DELETES, MARKS>;
    type Lock = PgConnection;

    async fn open() -> Self {
        let stand = Self::with(&table(Id::COLUMN, DELETES)).await;
        if MARKS {
            stand.execute("ALTER TABLE outbox ADD marks integer").await;
        }
        stand
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
        let sql = format!(
            "SELECT id::text, name, payload, headers::text, {open} FROM outbox ORDER BY outbox.id"
        );
        let mut conn = self.connect().await;
        let rows = sqlx::query(AssertSqlSafe(sql))
            .fetch_all(&mut conn)
            .await
            .unwrap();
        let rows = rows.iter().map(|row| Row {
            id: row.get(0),
            name: row.get(1),
            payload: row.get(2),
            headers: row.get(3),
            open: row.get(4),
        });
        rows.collect()
    }

    async fn store(&self, name: &str, payload: Option<&[u8]>, headers: Option<&str>) -> String {
        let mut conn = self.connect().await;
        sqlx::query_scalar(
            "INSERT INTO outbox (name, payload, headers) VALUES ($1, $2, $3) RETURNING id::text",
        )
        .bind(name)
        .bind(payload)
        .bind(headers)
        .fetch_one(&mut conn)
        .await
        .unwrap()
    }

    async fn close(&self, id: &str) {
        let mut conn = self.connect().await;
        let closed = sqlx::query(if DELETES {
            "DELETE FROM outbox WHERE id::text = $1"
        } else {
            "UPDATE outbox SET processed_at = now() WHERE id::text = $1"
        })
        .bind(id)
        .execute(&mut conn)
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
            "CREATE TABLE parent (id int PRIMARY KEY);
                 CREATE TABLE child (parent int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
                 CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
                     AS 'BEGIN INSERT INTO child VALUES (1); RETURN NULL; END';
                 CREATE TRIGGER refuse AFTER INSERT ON outbox EXECUTE FUNCTION refuse();"
        } else {
            "DROP FUNCTION refuse CASCADE; DROP TABLE child; DROP TABLE parent;"
        })
        .await;
    }

    async fn refuse(&self, payload: &str) {
        self.execute(&format!(
            "ALTER TABLE outbox ADD CHECK (payload <> '{payload}')"
        ))
        .await;
    }

    async fn lock(&self) -> PgConnection {
        let mut conn = self.connect().await;
        sqlx::raw_sql("BEGIN; LOCK TABLE outbox IN SHARE ROW EXCLUSIVE MODE")
            .execute(&mut conn)
            .await
            .unwrap();
        conn
    }

    async fn unlock(mut lock: PgConnection) {
        sqlx::query("ROLLBACK").execute(&mut lock).await.unwrap();
    }

    /// With a read, so that the transaction sees the table as it is now.
    async fn begin_by_hand(conn: &mut D::Connection) {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox";
        D::execute(conn, begin).await;
    }
}
