//! SQLite through sqlx.

use outbox_sqlite::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions};

use crate::database::BUSY_TIMEOUT;
use crate::{Driver, Kind, Result};

impl Driver for Sqlite {
    const KIND: Kind = Kind::Sqlite;

    fn open(url: &str, size: u32) -> Result<SqlitePool> {
        let options = url
            .parse::<SqliteConnectOptions>()?
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(BUSY_TIMEOUT);
        let pool = SqlitePoolOptions::new().max_connections(size);
        Ok(pool.connect_lazy_with(options))
    }

    async fn close(pool: &SqlitePool) {
        pool.close().await;
    }
}
