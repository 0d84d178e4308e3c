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
        let window = self.settings.republish_window;
        let room = self.pacing.room(window, self.settings.republish_patience);
        if let Err(left) = room.await {
            self.warn_not_taken_up(left.len());
        }
    }

    /// Waits until everything that was sent is taken up, with twice the patience each further
    /// `time`.
    ///
    /// # Errors
    ///
    /// What was not: of a broker that drops what a receiver's buffer does not hold, some while
    /// others were. Where none was, the log says so, and there is nothing more to do.
    pub(crate) async fn taken_up(&mut self, time: u32) -> Result<(), Vec<String>> {
        let patience = self.settings.republish_patience;
        let taken_up = self.pacing.room(1, patience.saturating_mul(1 << time));
        let Err(left) = taken_up.await else {
            return Ok(());
        };
        if self.pacing.moved() && time < TIMES {
            return Err(left);
        }
        self.warn_not_taken_up(left.len());
        Ok(())
    }

    fn warn_not_taken_up(&mut self, left: usize) {
        if self.warned {
            return;
        }
        self.warned = true;
        tracing::warn!(
            target: TARGET,
            name = self.pacing.registered().name(),
            left,
            patience = ?self.settings.republish_patience,
            "records are open that are older than this process, and those that the start sent were \
             not taken up by a handler of this app in that time, so they may return at every start: \
             the receiver is elsewhere, or slower than that, or it is a batch handler that does not \
             `take` and `settle` them, a subscription by a pattern or a queue that is not among the \
             `deliveries`, or an app without the outbox's `layer`; where more are to be sent, the \
             start goes on in windows with that pause between them",
        );
    }

    /// Names the declared consumers that no handler of the app is.
    pub(crate) fn warn_of_missing_consumers(&self) {
        let registered = self.pacing.registered();
        let missing = registered.missing_consumers();
        if !self.warned && !missing.is_empty() {
            tracing::warn!(
                target: TARGET,
                name = registered.name(),
                ?missing,
                "records are open that are older than this process, and no handler of this app is \
                 one of their declared consumers (a batch handler is none before its first batch): \
                 until each consumer has marked them they return at every start; mount it, here or \
                 in another service, or take it out of `consumers`",
            );
        }
    }
}

/// How often what was not taken up is sent once more.
const TIMES: u32 = 3;
