//! A service that dies: it has a runtime of its own, which ends between two of its steps.

use broker_tests::Result;
use tokio::runtime::{Builder, Runtime};
use tokio::task::block_in_place;

/// One thread, which runs nothing but what [`Process::run`] waits for: a task of the service, such
/// as the one that writes to the broker's connection, goes on during a run only.
pub(crate) struct Process(Runtime);

impl Process {
    pub(crate) fn start() -> Result<Self> {
        Ok(Self(Builder::new_current_thread().enable_all().build()?))
    }

    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        block_in_place(|| self.0.block_on(future))
    }

    /// Ends it as a kill does: no task is asked, nothing is flushed.
    pub(crate) fn die(self) {
        self.0.shutdown_background();
    }
}
