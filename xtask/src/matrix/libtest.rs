//! What a test run says: libtest's result lines, and the tests that skipped.

/// The sums over all test binaries of one row.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) ignored: usize,
    /// The `SKIPPED:` lines.
    pub(super) skips: Vec<String>,
}

impl Tally {
    /// Takes in one line of the output.
    pub(super) fn read(&mut self, line: &str) {
        // `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; ..`
        if let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|r| r.split_once(". "))
        {
            for count in counts.split(';') {
                self.add(count.trim());
            }
        } else if let Some(skip) = skip(line) {
            self.skips.push(skip.to_owned());
        }
    }

    pub(super) fn skipped(&self) -> usize {
        self.ignored + self.skips.len()
    }

    fn add(&mut self, count: &str) {
        let Some((number, what)) = count.split_once(' ') else {
            return;
        };
        let sum = match what {
            "passed" => &mut self.passed,
            "failed" => &mut self.failed,
            "ignored" => &mut self.ignored,
            _ => return,
        };
        *sum += number.parse::<usize>().unwrap_or(0);
    }
}

/// The skip that a test announces, at a line's start or right behind `test name ... `. Elsewhere the
/// word is quoted: by a compiler's warning about the line that prints it, for example.
fn skip(line: &str) -> Option<&str> {
    let line = line.trim();
    let said = if line.starts_with("test ") {
        line.split_once(" ... ")?.1
    } else {
        line
    };
    said.starts_with("SKIPPED:").then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn the_results_of_all_binaries_add_up() {
        let tally = read(
            "running 3 tests\n\
             test a ... ok\n\
             test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.00s\n\
             test result: FAILED. 10 passed; 2 failed; 4 ignored; 0 measured; 0 filtered out; finished in 1.50s\n",
        );
        assert_eq!(
            tally,
            Tally {
                passed: 13,
                failed: 2,
                ignored: 4,
                skips: vec![]
            }
        );
        assert_eq!(tally.skipped(), 4);
    }

    #[test]
    fn other_lines_are_no_results() {
        let tally =
            read("test result: garbled\n5 passed; 5 failed\n  test result: ok. 1 passed;\n");
        assert_eq!(tally, Tally::default());
    }

    #[test]
    fn a_skip_is_found_wherever_a_test_prints_it() {
        let tally = read(
            "---- a stdout ----\n\
             SKIPPED: no server at that address\n\
             test b ... SKIPPED: no file system\n\
             test c ... ok\n",
        );
        assert_eq!(
            tally.skips,
            [
                "SKIPPED: no server at that address",
                "SKIPPED: no file system"
            ]
        );
    }

    #[test]
    fn a_quoted_skip_is_none() {
        assert_eq!(
            read("12 |     println!(\"SKIPPED: {why}\");\nnot SKIPPED: x\n")
                .skips
                .len(),
            0
        );
    }
}
