//! A shop of one test: its database, looked at and broken by hand, and a place for its shipments.

mod server;

use std::env;
use std::fs;

use outbox_sqlite::outbox::{self, SWITCH_VARIABLE};
use payments::error::Error;
use payments::service::Settings;
use sqlx::{AnyConnection, Connection};
use tempfile::TempDir;

use self::server::Database;

pub(crate) type Result<T = ()> = std::result::Result<T, Error>;

/// A record: id, name, payload, and whether it is `open` or `processed`.
pub(crate) type Row = (i64, String, Vec<u8>, String);

pub(crate) struct Shop {
    place: Place,
    folder: TempDir,
}

enum Place {
    File,
    Server(Database),
}

impl Shop {
    pub(crate) fn on_sqlite() -> Result<Option<Self>> {
        let (place, folder) = (Place::File, tempfile::tempdir()?);
        Ok(Some(Self { place, folder }))
    }

    /// `None`: the environment names no server.
    pub(crate) async fn on_postgres() -> Result<Option<Self>> {
        let Ok(url) = env::var(server::URL) else {
            skip(&format!("set {} to a superuser's URL", server::URL));
            return Ok(None);
        };
        let place = Place::Server(Database::create(url).await?);
        let folder = tempfile::tempdir()?;
        Ok(Some(Self { place, folder }))
    }

    pub(crate) fn url(&self) -> String {
        match &self.place {
            Place::File => format!("sqlite://{}", self.folder.path().join("shop.db").display()),
            Place::Server(database) => database.url.clone(),
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            database: self.url(),
            log: self.folder.path().join("shipped.log"),
        }
    }

    pub(crate) fn shipped(&self) -> Result<String> {
        Ok(fs::read_to_string(self.settings().log)?)
    }

    pub(crate) async fn records(&self) -> Result<Vec<Row>> {
        let state = "CASE WHEN processed_at IS NULL THEN 'open' ELSE 'processed' END";
        let select = format!("SELECT id, name, payload, {state} FROM outbox ORDER BY id");
        let select = sqlx::query_as(sqlx::AssertSqlSafe(select));
        Ok(select.fetch_all(&mut self.connect().await?).await?)
    }

    pub(crate) async fn execute(&self, sql: &'static str) -> Result {
        sqlx::raw_sql(sql)
            .execute(&mut self.connect().await?)
            .await?;
        Ok(())
    }

    async fn connect(&self) -> sqlx::Result<AnyConnection> {
        sqlx::any::install_default_drivers();
        AnyConnection::connect(&self.url()).await
    }
}

/// Whether the outbox of this process is as a test needs it. The environment decides, once.
pub(crate) fn outbox_is(on: bool) -> bool {
    if outbox::is_on() == on {
        return true;
    }
    let set = if on { "set" } else { "do not set" };
    skip(&format!("{set} {SWITCH_VARIABLE}=on to run this test"));
    false
}

fn skip(why: &str) {
    let skipped = format!("SKIPPED: {why}");
    let denied = env::var("OUTBOX_DENY_SKIPS").is_ok_and(|deny| deny == "1");
    assert!(!denied, "{skipped}");
    println!("{skipped}");
}
