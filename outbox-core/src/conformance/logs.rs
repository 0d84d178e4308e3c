//! What the outbox logs, as a test sees it.

use std::fmt::{Debug, Write};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use crate::TARGET;

/// The lines that the outbox logs on this thread while the value lives.
#[derive(Debug)]
pub struct Logs {
    lines: Lines,
    _guard: DefaultGuard,
}

type Lines = Arc<Mutex<Vec<(Level, String)>>>;

/// A second listener for the life of the process. While there is just one, a line that another
/// thread is the first to log is switched off for every thread.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Listener(Lines::default())));

impl Logs {
    /// Begins to listen.
    #[must_use]
    pub fn capture() -> Self {
        LazyLock::force(&SECOND);
        let lines = Lines::default();
        let guard = set_default(Listener(Arc::clone(&lines)));
        Self {
            lines,
            _guard: guard,
        }
    }

    /// The lines of a level that contain every one of `words`.
    #[must_use]
    pub fn lines(&self, level: Level, words: &[&str]) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let of_level = lines.iter().filter(|(of, _)| *of == level);
        of_level
            .map(|(_, line)| line.clone())
            .filter(|line| words.iter().all(|word| line.contains(word)))
            .collect()
    }

    /// The warnings and the errors.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = self.lines(Level::WARN, &[]);
        complaints.extend(self.lines(Level::ERROR, &[]));
        complaints
    }
}

struct Listener(Lines);

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TARGET
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push((*event.metadata().level(), line.0));
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }

    /// A text is written as it is, so that it reads the same however it was recorded.
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
