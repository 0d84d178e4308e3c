//! The same work written by hand: the same statements with the same safety, and no outbox.

use std::error::Error;
use std::fmt;

use outbox_sqlite::outbox::OUTBOX_ID_HEADER;
use ruststream::memory::MemoryPublisher;
use ruststream::memory::prelude::*;
use ruststream::runtime::{Identity, RunningApp};
use ruststream::{OutgoingFor, OutgoingMessage, Publisher, Str};

use super::Contender;
use crate::Result;
use crate::load::{Payload, Service, TRACKED, start};

pub(super) const INSERT_SQLITE: &str =
    "INSERT INTO outbox (name, payload) VALUES (?, ?) RETURNING id";
pub(super) const INSERT_POSTGRES: &str =
    "INSERT INTO outbox (name, payload) VALUES ($1, $2) RETURNING id";

pub(super) const FETCH_SQLITE: &str =
    "SELECT name, processed_at IS NOT NULL FROM outbox WHERE id = ?";
pub(super) const FETCH_POSTGRES: &str =
    "SELECT name, processed_at IS NOT NULL FROM outbox WHERE id = $1";

pub(super) const MARK_SQLITE: &str =
    "UPDATE outbox SET processed_at = CURRENT_TIMESTAMP WHERE id = ? AND processed_at IS NULL";
pub(super) const MARK_POSTGRES: &str =
    "UPDATE outbox SET processed_at = CURRENT_TIMESTAMP WHERE id = $1 AND processed_at IS NULL";

pub(super) const OPEN_SQLITE: &str =
    "SELECT id, payload FROM outbox WHERE name = ? AND processed_at IS NULL ORDER BY id";
pub(super) const OPEN_POSTGRES: &str =
    "SELECT id, payload FROM outbox WHERE name = $1 AND processed_at IS NULL ORDER BY id";

/// What is written by hand for each driver. A write is an explicit transaction whose commit is
/// awaited.
pub(super) trait Table: Clone + Send + Sync + 'static {
    /// Records a message, and returns its id.
    fn record(&self, name: &str, payload: &[u8]) -> impl Future<Output = Result<i64>> + Send;

    /// The record's name, and whether it is processed.
    fn fetch(&self, id: i64) -> impl Future<Output = Result<Option<(String, bool)>>> + Send;

    fn mark(&self, id: i64) -> impl Future<Output = Result> + Send;

    /// The ids and the payloads of the open records.
    fn open(&self, name: &str) -> impl Future<Output = Result<Vec<(i64, Vec<u8>)>>> + Send;
}

#[derive(Clone)]
pub(super) struct ByHand<T>(pub(super) T);

impl<T: Table> Contender for ByHand<T> {
    type Publisher = Recording<T>;

    fn publisher(&self, broker: &MemoryBroker) -> Recording<T> {
        Recording {
            table: self.0.clone(),
            publisher: broker.publisher(),
        }
    }

    async fn serve(&self, broker: &MemoryBroker, service: Service) -> Result<RunningApp> {
        start(broker, service, Identity, self.clone()).await
    }

    async fn resend(&self, publisher: impl Publisher + 'static, _ahead: Option<usize>) -> Result {
        for (id, payload) in self.0.open(TRACKED).await? {
            let mut headers = HeaderMap::new();
            headers.insert(Str::from_static(OUTBOX_ID_HEADER), id.to_string());
            let msg = OutgoingMessage::new(TRACKED, &payload).with_headers(headers);
            publisher.publish(msg, None).await?;
        }
        Ok(())
    }
}

#[derive(Clone)]
pub(super) struct Recording<T> {
    table: T,
    publisher: MemoryPublisher,
}

/// Why a message was not recorded, or not sent.
#[derive(Debug)]
pub(super) struct NotPublished(Box<dyn Error + Send + Sync>);

impl fmt::Display for NotPublished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for NotPublished {}

impl<T: Table> Publisher for Recording<T> {
    type Payload = <MemoryPublisher as Publisher>::Payload;
    type Error = NotPublished;
    type Options = ();

    async fn publish(
        &self,
        msg: OutgoingFor<'_, Self::Payload>,
        options: Option<&()>,
    ) -> std::result::Result<(), NotPublished> {
        let (name, payload, mut headers) = msg.into_parts();
        let id = self.table.record(name, payload.as_ref()).await;
        let id = id.map_err(NotPublished)?;
        headers.insert(Str::from_static(OUTBOX_ID_HEADER), id.to_string());
        let msg = OutgoingMessage::with_payload(name, payload).with_headers(headers);
        let sent = self.publisher.publish(msg, options).await;
        sent.map_err(|error| NotPublished(error.into()))
    }
}

/// The handler reads its record, has nothing to do, and marks the record.
impl<T: Table> Handle<Payload<'_>> for ByHand<T> {
    async fn handle(
        &self,
        _payload: &Payload<'_>,
        _outs: &(),
        ctx: &mut Context<'_>,
    ) -> std::result::Result<(), HandlerOutcome> {
        let id = ctx.headers().get_str(OUTBOX_ID_HEADER);
        let Some(id) = id.and_then(|id| id.parse().ok()) else {
            return Err(HandlerOutcome::drop());
        };
        let handled = async {
            let found = self.0.fetch(id).await?;
            if found.is_some_and(|(name, processed)| name == TRACKED && !processed) {
                self.0.mark(id).await?;
            }
            Result::Ok(())
        };
        // The record stays open, and the bench finds it.
        handled.await.map_err(|error| {
            eprintln!("record {id}: {error}");
            HandlerOutcome::drop()
        })
    }
}
