//! What the logs of a round say: whether a message was lost, and how many were handled twice.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use broker_tests::Result;

/// Messages, and what else is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Their publish returned `Ok`.
    pub(crate) published: usize,
    /// Their publish returned an error.
    pub(crate) failed: usize,
    /// A handler was done with them.
    pub(crate) processed: usize,
    /// As above, more than once.
    pub(crate) twice: usize,
    /// The numbers of those that were published and not processed.
    pub(crate) lost: Vec<u64>,
    /// Starts that failed because a server was away.
    pub(crate) failed_starts: usize,
    /// Starts that it took to close every record, beside one for each round.
    pub(crate) further_starts: usize,
}

impl Count {
    /// Of a log.
    pub(crate) fn of(log: &str) -> Result<Self> {
        let published = numbers(log, "published ")?;
        let processed = numbers(log, "processed ")?;
        let lost = published.keys();
        let lost = lost.filter(|number| !processed.contains_key(number));
        Ok(Self {
            published: published.len(),
            failed: numbers(log, "failed ")?.len(),
            processed: processed.len(),
            twice: processed.values().filter(|times| **times > 1).count(),
            lost: lost.copied().collect(),
            failed_starts: 0,
            further_starts: 0,
        })
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.published += other.published;
        self.failed += other.failed;
        self.processed += other.processed;
        self.twice += other.twice;
        self.lost.extend(other.lost);
        self.failed_starts += other.failed_starts;
        self.further_starts += other.further_starts;
    }
}

/// How often each number is in a line that begins so.
fn numbers(log: &str, beginning: &str) -> Result<BTreeMap<u64, usize>> {
    let mut numbers = BTreeMap::new();
    for number in log.lines().filter_map(|line| line.strip_prefix(beginning)) {
        *numbers.entry(number.parse()?).or_default() += 1;
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_message_that_was_never_processed_is_lost() {
        let log = "published 1\npublished 2\nfailed 3\npublished 4\n\
             processed 4\nprocessed 1\nprocessed 4\nprocessed 3\nprocessed 5\n";
        let expected = Count {
            published: 3,
            failed: 1,
            processed: 4,
            twice: 1,
            lost: vec![2],
            failed_starts: 0,
            further_starts: 0,
        };
        assert_eq!(Count::of(log).unwrap(), expected);
    }

    #[test]
    fn a_line_without_a_number_is_an_error() {
        assert!(Count::of("published \n").is_err());
    }
}
