//! How far the start may run ahead of the handlers: records sent, and not yet taken up here.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// The records of one name that a start has sent and no handler of this process has taken up.
///
/// The set is filled only while a start sends; otherwise a delivery reads one flag.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    active: AtomicBool,
    ahead: Mutex<HashSet<String>>,
    taken: Notify,
}

impl Pace {
    /// Begins to count. The count ends, and is forgotten, when the guard is dropped.
    pub(crate) fn begin(&self) -> Pacing<'_> {
        self.active.store(true, Ordering::Release);
        Pacing(self)
    }

    /// A message with the record's id arrived at this process's own layer.
    pub(crate) fn take(&self, id: &str) {
        if self.active.load(Ordering::Acquire) && self.ahead().remove(id) {
            self.taken.notify_one();
        }
    }

    fn ahead(&self) -> MutexGuard<'_, HashSet<String>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A start that sends the records of one name.
#[derive(Debug)]
pub(crate) struct Pacing<'a>(&'a Pace);

impl Pacing<'_> {
    /// Waits until fewer than `window` records are ahead. `false`: none was taken up for
    /// `patience`, so a new window begins.
    pub(crate) async fn room(&self, window: usize, patience: Duration) -> bool {
        while self.0.ahead().len() >= window {
            if timeout(patience, self.0.taken.notified()).await.is_err() {
                self.0.ahead().clear();
                return false;
            }
        }
        true
    }

    /// The record is about to be sent.
    pub(crate) fn send(&self, id: &str) {
        self.0.ahead().insert(id.to_owned());
    }

    /// The record was not sent.
    pub(crate) fn not_sent(&self, id: &str) {
        self.0.ahead().remove(id);
    }
}

impl Drop for Pacing<'_> {
    fn drop(&mut self) {
        self.0.active.store(false, Ordering::Release);
        self.0.ahead().clear();
    }
}
