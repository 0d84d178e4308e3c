//! The settings of a registry: values with defaults.

use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) acquire_timeout: Duration,
    pub(crate) lock_wait: Duration,
    pub(crate) retry_delay: Duration,
    pub(crate) republish_window: usize,
    pub(crate) republish_patience: Duration,
    pub(crate) start_after_failed_republish: bool,
    pub(crate) group_commit: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            acquire_timeout: Duration::from_secs(5),
            lock_wait: Duration::from_secs(2),
            retry_delay: Duration::from_secs(1),
            republish_window: 16,
            republish_patience: Duration::from_secs(1),
            start_after_failed_republish: false,
            group_commit: true,
        }
    }
}
