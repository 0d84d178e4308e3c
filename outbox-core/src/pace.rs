//! How far the start may run ahead of the handlers: records sent, and not yet taken up here.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use crate::registry::Registered;

/// The records of one name that a start has sent and no handler of this process has taken up.
///
/// The set is filled only while a start sends; otherwise a delivery reads one flag.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// How many starts count now.
    active: AtomicUsize,
    /// Whether any was taken up since it was asked last.
    moving: AtomicBool,
    ahead: Mutex<HashSet<String>>,
    taken: Notify,
}

impl Pace {
    /// A message with the record's id arrived at this process's own layer.
    pub(crate) fn take(&self, id: &str) {
        if self.active.load(Ordering::Acquire) > 0 && self.ahead().remove(id) {
            self.moving.store(true, Ordering::Release);
            self.taken.notify_one();
        }
    }

    fn ahead(&self) -> MutexGuard<'_, HashSet<String>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A start that sends the records of one name. The count ends, and is forgotten, with it.
#[derive(Debug)]
pub(crate) struct Pacing(Arc<Registered>);

impl Pacing {
    /// Begins to count.
    pub(crate) fn begin(registered: Arc<Registered>) -> Self {
        if registered.pace.active.fetch_add(1, Ordering::AcqRel) == 0 {
            registered.pace.moving.store(false, Ordering::Release);
        }
        Self(registered)
    }

    pub(crate) fn registered(&self) -> &Registered {
        &self.0
    }

    /// Waits until fewer than `window` records are ahead.
    ///
    /// # Errors
    ///
    /// Those that are, where none was taken up for `patience`. They are forgotten: a new window
    /// begins.
    pub(crate) async fn room(&self, window: usize, patience: Duration) -> Result<(), Vec<String>> {
        let pace = &self.0.pace;
        while pace.ahead().len() >= window {
            if timeout(patience, pace.taken.notified()).await.is_err() {
                return Err(pace.ahead().drain().collect());
            }
        }
        Ok(())
    }

    /// Whether any record was taken up since this was asked last.
    pub(crate) fn moved(&self) -> bool {
        self.0.pace.moving.swap(false, Ordering::AcqRel)
    }

    /// The record is about to be sent.
    pub(crate) fn send(&self, id: &str) {
        self.0.pace.ahead().insert(id.to_owned());
    }

    /// The record was not sent.
    pub(crate) fn not_sent(&self, id: &str) {
        self.0.pace.ahead().remove(id);
    }
}

impl Drop for Pacing {
    fn drop(&mut self) {
        if self.0.pace.active.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.pace.ahead().clear();
        }
    }
}
