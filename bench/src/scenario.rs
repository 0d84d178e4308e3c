//! What is measured, as a table.

use crate::database::Kind;

/// What a message goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Published under a name that nobody registered, and handled.
    Untracked,
    /// Recorded and sent to a broker without a subscription.
    Publish,
    /// Recorded, sent, read, handled, marked.
    Path,
}

/// Messages of a kind, on some databases.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) title: &'static str,
    pub(crate) work: Work,
    pub(crate) kinds: &'static [Kind],
    /// How many messages are under way at once.
    pub(crate) in_flight: &'static [usize],
}

const IN_FLIGHT: &[usize] = &[1, 8, 64, 256];

pub(crate) const UNTRACKED: &str = "untracked message";
pub(crate) const PUBLISH: &str = "tracked publish";
pub(crate) const PATH: &str = "whole path";

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        title: UNTRACKED,
        work: Work::Untracked,
        kinds: &[Kind::Wal, Kind::Postgres],
        in_flight: IN_FLIGHT,
    },
    Scenario {
        title: PUBLISH,
        work: Work::Publish,
        kinds: &[Kind::Wal, Kind::Postgres],
        in_flight: IN_FLIGHT,
    },
    Scenario {
        title: PUBLISH,
        work: Work::Publish,
        kinds: &[Kind::Rollback],
        // With 256, stragglers wait for the lock for seconds: a run would take too long.
        in_flight: &[1, 8, 64],
    },
    Scenario {
        title: PATH,
        work: Work::Path,
        kinds: &[Kind::Wal, Kind::Postgres],
        in_flight: IN_FLIGHT,
    },
];

/// The whole backlog, sent to a publisher that takes each message at once.
pub(crate) const RESEND: &str = "open records sent again";
/// The whole backlog, until the last record is marked.
pub(crate) const RECOVERY: &str = "open records sent again, handled and marked";
/// The whole path on a table without, and with, processed rows.
pub(crate) const PATH_EMPTY: &str = "empty table, whole path";
pub(crate) const PATH_FULL: &str = "table of processed rows, whole path";
/// Starts that find nothing to send, on the same tables.
pub(crate) const START_EMPTY: &str = "starts, empty table";
pub(crate) const START_FULL: &str = "starts, table of processed rows";
