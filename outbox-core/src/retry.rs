//! The retry copies that the runtime itself publishes: each keeps the record of its delivery.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ruststream::HeaderMap;
use ruststream::runtime::RETRY_COUNT_HEADER;

use crate::OUTBOX_ID_HEADER;
use crate::handlers::MountId;

/// The most notes of one name. A copy whose note was dropped is recorded as a new message.
const KEPT: usize = 4096;

/// The deliveries of one name that this process has just answered with a retry.
///
/// On a broker without redelivery the runtime answers a retry with a copy: the delivery's headers,
/// and a count that is one higher. A note of both is what tells the copy from a message that a
/// handler forwards with all its headers. No database is asked, so the copy leaves without one.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    any: AtomicBool,
    notes: Mutex<VecDeque<Note>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Note {
    mount: MountId,
    id: String,
    count: u64,
}

/// How often a delivery was retried before, as the runtime counts it.
pub(crate) fn retry_count(headers: &HeaderMap) -> u64 {
    parse_count(headers.get_str(RETRY_COUNT_HEADER))
}

/// A count that is not there, or not a number, is none.
pub(crate) fn parse_count(count: Option<&str>) -> u64 {
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

impl Retries {
    /// A delivery of the record was answered with a retry: its copy will count one more.
    pub(crate) fn expect(&self, mount: MountId, id: &str, count: u64) {
        let mut notes = self.notes();
        if notes.len() == KEPT {
            notes.pop_front();
        }
        notes.push_back(Note {
            mount,
            id: id.to_owned(),
            count: count + 1,
        });
        self.any.store(true, Ordering::Release);
    }

    /// Whether a message is a copy that was expected. It is expected no longer.
    pub(crate) fn is_copy(&self, headers: &HeaderMap) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let Some(id) = headers.get_str(OUTBOX_ID_HEADER) else {
            return false;
        };
        let count = retry_count(headers);
        let mut notes = self.notes();
        let copied = |note: &Note| note.id == id && note.count == count;
        let Some(at) = notes.iter().position(copied) else {
            return false;
        };
        notes.remove(at);
        self.any.store(!notes.is_empty(), Ordering::Release);
        true
    }

    /// A delivery of the record arrived. A copy that counts no more than it does is not coming.
    pub(crate) fn arrived(&self, mount: MountId, id: &str, count: u64) {
        if self.any.load(Ordering::Acquire) {
            let mut notes = self.notes();
            notes.retain(|note| note.id != id || note.mount != mount && note.count > count);
            self.any.store(!notes.is_empty(), Ordering::Release);
        }
    }

    fn notes(&self) -> MutexGuard<'_, VecDeque<Note>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
