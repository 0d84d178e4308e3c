//! The handlers of one name: where there are several, the first to acknowledge hides nothing from
//! the others.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::TARGET;

/// A handler as it was mounted. Two mounts of one handler are two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mount {
    pub(crate) number: usize,
    handler: &'static str,
}

impl Mount {
    pub(crate) fn of<H>() -> Self {
        static MOUNTS: AtomicUsize = AtomicUsize::new(0);
        Self {
            number: MOUNTS.fetch_add(1, Ordering::Relaxed),
            handler: std::any::type_name::<H>(),
        }
    }
}

/// The handlers that the messages of one name have met in this process.
#[derive(Debug, Default)]
pub(crate) struct Handlers {
    first: OnceLock<Mount>,
    several: AtomicBool,
}

impl Handlers {
    /// A message of the name meets a handler. Whether there are several: the record closes with
    /// the first of them, and says nothing about the others.
    pub(crate) fn meet(&self, name: &str, mount: Mount) {
        let first = self.first.get_or_init(|| mount);
        let another = first.number != mount.number;
        if another && !self.several.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                target: TARGET,
                name,
                first = first.handler,
                second = mount.handler,
                "several handlers receive this name: each gets every message, and the first that \
                 acknowledges closes the record for all, so a crash may cost the others their \
                 copy; publish under a name of its own for each, or make one handler of them; \
                 this is said once per name",
            );
        }
    }

    /// Whether several have met it by now.
    pub(crate) fn several(&self) -> bool {
        self.several.load(Ordering::Acquire)
    }
}
