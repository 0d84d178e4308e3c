//! SQLite through rusqlite, its own driver, on a pool of deadpool's.

use deadpool_sqlite::{Config, Pool, Runtime};
use outbox_sqlite::{Rusqlite, RusqliteConnection, RusqliteError, SCHEMA, outbox};
use ruststream::OutgoingMessage;

use super::{COUNT, Database};
use crate::error::Error;
use crate::record::PaymentOutbox;

impl outbox::Publish<Rusqlite> for PaymentOutbox {
    async fn publish(
        conn: &mut RusqliteConnection,
        msg: &OutgoingMessage<'_>,
    ) -> Result<i64, RusqliteError> {
        let values = (msg.name().to_owned(), msg.payload().to_vec());
        let insert = "INSERT INTO outbox (name, payload) VALUES (?, ?) RETURNING id";
        let inserted = conn.interact(move |conn| {
            let mut insert = conn.prepare_cached(insert)?;
            insert.query_one(values, |row| row.get(0))
        });
        Ok(inserted.await??)
    }
}

impl Database for Rusqlite {
    const DRIVER: &str = "native";

    async fn open(url: &str) -> Result<Pool, Error> {
        let path = url.strip_prefix("sqlite://");
        let path = path.ok_or("the URL of the database does not begin with sqlite://")?;
        let pool = Config::new(format!("file:{path}")).create_pool(Runtime::Tokio1)?;
        let conn = pool.get().await?;
        let made = conn.interact(|conn| {
            // The file keeps it, for every later connection.
            conn.pragma_update(None, "journal_mode", "wal")?;
            conn.execute_batch(SCHEMA)
        });
        made.await.map_err(RusqliteError::from)??;
        Ok(pool)
    }

    async fn count(pool: &Pool) -> Result<(i64, i64), Error> {
        let conn = pool.get().await?;
        let counted =
            conn.interact(|conn| conn.query_one(COUNT, [], |row| Ok((row.get(0)?, row.get(1)?))));
        Ok(counted.await.map_err(RusqliteError::from)??)
    }

    async fn close(pool: &Pool) {
        pool.close();
    }
}
