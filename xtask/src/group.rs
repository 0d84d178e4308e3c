//! A process and all that it starts: in a group of its own, so that all of it can be ended together.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;
use crate::interrupt::Interrupt;

/// How long processes that were asked to end are waited for.
const GRACE: Duration = Duration::from_secs(5);

/// Dropped while it still runs, it is ended.
#[derive(Debug)]
pub(crate) struct Group(Child);

impl Group {
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        command.process_group(0).spawn().map(Self)
    }

    /// Runs a command to its end: whether it succeeds. An interrupt ends it, and is the error.
    pub(crate) fn passes(command: &mut Command, interrupt: &Interrupt) -> Result<bool> {
        let mut group = Self::spawn(command.stdin(Stdio::null()))?;
        while !group.has_ended()? {
            interrupt.check()?;
            thread::sleep(Duration::from_millis(50));
        }
        Ok(group.wait()?.success())
    }

    pub(crate) fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }

    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.wait()
    }

    /// By the shell's own `kill`: a small image may be without the program of that name.
    fn signal(&self, signal: &str) {
        let kill = format!("kill -{signal} -{}", self.0.id());
        let mut shell = Command::new("sh");
        // It fails where nothing is left, and then all is well.
        let _ = shell.args(["-c", &kill]).stderr(Stdio::null()).status();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        self.signal("TERM");
        let asked = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && asked.elapsed() < GRACE {
            thread::sleep(Duration::from_millis(20));
        }
        self.signal("KILL");
        // The group is gone, whatever this says.
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};

    use super::*;

    #[test]
    fn what_still_runs_is_ended_with_all_that_it_started() {
        let (reader, writer) = io::pipe().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 600 & echo started; wait"]);
        let group = Group::spawn(shell.stdout(writer)).unwrap();
        drop(shell);
        let mut output = BufReader::new(reader);
        output.read_line(&mut String::new()).unwrap();
        drop(group);
        // It ends when the last process that could write to it is gone.
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
    }

    #[test]
    fn what_has_ended_is_left_alone() {
        let mut group = Group::spawn(Command::new("sh").args(["-c", "exit 3"])).unwrap();
        assert_eq!(group.wait().unwrap().code(), Some(3));
        assert!(group.has_ended().unwrap());
    }
}
