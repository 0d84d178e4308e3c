//! What the cases share: what was handled, what was logged, a server and a process of one's own.

mod handled;
mod logs;
mod process;
mod server;

use std::time::Duration;

use broker_tests::Result;
use tokio::time::timeout;

pub(crate) use handled::{Handled, acknowledge};
pub(crate) use logs::Logs;
pub(crate) use process::Process;
pub(crate) use server::Server;

/// How long a test waits for what has to come. Nothing that is measured.
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits for what has to come.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    let in_time = timeout(PATIENCE, future).await;
    in_time.map_err(|_| format!("{what} did not come within {PATIENCE:?}").into())
}

/// An error with all its sources.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<_> = sources.map(ToString::to_string).collect();
    texts.join(": ")
}
