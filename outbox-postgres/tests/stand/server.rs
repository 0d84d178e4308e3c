//! A database of its own for one test, on the server that the environment names.

#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

use std::thread;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tokio::runtime;
use uuid::Uuid;

/// The variable of the server's URL: of a superuser, and of any database of the server's.
pub(crate) const URL: &str = "OUTBOX_POSTGRES_URL";

/// What a test says that cannot run without a server.
pub(crate) fn missing() -> Option<String> {
    let missing = std::env::var_os(URL).is_none();
    missing.then(|| {
        format!("{URL} is not set: name a superuser's URL, such as postgres://postgres@localhost/postgres")
    })
}

/// A database that is dropped with the value.
#[derive(Debug)]
pub(crate) struct Database {
    /// The URL of the server.
    pub(crate) server: String,
    /// The database's name.
    pub(crate) name: String,
}

impl Database {
    /// An empty database.
    pub(crate) async fn create() -> Self {
        if let Some(missing) = missing() {
            panic!("{missing}");
        }
        let database = Self {
            server: std::env::var(URL).unwrap(),
            name: format!("outbox_{}", Uuid::new_v4().simple()),
        };
        let create = format!("CREATE DATABASE {} TEMPLATE template0", database.name);
        on_server(&database.server, create).await;
        database
    }

    pub(crate) fn options(&self) -> PgConnectOptions {
        let server: PgConnectOptions = self.server.parse().unwrap();
        server.database(&self.name).disable_statement_logging()
    }

    pub(crate) async fn connect(&self) -> PgConnection {
        PgConnection::connect_with(&self.options()).await.unwrap()
    }
}

impl Drop for Database {
    /// On a thread of its own: the test's runtime may be the one that drops it.
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        let server = self.server.clone();
        let dropping = thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(on_server(&server, drop));
        });
        dropping.join().ok();
    }
}

async fn on_server(server: &str, sql: String) {
    let options: PgConnectOptions = server.parse().unwrap();
    let options = options.disable_statement_logging();
    let mut conn = PgConnection::connect_with(&options).await.unwrap();
    let run = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await;
    run.unwrap();
    conn.close().await.unwrap();
}
