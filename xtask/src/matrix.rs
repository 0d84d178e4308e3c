//! The test matrix: a constant table of stands, and how it is walked.

mod libtest;
mod progress;
mod report;
mod row;
mod run;

use std::path::Path;

use self::report::Report;
use self::row::{Row, Switch};
use crate::Result;

/// Every stand. A new driver is a new block of rows here: its tests, and its build alone.
const ROWS: &[Row] = &[
    Row::tests("core + macros", Switch::On, CORE),
    Row::tests("core", Switch::Off, CORE_SWITCH),
    Row::tests("sqlite/sqlx", Switch::On, &["-p", "outbox-sqlite"]),
    Row::tests("sqlite/sqlx", Switch::Off, SQLITE_SWITCH),
    Row::build("sqlite/sqlx alone", SQLITE_SQLX),
    Row::build("sqlite without a driver", SQLITE_BARE),
    Row::tests("examples/payments", Switch::On, &["-p", "payments"]),
    Row::tests("examples/payments", Switch::Off, &["-p", "payments"]),
    Row::tests("xtask", Switch::On, &["-p", "xtask"]),
];

const CORE: &[&str] = &["-p", "outbox-core", "-p", "outbox-macros", "--all-features"];
const CORE_SWITCH: &[&str] = &["-p", "outbox-core", "--all-features"];
const SQLITE_BARE: &[&str] = &["-p", "outbox-sqlite", "--no-default-features"];
// Without the feature there is no switch to be off.
const SQLITE_SWITCH: &[&str] = &["-p", "outbox-sqlite", "-F", "testing"];
const SQLITE_SQLX: &[&str] = &["-p", "outbox-sqlite", "--no-default-features", "-F", "sqlx"];

/// What `cargo xtask test-matrix` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Print the rows and their commands, and run nothing.
    #[arg(long)]
    list: bool,
    /// Only the rows whose name contains this, such as `sqlite` or `switch off` (repeatable).
    #[arg(long, value_name = "SUBSTRING")]
    only: Vec<String>,
    /// Run the rows after a failing one too.
    #[arg(long)]
    keep_going: bool,
}

/// Walks the table. `false` when a row failed.
pub(crate) fn run(options: &Options, root: &Path) -> Result<bool> {
    let rows: Vec<&Row> = ROWS
        .iter()
        .filter(|row| chosen(row, &options.only))
        .collect();
    if rows.is_empty() {
        return Err("no row has such a name; `cargo xtask test-matrix --list` prints them".into());
    }
    if options.list {
        for row in rows {
            println!("{row}\n    {}", row.command());
        }
        return Ok(true);
    }
    let mut report = Report::default();
    for (row, number) in rows.iter().zip(1..) {
        println!("[{number}/{}] {row}\n    {}", rows.len(), row.command());
        let outcome = run::run(row, root)?;
        outcome.print();
        report.add(row, outcome);
        if !report.is_clean() && !options.keep_going {
            for row in &rows[number..] {
                println!("not run, since a row failed: {row}");
            }
            break;
        }
    }
    print!("{report}");
    Ok(report.is_clean())
}

fn chosen(row: &Row, only: &[String]) -> bool {
    let name = row.to_string();
    only.is_empty() || only.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let names: BTreeSet<String> = ROWS.iter().map(Row::to_string).collect();
        assert_eq!(names.len(), ROWS.len());
    }

    #[test]
    fn no_row_runs_what_another_row_runs() {
        let commands: BTreeSet<String> = ROWS.iter().map(|row| row.command().to_string()).collect();
        assert_eq!(commands.len(), ROWS.len());
    }

    #[test]
    fn a_row_names_its_packages_and_leaves_the_switch_to_its_kind() {
        for row in ROWS {
            assert!(row.cargo.contains(&"-p"), "{row}");
            let switches = |(name, _): &(&str, &str)| *name == row::SWITCH;
            assert!(!row.env.iter().any(switches), "{row}");
        }
    }

    #[test]
    fn only_chooses_by_part_of_the_name_and_none_chooses_all() {
        let count = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            ROWS.iter().filter(|row| chosen(row, &only)).count()
        };
        assert_eq!(count(&[]), ROWS.len());
        assert_eq!(count(&["core + macros, switch on"]), 1);
        assert_eq!(count(&["core", "sqlite/sqlx, switch off"]), 2);
        assert_eq!(count(&["no such stand"]), 0);
    }
}
