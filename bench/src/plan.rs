//! How much is measured: in a full run, and in one that only tries that everything runs.

use std::time::Duration;

use crate::database::Kind;

/// How much a run measures, and where its report goes.
#[derive(Debug)]
pub struct Plan {
    /// The part that is measured: of all parts, those whose title contains it. There is no report then.
    pub only: Option<String>,
    /// How often each figure is measured. The sides take turns in each round.
    pub(crate) rounds: usize,
    /// Which numbers of messages in flight are measured.
    pub(crate) in_flight: &'static [usize],
    /// About how long one measurement takes; none: as few messages as make sense.
    pub(crate) measurement: Duration,
    /// How many open records are sent again.
    pub(crate) backlog: usize,
    /// How many open records are sent again and processed, and how often.
    pub(crate) recovery: (usize, usize),
    /// How many processed rows the full table has.
    pub(crate) processed: usize,
    /// The folder that the report is written in.
    pub(crate) folder: &'static str,
}

impl Plan {
    /// What the report of the project is made of.
    pub const FULL: Self = Self {
        only: None,
        rounds: 5,
        in_flight: &[1, 8, 64, 256],
        measurement: Duration::from_millis(250),
        backlog: 100_000,
        recovery: (10_000, 2),
        processed: 1_000_000,
        folder: ".",
    };

    /// Well under a minute.
    pub const QUICK: Self = Self {
        only: None,
        rounds: 1,
        in_flight: &[1, 64],
        measurement: Duration::ZERO,
        backlog: 500,
        recovery: (200, 1),
        processed: 2_000,
        folder: "target/bench",
    };

    /// Whether this part is measured.
    pub(crate) fn has(&self, kind: Kind, title: &str) -> bool {
        let title = format!("{}: {title}", kind.title());
        let only = self.only.as_ref();
        only.is_none_or(|only| title.contains(only))
    }
}
