//! Named points at which a crash test ends the process; without the feature `crash-points`, nothing.

/// A place where a process may die between two steps of a message's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    AfterCommit,
    BeforeSend,
    AfterFetch,
    AfterHandler,
    BeforeMark,
}

/// Aborts the process where the environment says so: `OUTBOX_CRASH_AT` is a point's name, or a name
/// with the time at which it is reached, `after_commit@3`.
#[cfg(feature = "crash-points")]
pub(crate) fn point(reached: Point) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static CRASH_AT: LazyLock<Option<(String, u64)>> = LazyLock::new(|| {
        let at = std::env::var("OUTBOX_CRASH_AT").ok()?;
        let (name, time) = at.split_once('@').unwrap_or((&at, "1"));
        Some((name.to_owned(), time.parse().ok()?))
    });
    static REACHED: AtomicU64 = AtomicU64::new(0);

    let Some((name, time)) = &*CRASH_AT else {
        return;
    };
    if reached.name() == name && REACHED.fetch_add(1, Ordering::Relaxed) + 1 == *time {
        eprintln!("crash point {name}, reached {time} times: the process ends here");
        std::process::abort();
    }
}

#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub(crate) const fn point(_reached: Point) {}

#[cfg(feature = "crash-points")]
impl Point {
    const fn name(self) -> &'static str {
        match self {
            Self::AfterCommit => "after_commit",
            Self::BeforeSend => "before_send",
            Self::AfterFetch => "after_fetch",
            Self::AfterHandler => "after_handler",
            Self::BeforeMark => "before_mark",
        }
    }
}
