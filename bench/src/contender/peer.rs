//! `ruststream-sqlx`, which derives no insert: its records are written by the service's own.

use chrono::{DateTime, Utc};
use ruststream::memory::MemoryPublisher;
use ruststream::memory::prelude::*;
use ruststream::runtime::RunningApp;
use ruststream::{OutgoingMessage, Publisher};
use ruststream_sqlx::outbox::{Nil, Outbox, Publish, Registered, TrackedPublisher};
use sqlx::{
    Database, FromRow, PgConnection, PgPool, Postgres, Sqlite, SqliteConnection, SqlitePool,
};

use super::Contender;
use super::hand::{INSERT_POSTGRES, INSERT_SQLITE};
use crate::Result;
use crate::load::{Service, TRACKED, Take, start};

#[derive(ruststream_sqlx::Outbox, FromRow)]
#[outbox(table = "outbox")]
pub(super) struct Record {
    #[field(id)]
    id: i64,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
    #[field(processed_at)]
    processed_at: Option<DateTime<Utc>>,
}

impl Publish<Sqlite> for Record {
    async fn publish(conn: &mut SqliteConnection, msg: &OutgoingMessage<'_>) -> sqlx::Result<i64> {
        let insert = sqlx::query_scalar(INSERT_SQLITE).bind(msg.name());
        insert.bind(msg.payload()).fetch_one(conn).await
    }
}

impl Publish<Postgres> for Record {
    async fn publish(conn: &mut PgConnection, msg: &OutgoingMessage<'_>) -> sqlx::Result<i64> {
        let insert = sqlx::query_scalar(INSERT_POSTGRES).bind(msg.name());
        insert.bind(msg.payload()).fetch_one(conn).await
    }
}

type Records = Registered<Record, Nil>;

pub(super) struct Peer<DB: Database>(Outbox<DB, Records>);

impl Peer<Sqlite> {
    pub(super) fn sqlite(pool: SqlitePool) -> Self {
        Self(Outbox::new(pool).register::<Record>(TRACKED))
    }
}

impl Peer<Postgres> {
    pub(super) fn postgres(pool: PgPool) -> Self {
        Self(Outbox::new(pool).register::<Record>(TRACKED))
    }
}

macro_rules! contender {
    ($database:ty) => {
        impl Contender for Peer<$database> {
            type Publisher = TrackedPublisher<MemoryPublisher, $database, Records>;

            fn publisher(&self, broker: &MemoryBroker) -> Self::Publisher {
                self.0.wrap(broker.publisher())
            }

            async fn serve(&self, broker: &MemoryBroker, service: Service) -> Result<RunningApp> {
                start(broker, service, self.0.layer(), Take).await
            }

            /// It sends all of them at once.
            async fn resend(
                &self,
                publisher: impl Publisher + 'static,
                _ahead: Option<usize>,
            ) -> Result {
                Ok(self.0.republish()(publisher).await?)
            }
        }
    };
}

contender!(Sqlite);
contender!(Postgres);
