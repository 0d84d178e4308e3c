//! This outbox, on any driver.

use std::time::Duration;

use outbox_sqlite::outbox::{Handle, Mark, Outbox, Publish, Statements, TrackedPublisher};
use ruststream::Publisher;
use ruststream::memory::MemoryPublisher;
use ruststream::memory::prelude::*;
use ruststream::runtime::RunningApp;

use super::Contender;
use crate::Result;
use crate::database::PATIENCE;
use crate::load::{Service, TRACKED, Take, start};

pub(super) struct Ours<D: Statements<R>, R: Publish<D> + Mark<D>>(Handle<D, R>);

impl<D: Statements<R>, R: Publish<D> + Mark<D>> Ours<D, R> {
    pub(super) fn new(pool: D::Pool) -> Self {
        let outbox = Outbox::new(pool).acquire_timeout(PATIENCE);
        Self(outbox.lock_wait(PATIENCE).register::<R>(TRACKED))
    }
}

impl<D, R> Contender for Ours<D, R>
where
    D: Statements<R>,
    R: Publish<D> + Mark<D>,
{
    type Publisher = TrackedPublisher<MemoryPublisher, Handle<D, R>>;

    fn publisher(&self, broker: &MemoryBroker) -> Self::Publisher {
        self.0.wrap(broker.publisher())
    }

    async fn serve(&self, broker: &MemoryBroker, service: Service) -> Result<RunningApp> {
        start(broker, service, self.0.layer(), Take).await
    }

    async fn resend(&self, publisher: impl Publisher + 'static, ahead: Option<usize>) -> Result {
        let outbox = self.0.clone();
        let outbox = match ahead {
            Some(ahead) => outbox.republish_window(ahead),
            None => outbox
                .republish_window(usize::MAX)
                .republish_patience(Duration::ZERO),
        };
        Ok(outbox.republish()(publisher).await?)
    }
}
