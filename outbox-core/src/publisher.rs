//! A publisher for use outside handlers: it records what it is given, then sends it.

use ruststream::{HeaderMap, OutgoingFor, OutgoingMessage, Publisher};

use crate::crash::{Point, point};
use crate::error::OutboxError;
use crate::registry::Walk;
use crate::{Backend, Outbox};

/// A publisher that records tracked messages before it sends them: see [`Outbox::wrap`].
///
/// A message that carries an id header in gets a record and an id of its own. Its type can be
/// written down over a [`Handle`](crate::Handle): `TrackedPublisher<P, Handle<B, R>>`.
#[derive(Debug, Clone)]
pub struct TrackedPublisher<P, O> {
    publisher: P,
    outbox: O,
}

impl<P, O> TrackedPublisher<P, O> {
    pub(crate) fn new(publisher: P, outbox: O) -> Self {
        Self { publisher, outbox }
    }
}

impl<P: Publisher, B: Backend, L: Walk<B>> Publisher for TrackedPublisher<P, Outbox<B, L>> {
    type Payload = P::Payload;
    type Error = TrackedPublisherError<P::Error>;
    type Options = P::Options;

    async fn publish(
        &self,
        msg: OutgoingFor<'_, Self::Payload>,
        options: Option<&Self::Options>,
    ) -> Result<(), Self::Error> {
        let Some(registered) = self.outbox.published(msg.name()) else {
            return self
                .publisher
                .publish(msg, options)
                .await
                .map_err(TrackedPublisherError::Publisher);
        };
        let (name, payload, headers) = msg.into_parts();
        let (headers, id) = self
            .outbox
            .record(registered, payload.as_ref(), headers)
            .await
            .map_err(TrackedPublisherError::Outbox)?;
        let msg = OutgoingMessage::with_payload(name, payload).with_headers(headers);
        point(Point::BeforeSend);
        self.publisher
            .publish(msg, options)
            .await
            .map_err(|source| TrackedPublisherError::NotSent {
                name: name.to_owned(),
                id: String::from_utf8_lossy(&id).into_owned(),
                source,
            })
    }

    fn base_headers(&self) -> Option<&HeaderMap> {
        self.publisher.base_headers()
    }
}

/// Why a [`TrackedPublisher`] did not publish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrackedPublisherError<E: std::error::Error + 'static> {
    /// The message was not recorded, and not sent.
    #[error(transparent)]
    Outbox(OutboxError),

    /// The name is not registered, and the publisher did not send the message.
    #[error(transparent)]
    Publisher(E),

    /// The record was saved, and its message was not sent. The next start sends it.
    #[error(
        "record {id} of `{name}` was saved but its message was not sent: the record stays open and \
         the next start sends it again"
    )]
    NotSent {
        /// The name that the message was published under.
        name: String,
        /// The record's id.
        id: String,
        /// What the publisher answered.
        source: E,
    },
}
