//! A process of a round: started, killed, waited for, and ended in order, each within a bound.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use broker_tests::{Error, Result};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// The longest that anything may take. What takes longer hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The signal of `abort`.
const SIGABRT: i32 = 6;

/// A process. It dies with the value.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    name: &'static str,
    stderr: PathBuf,
    is_started: bool,
}

impl Process {
    pub(crate) fn start(mut command: Command, name: &'static str, stderr: PathBuf) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let command = command.stderr(File::create(&stderr)?).kill_on_drop(true);
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or("the process has no stdout")?;
        Ok(Self {
            child,
            stdout: BufReader::new(stdout).lines(),
            name,
            stderr,
            is_started: false,
        })
    }

    /// Waits until the process has started, and returns whether it has: it may have ended in its
    /// start.
    pub(crate) async fn has_started(&mut self) -> Result<bool> {
        if !self.is_started {
            let line = timeout(PATIENCE, self.stdout.next_line()).await;
            let line = line.map_err(|_| self.failure("hangs in its start"))??;
            self.is_started = line.is_some();
        }
        Ok(self.is_started)
    }

    /// Kills the process, which must be there.
    pub(crate) async fn kill(&mut self) -> Result {
        if let Some(status) = self.child.try_wait()? {
            return Err(self.failure(&format!("ended by itself, {status}")));
        }
        Ok(self.child.kill().await?)
    }

    /// Waits until the process ends at its crash point.
    pub(crate) async fn crashed(&mut self) -> Result {
        let status = self.ended("did not come to its crash point").await?;
        if status.signal() == Some(SIGABRT) {
            return Ok(());
        }
        Err(self.failure(&format!("ended, but not at its crash point, {status}")))
    }

    /// Asks the process to end, which it must do in order.
    pub(crate) async fn end(&mut self) -> Result {
        self.has_started().await?;
        drop(self.child.stdin.take());
        let status = self.ended("hangs in its end").await?;
        if !status.success() {
            return Err(self.failure(&format!("did not end in order, {status}")));
        }
        if fs::read_to_string(&self.stderr)?.contains("panicked at") {
            return Err(self.failure("panicked"));
        }
        Ok(())
    }

    async fn ended(&mut self, otherwise: &str) -> Result<ExitStatus> {
        // Not `wait`: that one would close the standard input.
        let ended = timeout(PATIENCE, async {
            while self.stdout.next_line().await?.is_some() {}
            self.child.wait().await
        });
        let ended = ended.await.map_err(|_| self.failure(otherwise))?;
        Ok(ended?)
    }

    fn failure(&self, what: &str) -> Error {
        let said = fs::read_to_string(&self.stderr).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(10)..].join("\n");
        format!("the {} {what}; the last that it said:\n{last}", self.name).into()
    }
}
