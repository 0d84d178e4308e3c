//! A process that runs the service.

use std::env;
use std::process::Stdio;

use outbox_sqlite::outbox::SWITCH_VARIABLE;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::PATIENCE;
use super::folder::Folder;
use crate::client::Client;
use crate::database::Database;
use crate::error::Error;

/// A running service. It dies with the demo.
pub(super) struct Instance {
    process: Child,
    pub(super) client: Client,
}

impl Instance {
    /// Starts the service, and returns once its HTTP endpoint answers that its outbox is on.
    pub(super) async fn start<D: Database>(folder: &Folder, database: &str) -> Result<Self, Error> {
        let mut process = Command::new(env::current_exe()?)
            .args(["run", "--listen", "127.0.0.1:0"])
            .args(["--database", database, "--driver", D::DRIVER])
            .arg("--log")
            .arg(folder.shipments())
            // A build for tests has the switch, and is off without it.
            .env(SWITCH_VARIABLE, "on")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(folder.stderr()?)
            .kill_on_drop(true)
            .spawn()?;
        let stdout = process.stdout.take().ok_or("the service has no stdout")?;
        let mut lines = BufReader::new(stdout).lines();
        let said = timeout(PATIENCE, lines.next_line()).await??;
        let url = said
            .as_deref()
            .and_then(|line| line.strip_prefix("listening on "))
            .ok_or("the service did not start")?;
        let client = Client::new(url);
        let health = client.health().await?;
        if !health.outbox || !health.ready {
            return Err(
                format!("the service is not ready, or its outbox is off: {health:?}").into(),
            );
        }
        Ok(Self { process, client })
    }

    /// Ends the process at once, with SIGKILL: nothing of it gets to run any more.
    pub(super) async fn kill(mut self) -> Result<(), Error> {
        self.process.kill().await?;
        Ok(())
    }
}
