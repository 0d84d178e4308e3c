//! An instance of the service as a process of its own, which can be killed.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use outbox_sqlite::outbox::SWITCH_VARIABLE;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::Error;
use crate::service::Settings;

/// What `run` prints once it listens and has sent the open records again.
pub const READY: &str = "ready";

/// The longest that a start may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts this package's `program`, and returns once it is ready. It dies with the handle.
///
/// # Errors
///
/// It did not start, and said why on stderr.
pub async fn start(program: &Path, settings: &Settings) -> Result<Child, Error> {
    let mut instance = Command::new(program)
        .args(["run", "--shop", &settings.shop])
        .args(["--database", &settings.database])
        // A URL may have a password, and everybody sees the arguments of a process.
        .env("OUTBOX_NATS_URL", &settings.nats)
        // A build for tests has the switch, and is off without it.
        .env(SWITCH_VARIABLE, "on")
        .env("RUST_LOG", "error")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = instance.stdout.take().ok_or("the service has no stdout")?;
    let mut lines = BufReader::new(stdout).lines();
    let said = timeout(PATIENCE, lines.next_line()).await??;
    if said.as_deref() == Some(READY) {
        Ok(instance)
    } else {
        Err("the service did not start".into())
    }
}
