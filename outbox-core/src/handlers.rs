//! The handlers that the messages of a name meet, and what each of them marks.

use std::any::{TypeId, type_name};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use crate::consumers::{Consumer, Consumers};
use crate::{Stored, TARGET};

/// A handler as it was mounted. Two mounts of one handler are two, but for batch handlers, which
/// the outbox does not see mounted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mount {
    pub(crate) id: MountId,
    pub(crate) handler: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MountId {
    Layer(usize),
    Batch(TypeId),
}

impl Mount {
    /// A handler that a layer is put around.
    pub(crate) fn of<H>() -> Self {
        static MOUNTS: AtomicUsize = AtomicUsize::new(0);
        Self {
            id: MountId::Layer(MOUNTS.fetch_add(1, Ordering::Relaxed)),
            handler: type_name::<H>(),
        }
    }

    /// A batch handler.
    pub(crate) fn of_batch<H: 'static>() -> Self {
        Self {
            id: MountId::Batch(TypeId::of::<H>()),
            handler: type_name::<H>(),
        }
    }
}

/// What the outcome of a handler does to a record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// It marks the record for this consumer.
    Marks(Consumer),
    /// Nothing: the name's consumers are declared, and the handler is none of them.
    Nothing,
}

impl Part {
    /// Whether the handler has had its part of a record already. What one of several undeclared
    /// handlers has had is not known.
    pub(crate) fn is_done(self, stored: &Stored, several: bool) -> bool {
        match self {
            Self::Marks(Consumer::SOLE) => stored.processed && !several,
            Self::Marks(consumer) => consumer.has_marked(stored.marks),
            Self::Nothing => false,
        }
    }

    /// What is marked after the handler, in a record that is still open.
    pub(crate) fn of_open(self, stored: &Stored) -> Option<Consumer> {
        match self {
            Self::Marks(consumer) if !stored.processed => Some(consumer),
            Self::Marks(_) | Self::Nothing => None,
        }
    }
}

/// The handlers that the messages of one name have met in this process.
#[derive(Debug, Default)]
pub(crate) struct Handlers {
    first: OnceLock<Mount>,
    several: AtomicBool,
    undeclared: AtomicBool,
    /// The marks of the declared consumers that are mounted, or had a message.
    seen: AtomicI64,
}

impl Handlers {
    /// A message of the name meets a handler.
    pub(crate) fn meet(&self, name: &str, consumers: &Consumers, mount: Mount) -> Part {
        if consumers.is_empty() {
            self.meet_undeclared(name, mount);
            return Part::Marks(Consumer::SOLE);
        }
        if let Some(consumer) = self.see(consumers, mount) {
            return Part::Marks(consumer);
        }
        if !self.undeclared.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                target: TARGET,
                name,
                handler = mount.handler,
                "a handler receives this name that is not among its declared consumers: it gets \
                 every message and marks nothing, so a crash may cost it its copy; give it a bit \
                 of its own in `consumers: {{ .. }}`; this is said once per name",
            );
        }
        Part::Nothing
    }

    /// A handler is mounted, for this name or for another one.
    pub(crate) fn see(&self, consumers: &Consumers, mount: Mount) -> Option<Consumer> {
        let consumer = consumers.of(mount.handler)?;
        self.seen.fetch_or(consumer.mark(), Ordering::Relaxed);
        Some(consumer)
    }

    /// The declared consumers that were not seen yet.
    pub(crate) fn missing(&self, consumers: &Consumers) -> Vec<&'static str> {
        consumers.beside(self.seen.load(Ordering::Relaxed))
    }

    /// Where there are several, the record closes with the first of them, and says nothing about
    /// the others.
    fn meet_undeclared(&self, name: &str, mount: Mount) {
        let first = self.first.get_or_init(|| mount);
        let another = first.id != mount.id;
        if another && !self.several.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                target: TARGET,
                name,
                first = first.handler,
                second = mount.handler,
                "several handlers receive this name: each gets every message, and the first that \
                 acknowledges closes the record for all, so a crash may cost the others their \
                 copy; declare them as consumers, `consumers: {{ 0 => first, 1 => second }}`, or \
                 publish under a name of its own for each; this is said once per name",
            );
        }
    }

    /// Whether several have met it by now.
    pub(crate) fn several(&self) -> bool {
        self.several.load(Ordering::Acquire)
    }

    /// Whether another one than this has met it.
    pub(crate) fn met_beside(&self, mount: Mount) -> bool {
        self.several() || self.first.get().is_some_and(|first| first.id != mount.id)
    }
}
