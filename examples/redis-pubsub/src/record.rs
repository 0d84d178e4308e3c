//! The record of a payment or a refund: a row of the table `outbox`, which notes when it was taken.

use chrono::{DateTime, Utc};
use outbox_postgres::outbox::{self, Statements, Stored};
use outbox_postgres::{Outbox, Postgres};
use sqlx::PgConnection;

/// A message of the shop: when it was taken into work, and when it was processed.
#[derive(Debug, Outbox, sqlx::FromRow)]
#[outbox(table = "outbox", publish, custom)]
pub struct ShopOutbox {
    /// Travels with the message.
    #[field(id)]
    pub id: i64,
    /// The channel that the message was published on.
    #[field(name)]
    pub name: String,
    /// The message.
    #[field(payload)]
    pub payload: Vec<u8>,
    /// The message's headers, sent again with it.
    #[field(headers)]
    pub headers: Option<String>,
    /// `None` while the record is open.
    #[field(processed_at)]
    pub processed_at: Option<DateTime<Utc>>,
    /// When a handler was first about to run. Without a role, so the outbox leaves it alone.
    pub taken_at: Option<DateTime<Utc>>,
}

/// A fetch of the service's own; the rest is the backend's.
impl outbox::Mark<Postgres> for ShopOutbox {
    // `conn` is in no transaction: the note is committed before the handler runs, whatever comes of
    // it. Begin none here, since an id that is not found is fetched again inside the outbox's own.
    //
    // The fetch runs once per copy of the message, and again after a failure. So what it writes has
    // to be the same the second time: here the first time stands. If it fails, so does the fetch,
    // and the message comes back later without its handler.
    async fn fetch(conn: &mut PgConnection, id: &i64) -> sqlx::Result<Option<Stored>> {
        let note = "UPDATE outbox SET taken_at = now() \
                    WHERE id = $1 AND taken_at IS NULL AND processed_at IS NULL";
        sqlx::query(note).bind(id).execute(&mut *conn).await?;
        <Postgres as Statements<Self>>::fetch(conn, id).await
    }
}
