//! The publish side: record the message, stamp the record's id, send.

use std::mem;

use ruststream::Publisher;
use ruststream::runtime::{Outgoing, PublishLayer, PublishNext, PublishPipeline};

use crate::crash::{Point, point};
use crate::error::{BoxError, OutboxError};
use crate::registry::{Names, Walk};
use crate::{Backend, Outbox};

/// The publish layer of an [`Outbox`]: see [`Outbox::publish_layer`].
///
/// A publish that it refuses fails with an [`OutboxError`], and nothing was sent. Where the send
/// itself failed, the error is [`OutboxError::NotSent`] and its source is the publisher's error.
#[derive(Debug, Clone)]
pub struct OutboxPublishLayer<B: Backend, L: Names> {
    outbox: Outbox<B, L>,
}

impl<B: Backend, L: Names> OutboxPublishLayer<B, L> {
    pub(crate) fn new(outbox: Outbox<B, L>) -> Self {
        Self { outbox }
    }
}

impl<B: Backend, L: Walk<B>> PublishLayer for OutboxPublishLayer<B, L> {
    async fn on_publish<'a, N: PublishPipeline, P: Publisher>(
        &'a self,
        out: &'a mut Outgoing<'a>,
        next: PublishNext<'a, N, P>,
    ) -> Result<(), BoxError> {
        let Some(registered) = self.outbox.published(out.name()) else {
            return next.run(out).await;
        };
        if registered.is_copy(out.headers()) {
            return next.run(out).await;
        }
        let headers = mem::take(out.headers_mut());
        let (headers, id) = self
            .outbox
            .record(registered, out.payload(), headers)
            .await?;
        *out.headers_mut() = headers;
        point(Point::BeforeSend);
        next.run(out)
            .await
            .map_err(|source| OutboxError::not_sent(registered.name(), &id, source).into())
    }
}
