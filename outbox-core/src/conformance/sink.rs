//! A broker of a case's own, for a start without an app.

use std::fmt;
use std::future::ready;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use ruststream::{HeaderMap, Lend, OutgoingMessage, Publisher};

use super::message::Delivery;

type Sending = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// A publisher of a broker that does what the case says. A clone is the same broker.
#[derive(Clone)]
pub struct Sink {
    script: Arc<dyn Fn(Delivery) -> Sending + Send + Sync>,
    asked: Arc<Mutex<Vec<Delivery>>>,
    sent: Arc<Mutex<Vec<Delivery>>>,
    base: Option<HeaderMap>,
}

impl Sink {
    /// A broker that does with a message what `script` does.
    pub fn new(script: impl Fn(Delivery) -> Sending + Send + Sync + 'static) -> Self {
        Self {
            script: Arc::new(script),
            asked: Arc::default(),
            sent: Arc::default(),
            base: None,
        }
    }

    /// The broker, with headers of its publisher's own.
    #[must_use]
    pub fn with_base(mut self, headers: HeaderMap) -> Self {
        self.base = Some(headers);
        self
    }

    /// A broker that takes every message but those that `refuse` is true for.
    pub fn refusing(refuse: impl Fn(&Delivery) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |delivery| {
            Box::pin(ready(if refuse(&delivery) {
                Err(io::Error::other("the broker refused"))
            } else {
                Ok(())
            }))
        })
    }

    /// A broker that takes every message.
    #[must_use]
    pub fn accepting() -> Self {
        Self::refusing(|_| false)
    }

    /// What it was asked to send, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<Delivery> {
        self.asked.lock().unwrap().clone()
    }

    /// What it sent, in order.
    #[must_use]
    pub fn sent(&self) -> Vec<Delivery> {
        self.sent.lock().unwrap().clone()
    }

    /// The payloads that it sent, in order.
    #[must_use]
    pub fn payloads(&self) -> Vec<Vec<u8>> {
        let sent = self.sent().into_iter();
        sent.map(|delivery| delivery.payload).collect()
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink")
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}

impl Publisher for Sink {
    type Payload = Lend;
    type Error = io::Error;
    type Options = ();

    async fn publish(
        &self,
        msg: OutgoingMessage<'_, &[u8]>,
        _options: Option<&()>,
    ) -> io::Result<()> {
        let delivery = Delivery {
            name: msg.name().to_owned(),
            payload: msg.payload().to_vec(),
            headers: msg.headers().clone(),
        };
        self.asked.lock().unwrap().push(delivery.clone());
        (self.script)(delivery.clone()).await?;
        self.sent.lock().unwrap().push(delivery);
        Ok(())
    }

    fn base_headers(&self) -> Option<&HeaderMap> {
        self.base.as_ref()
    }
}
