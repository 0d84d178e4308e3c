//! The end of a walk: a table of the rows, and the totals alone on the last line.

use std::fmt;

use super::row::Row;
use super::run::Outcome;

#[derive(Debug, Default)]
pub(super) struct Report {
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    stand: &'static str,
    switch: &'static str,
    passed: usize,
    failed: usize,
    skipped: usize,
    seconds: f64,
}

impl Report {
    pub(super) fn add(&mut self, row: &Row, outcome: Outcome) {
        let failure = outcome.is_failure();
        let (tally, time) = (outcome.tally, outcome.time);
        self.lines.push(Line {
            stand: row.stand,
            switch: row.switch(),
            passed: tally.passed,
            // A row that fails without a failed test (no build, no test, a skip) counts as one.
            failed: tally.failed.max(usize::from(failure)),
            skipped: tally.skipped(),
            seconds: time.as_secs_f64(),
        });
    }

    pub(super) fn is_clean(&self) -> bool {
        self.lines.iter().all(|line| line.failed == 0)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self
            .lines
            .iter()
            .map(|line| line.stand.len())
            .max()
            .unwrap_or(0);
        let (mut passed, mut failed) = (0, 0);
        writeln!(
            f,
            "\n{:width$}  switch  passed  failed  skipped  seconds",
            "stand"
        )?;
        for line in &self.lines {
            passed += line.passed;
            failed += line.failed;
            writeln!(
                f,
                "{:width$}  {:6}  {:6}  {:6}  {:7}  {:7.1}",
                line.stand, line.switch, line.passed, line.failed, line.skipped, line.seconds,
            )?;
        }
        writeln!(f, "\n{passed} passed, {failed} failed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stand: &'static str, passed: usize, failed: usize) -> Line {
        Line {
            stand,
            switch: "on",
            passed,
            failed,
            skipped: 0,
            seconds: 1.25,
        }
    }

    #[test]
    fn the_last_line_holds_the_totals_alone() {
        let report = Report {
            lines: vec![line("sqlite/sqlx", 12, 0), line("b", 3, 1)],
        };
        assert_eq!(
            report.to_string(),
            "\nstand        switch  passed  failed  skipped  seconds\n\
             sqlite/sqlx  on          12       0        0      1.2\n\
             b            on           3       1        0      1.2\n\
             \n15 passed, 1 failed\n",
        );
        assert!(!report.is_clean());
    }

    #[test]
    fn a_report_without_a_failure_is_clean() {
        assert!(
            Report {
                lines: vec![line("a", 1, 0)]
            }
            .is_clean()
        );
    }
}
