//! A service without an outbox: what an untracked message costs anyway.

use ruststream::Publisher;
use ruststream::memory::MemoryPublisher;
use ruststream::memory::prelude::*;
use ruststream::runtime::{Identity, RunningApp};

use super::Contender;
use crate::Result;
use crate::load::{Service, Take, start};

pub(super) struct Bare;

impl Contender for Bare {
    type Publisher = MemoryPublisher;

    fn publisher(&self, broker: &MemoryBroker) -> MemoryPublisher {
        broker.publisher()
    }

    async fn serve(&self, broker: &MemoryBroker, service: Service) -> Result<RunningApp> {
        start(broker, service, Identity, Take).await
    }

    async fn resend(&self, _publisher: impl Publisher + 'static, _ahead: Option<usize>) -> Result {
        Err("without an outbox nothing is recorded".into())
    }
}
