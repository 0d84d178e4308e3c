//! One row's run: its command's output is read line by line, and its outcome is judged.

use std::io::{self, BufRead, BufReader, PipeReader};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::libtest::Tally;
use super::progress::Progress;
use super::row::Row;
use crate::Result;
use crate::command::Cargo;
use crate::group::Group;
use crate::interrupt::Interrupt;

#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) tally: Tally,
    pub(super) time: Duration,
    /// Why the row failed; empty when it passed.
    problems: Vec<String>,
    /// All that the command printed.
    output: Vec<String>,
}

impl Outcome {
    /// Of a row whose server could not be had.
    pub(super) fn without_server(why: &str) -> Self {
        Self {
            tally: Tally::default(),
            time: Duration::ZERO,
            problems: vec![why.to_owned()],
            output: Vec::new(),
        }
    }

    pub(super) fn is_failure(&self) -> bool {
        !self.problems.is_empty()
    }

    /// The whole output of a row that failed; of one that passed, that it did.
    pub(super) fn print(&self) {
        let seconds = self.time.as_secs_f64();
        if !self.is_failure() {
            println!(
                "    ok after {seconds:.1} s, {} tests passed",
                self.tally.passed
            );
            return;
        }
        for line in &self.output {
            println!("{line}");
        }
        println!(
            "    FAILED after {seconds:.1} s: {}",
            self.problems.join("; ")
        );
    }
}

/// Runs a row's command. An interrupt ends it, and is the error.
pub(super) fn run(row: &Row, cargo: &Cargo, root: &Path, interrupt: &Interrupt) -> Result<Outcome> {
    let (reader, writer) = io::pipe()?;
    let mut command = cargo.in_root(root);
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child =
        Group::spawn(&mut command).map_err(|error| format!("cargo could not be run: {error}"))?;
    // It holds the pipe's writing ends: the output would never end.
    drop(command);

    let mut progress = Progress::start(row.to_string());
    let lines = read_lines(reader);
    let (mut tally, mut output) = (Tally::default(), Vec::new());
    loop {
        interrupt.check()?;
        match lines.recv_timeout(Duration::from_millis(200)) {
            Ok(line) => {
                tally.read(&line);
                progress.line(&line);
                output.push(line);
            }
            // A process that outlives cargo may keep the pipe open.
            Err(RecvTimeoutError::Timeout) if child.has_ended()? => break,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        progress.tick();
    }
    let problems = judge(row, &tally, child.wait()?.success());
    Ok(Outcome {
        tally,
        time: progress.finish(),
        problems,
        output,
    })
}

/// Sends each line as it comes, so that a silent command can be told from one that ended.
fn read_lines(reader: PipeReader) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(reader)
            .split(b'\n')
            .map_while(io::Result::ok)
        {
            let line = String::from_utf8_lossy(&line);
            if send.send(line.trim_end().to_owned()).is_err() {
                break;
            }
        }
    });
    lines
}

/// What is wrong with a run, by what it printed and by how it ended.
fn judge(row: &Row, tally: &Tally, success: bool) -> Vec<String> {
    let mut problems = Vec::new();
    if tally.failed > 0 {
        problems.push(format!("{} tests failed", tally.failed));
    } else if !success {
        problems.push("cargo failed without a failed test".to_owned());
    } else if row.has_tests() && tally.passed == 0 {
        problems.push("no test ran".to_owned());
    }
    if tally.ignored > 0 {
        problems.push(format!("silent skip: {} tests are ignored", tally.ignored));
    }
    for skip in &tally.skips {
        problems.push(format!("silent skip: {skip}"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::row::Switch;
    use super::*;

    const TESTS: Row = Row::tests("s", Switch::On, &[]);
    const BUILD: Row = Row::build("s", &[], "");

    fn tally(passed: usize, failed: usize) -> Tally {
        Tally {
            passed,
            failed,
            ..Tally::default()
        }
    }

    #[test]
    fn a_row_whose_tests_all_ran_is_well() {
        assert_eq!(judge(&TESTS, &tally(3, 0), true), [""; 0]);
    }

    #[test]
    fn a_row_fails_by_its_tests_or_by_its_command() {
        assert_eq!(judge(&TESTS, &tally(3, 2), false), ["2 tests failed"]);
        assert_eq!(
            judge(&TESTS, &tally(3, 0), false),
            ["cargo failed without a failed test"]
        );
    }

    #[test]
    fn a_row_without_a_test_fails_unless_it_is_a_build() {
        assert_eq!(judge(&TESTS, &tally(0, 0), true), ["no test ran"]);
        assert_eq!(judge(&BUILD, &tally(0, 0), true), [""; 0]);
    }

    #[test]
    fn a_skip_fails_a_row_that_passed_otherwise() {
        let skips = vec!["SKIPPED: no server".to_owned()];
        let tally = Tally {
            ignored: 2,
            skips,
            ..tally(3, 0)
        };
        let expected = [
            "silent skip: 2 tests are ignored",
            "silent skip: SKIPPED: no server",
        ];
        assert_eq!(judge(&TESTS, &tally, true), expected);
    }
}
