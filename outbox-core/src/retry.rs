//! The retry copies that the runtime itself publishes: each keeps the record of its delivery.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ruststream::HeaderMap;
use ruststream::runtime::RETRY_COUNT_HEADER;
use tokio::time::Instant;

use crate::OUTBOX_ID_HEADER;
use crate::handlers::MountId;

/// How long after it is due a copy may still be leaving.
const LEAVING: Duration = Duration::from_secs(1);

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

#[derive(Debug)]
struct Note {
    mount: MountId,
    id: String,
    count: u64,
    /// Whether it is the outbox that asked for it.
    unread: bool,
    /// When the copy leaves. `None`: at once, or it is the broker that redelivers.
    due: Option<Instant>,
    /// Whether it is expected still. A copy of what a pattern delivered may leave under any of its
    /// names: each of them has the note.
    pending: Arc<AtomicBool>,
}

/// A copy that is expected, for the notes of each name that it may leave under.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    unread: bool,
    due: Option<Instant>,
    pending: Arc<AtomicBool>,
}

impl Expected {
    /// A handler wants it after `delay`.
    pub(crate) fn after(delay: Option<Duration>) -> Self {
        Self {
            unread: false,
            due: delay.and_then(|delay| Instant::now().checked_add(delay)),
            pending: Arc::new(AtomicBool::new(true)),
        }
    }

    /// The outbox wants it after `delay`, since the record could not be read.
    pub(crate) fn unread(delay: Duration) -> Self {
        Self {
            unread: true,
            ..Self::after(Some(delay))
        }
    }
}

impl Note {
    fn is_expected(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    fn is_of(&self, mount: MountId, id: &str) -> bool {
        self.mount == mount && self.id == id
    }
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
    pub(crate) fn expect(&self, mount: MountId, id: &str, count: u64, copy: Expected) {
        let mut notes = self.notes();
        if notes.len() == KEPT {
            notes.pop_front();
        }
        notes.push_back(Note {
            mount,
            id: id.to_owned(),
            count: count + 1,
            unread: copy.unread,
            due: copy.due,
            pending: copy.pending,
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
        notes.retain(Note::is_expected);
        let copied = |note: &Note| note.id == id && note.count == count;
        let copy = notes
            .iter()
            .position(copied)
            .and_then(|at| notes.remove(at));
        self.any.store(!notes.is_empty(), Ordering::Release);
        copy.is_some_and(|copy| copy.pending.swap(false, Ordering::AcqRel))
    }

    /// A delivery of the record arrived. A copy that counts no more than it does is not coming, and
    /// neither is one that left by now: the broker redelivered it itself. Whether the outbox has asked
    /// for a later copy, for the same handler, that is on its way.
    ///
    /// On a broker that gives each message to every instance of a service, each instance answers with
    /// a copy that all of them get: while a database is away they would double with each retry. What
    /// a handler asked for is the handler's: whether its attempts are spent is not known here.
    pub(crate) fn arrived(&self, mount: MountId, id: &str, count: u64) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let now = Instant::now();
        let mut notes = self.notes();
        notes.retain(|note| {
            let comes = note.mount != mount || note.due.is_some_and(|due| due + LEAVING > now);
            let kept = note.id != id || note.count > count && comes;
            if !kept {
                note.pending.store(false, Ordering::Release);
            }
            kept && note.is_expected()
        });
        self.any.store(!notes.is_empty(), Ordering::Release);
        let mut notes = notes.iter().filter(|note| note.is_of(mount, id));
        // One that counts none may be redelivered by the broker itself: no copy was made of it yet.
        count > 0 && notes.any(|note| note.unread && note.due.is_some_and(|due| due > now))
    }

    fn notes(&self) -> MutexGuard<'_, VecDeque<Note>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Option<Duration> = Some(Duration::from_secs(1));

    fn mount(number: usize) -> MountId {
        MountId::Layer(number)
    }

    fn copy(count: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(OUTBOX_ID_HEADER, "1");
        headers.insert(RETRY_COUNT_HEADER, count);
        headers
    }

    /// Each instance of a service gets the copies of both, and answers each with one of its own:
    /// where the record could not be read, with one for all.
    #[tokio::test(start_paused = true)]
    async fn a_copy_of_another_instance_leaves_the_own_one_to_wait_for() {
        for unread in [false, true] {
            let expected = || {
                if unread {
                    Expected::unread(Duration::from_secs(1))
                } else {
                    Expected::after(DELAY)
                }
            };
            let retries = Retries::default();
            assert!(!retries.arrived(mount(0), "1", 1));
            retries.expect(mount(0), "1", 1, expected());
            assert_eq!(retries.arrived(mount(0), "1", 1), unread);
            assert!(!retries.arrived(mount(1), "1", 1), "for that handler");
            tokio::time::advance(Duration::from_millis(1100)).await;
            assert!(!retries.arrived(mount(0), "1", 1), "it is leaving");
            retries.expect(mount(0), "1", 1, expected());
            assert!(retries.is_copy(&copy("2")));
            assert!(retries.is_copy(&copy("2")), "and so is that one's");
            assert!(!retries.is_copy(&copy("2")));
        }
    }

    /// A broker that redelivers by itself does so with the count as it was.
    #[tokio::test(start_paused = true)]
    async fn a_redelivery_before_its_time_is_the_message() {
        let retries = Retries::default();
        retries.expect(mount(0), "1", 0, Expected::unread(Duration::from_secs(1)));
        assert!(!retries.arrived(mount(0), "1", 0));
    }

    /// A copy that never left is not waited for.
    #[tokio::test(start_paused = true)]
    async fn a_redelivery_ends_the_wait_for_a_copy() {
        for (delay, passed) in [(None, 0), (DELAY, 3)] {
            let retries = Retries::default();
            retries.expect(mount(0), "1", 0, Expected::after(delay));
            tokio::time::advance(Duration::from_secs(passed)).await;
            assert!(!retries.arrived(mount(0), "1", 0));
            assert!(!retries.is_copy(&copy("1")));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_copy_itself_ends_the_wait_for_it() {
        let retries = Retries::default();
        retries.expect(mount(0), "1", 0, Expected::after(DELAY));
        assert!(!retries.arrived(mount(0), "1", 1));
        assert!(
            !retries.is_copy(&copy("1")),
            "what carries its headers is new"
        );
    }

    /// Whichever name of a pattern the copy leaves under, the others expect it no longer.
    #[tokio::test(start_paused = true)]
    async fn a_copy_that_left_under_one_name_is_expected_under_no_other() {
        let (card, sepa) = (Retries::default(), Retries::default());
        for ends in [
            |card: &Retries| card.is_copy(&copy("1")),
            |card: &Retries| !card.arrived(mount(1), "1", 1),
        ] {
            let expected = Expected::after(DELAY);
            card.expect(mount(0), "1", 0, expected.clone());
            sepa.expect(mount(0), "1", 0, expected);
            assert!(ends(&card));
            assert!(!sepa.is_copy(&copy("1")));
        }
    }
}
