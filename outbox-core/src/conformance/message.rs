//! What the cases send, what they get, and what becomes of it.

use std::time::Duration;

use ruststream::runtime::HandlerOutcome;
use ruststream::{Bytes, HeaderMap, OutgoingMessage, Publisher, Str};

use crate::OUTBOX_ID_HEADER;
use crate::error::Chain;

/// A message as a handler or a broker got it.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The name that it was sent to.
    pub name: String,
    /// The payload.
    pub payload: Vec<u8>,
    /// The headers.
    pub headers: HeaderMap,
}

impl Delivery {
    /// The id of the message's record.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.headers.get_str(OUTBOX_ID_HEADER)
    }
}

/// Headers from pairs.
#[must_use]
pub fn headers(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (Str::from_static(name), Bytes::copy_from_slice(value)))
        .collect()
}

/// Headers that carry an id.
#[must_use]
pub fn id_header(id: &str) -> HeaderMap {
    headers(&[(OUTBOX_ID_HEADER, id.as_bytes())])
}

/// Publishes through any publisher.
///
/// # Errors
///
/// Whatever the publish fails with, with all its sources.
pub async fn publish(
    publisher: &impl Publisher,
    name: &str,
    payload: &[u8],
    headers: HeaderMap,
) -> Result<(), String> {
    let msg = OutgoingMessage::new(name, payload).with_headers(headers);
    let sent = publisher.publish(msg, None).await;
    sent.map_err(|error| Chain(&error).to_string())
}

/// Outcomes that a handler can be told to come to, and that the runtime is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settle {
    /// Acknowledge.
    Ack,
    /// Drop.
    Drop,
    /// Retry at once.
    Retry,
    /// Retry later.
    RetryAfter(Duration),
}

impl From<Settle> for HandlerOutcome {
    fn from(settle: Settle) -> Self {
        match settle {
            Settle::Ack => Self::ack(),
            Settle::Drop => Self::drop(),
            Settle::Retry => Self::retry(),
            Settle::RetryAfter(delay) => Self::retry_after(delay),
        }
    }
}

impl From<&HandlerOutcome> for Settle {
    fn from(outcome: &HandlerOutcome) -> Self {
        match outcome.retry_delay() {
            Some(delay) => Self::RetryAfter(delay),
            None if outcome.is_ack() => Self::Ack,
            None if outcome.is_drop() => Self::Drop,
            None => Self::Retry,
        }
    }
}
