//! How far the start runs ahead of this process's handlers, and what none of them took up.

use std::sync::Arc;

use crate::TARGET;
use crate::pace::Pacing;
use crate::registry::Registered;
use crate::settings::Settings;

/// The records of one name that a start has sent ahead of the handlers.
pub(crate) struct Window {
    pacing: Pacing,
    settings: Settings,
    warned: bool,
}

impl Window {
    pub(crate) fn open(registered: Arc<Registered>, settings: &Settings) -> Self {
        Self {
            pacing: Pacing::begin(registered),
            settings: *settings,
            warned: false,
        }
    }

    pub(crate) fn pacing(&self) -> &Pacing {
        &self.pacing
    }

    /// Waits until another record may be sent.
    pub(crate) async fn wait_for_room(&mut self) {
        self.wait_for(self.settings.republish_window).await;
    }

    /// Everything is sent. What is not taken up is said later: the start does not wait for it.
    pub(crate) fn close(mut self) {
        tokio::spawn(async move {
            self.wait_for(1).await;
            let registered = self.pacing.registered();
            let missing = registered.missing_consumers();
            if !self.warned && !missing.is_empty() {
                tracing::warn!(
                    target: TARGET,
                    name = registered.name(),
                    ?missing,
                    "records are open that are older than this process, and no handler of this app \
                     is one of their declared consumers (a batch handler is none before its first \
                     batch): until each consumer has marked them they return at every start; mount \
                     it, here or in another service, or take it out of `consumers`",
                );
            }
        });
    }

    async fn wait_for(&mut self, window: usize) {
        let patience = self.settings.republish_patience;
        let waited = self.pacing.room(window, patience).await;
        if let (Err(left), false) = (waited, self.warned) {
            self.warned = true;
            tracing::warn!(
                target: TARGET,
                name = self.pacing.registered().name(),
                left,
                ?patience,
                "records are open that are older than this process, and those that the start sent \
                 were not taken up by a handler of this app in that time, so they may return at \
                 every start: the receiver is elsewhere, or it is a batch handler that does not \
                 `take` and `settle` them, a subscription by a pattern or a queue that is not among \
                 the `deliveries`, or an app without the outbox's `layer`; where more are to be \
                 sent, the start goes on in windows with that pause between them",
            );
        }
    }
}
