//! The test matrix: a constant table of stands, and how it is walked.

mod libtest;
mod progress;
mod report;
mod row;
mod run;

use std::path::Path;

use self::report::Report;
use self::row::{Row, Switch};
use self::run::Outcome;
use crate::Result;
use crate::interrupt::Interrupt;
use crate::stand::{Environment, NATS, POSTGRES, REDIS, Stands};

/// Every stand. A new driver is a new block of rows here: its tests, and its build alone and in
/// pairs.
const ROWS: &[Row] = &[
    Row::tests("core/memory", Switch::On, CORE),
    Row::tests("core/memory", Switch::Off, CORE_SWITCH),
    Row::tests("core/memory, without testing", Switch::On, CORE_BARE),
    Row::tests("sqlite/sqlx", Switch::On, SQLITE_SQLX),
    Row::tests("sqlite/sqlx", Switch::Off, SQLITE_SQLX),
    Row::tests("sqlite/rusqlite", Switch::On, SQLITE_RUSQLITE),
    Row::tests("sqlite/rusqlite", Switch::Off, SQLITE_RUSQLITE),
    Row::tests("postgres/sqlx", Switch::On, PG_SQLX).on(POSTGRES),
    Row::tests("postgres/sqlx", Switch::Off, PG_SQLX).on(POSTGRES),
    Row::tests("postgres/sqlx, restart", Switch::On, PG_SQLX).restarting(POSTGRES),
    Row::tests("postgres/tokio-postgres", Switch::On, PG_TOKIO).on(POSTGRES),
    Row::tests("postgres/tokio-postgres", Switch::Off, PG_TOKIO).on(POSTGRES),
    Row::tests("postgres/tokio-postgres, restart", Switch::On, PG_TOKIO).restarting(POSTGRES),
    Row::tests("core/memory, group commit off", Switch::On, CORE).without_group_commit(),
    Row::tests("sqlite/sqlx, group commit off", Switch::On, SQLITE_SQLX).without_group_commit(),
    Row::tests(
        "sqlite/rusqlite, group commit off",
        Switch::On,
        SQLITE_RUSQLITE,
    )
    .without_group_commit(),
    Row::tests("postgres/sqlx, group commit off", Switch::On, PG_SQLX)
        .on(POSTGRES)
        .without_group_commit(),
    Row::tests(
        "postgres/tokio-postgres, group commit off",
        Switch::On,
        PG_TOKIO,
    )
    .on(POSTGRES)
    .without_group_commit(),
    // Each driver alone, in pairs, with all others, and none.
    Row::build("sqlite/none", SQLITE, ""),
    Row::build("sqlite/sqlx", SQLITE, "sqlx"),
    Row::build("sqlite/rusqlite", SQLITE, "rusqlite"),
    Row::build("sqlite/sqlx + rusqlite", SQLITE, "sqlx,rusqlite"),
    Row::build("postgres/none", PG, ""),
    Row::build("postgres/sqlx", PG, "sqlx"),
    Row::build("postgres/tokio-postgres", PG, "tokio-postgres"),
    Row::build("postgres/sqlx + tokio-postgres", PG, "sqlx,tokio-postgres"),
    Row::build("sqlite/sqlx + postgres/sqlx", BOTH, SQLX_SQLX),
    Row::build("sqlite/sqlx + postgres/tokio-postgres", BOTH, SQLX_TOKIO),
    Row::build("sqlite/rusqlite + postgres/sqlx", BOTH, RUSQLITE_SQLX),
    Row::build(
        "sqlite/rusqlite + postgres/tokio-postgres",
        BOTH,
        RUSQLITE_TOKIO,
    ),
    Row::build("all drivers", BOTH, ALL_DRIVERS),
    Row::tests("brokers", Switch::On, &["-p", "broker-tests"])
        .on(POSTGRES)
        .on(REDIS)
        .on(NATS),
    Row::tests("examples/payments", Switch::On, &["-p", "payments"]).on(POSTGRES),
    Row::tests("examples/payments", Switch::Off, &["-p", "payments"]).on(POSTGRES),
    Row::tests("examples/redis-pubsub", Switch::On, &["-p", "redis-pubsub"])
        .on(POSTGRES)
        .on(REDIS),
    Row::tests("examples/nats", Switch::On, &["-p", "nats-core"]).on(NATS),
    Row::tests("bench", Switch::On, &["-p", "bench"]),
    Row::tests("xtask", Switch::On, &["-p", "xtask"]),
    // Last: it needs every server, which the rows before it have had installed.
    Row::run("crash tests", CRASH),
    Row::run("crash tests, group commit off", CRASH_SHORT).without_group_commit(),
];

const CORE: &[&str] = &["-p", "outbox-core", "-p", "outbox-macros", "--all-features"];
const CORE_SWITCH: &[&str] = &["-p", "outbox-core", "--all-features"];
// As a released service has it.
const CORE_BARE: &[&str] = &[
    "-p",
    "outbox-core",
    "--test",
    "conformance",
    "--test",
    "switch",
];

const SQLITE: &[&str] = &["-p", "outbox-sqlite"];
const SQLITE_SQLX: &[&str] = &["-p", "outbox-sqlite", BARE, "-F", "sqlx,testing"];
const SQLITE_RUSQLITE: &[&str] = &["-p", "outbox-sqlite", BARE, "-F", "rusqlite,testing"];

const PG: &[&str] = &["-p", "outbox-postgres"];
const PG_SQLX: &[&str] = &["-p", "outbox-postgres", BARE, "-F", "sqlx,testing"];
const PG_TOKIO: &[&str] = &[
    "-p",
    "outbox-postgres",
    BARE,
    "-F",
    "tokio-postgres,testing",
];

const BOTH: &[&str] = &["-p", "outbox-sqlite", "-p", "outbox-postgres"];
const SQLX_SQLX: &str = "outbox-sqlite/sqlx,outbox-postgres/sqlx";
const SQLX_TOKIO: &str = "outbox-sqlite/sqlx,outbox-postgres/tokio-postgres";
const RUSQLITE_SQLX: &str = "outbox-sqlite/rusqlite,outbox-postgres/sqlx";
const RUSQLITE_TOKIO: &str = "outbox-sqlite/rusqlite,outbox-postgres/tokio-postgres";
const ALL_DRIVERS: &str =
    "outbox-sqlite/sqlx,outbox-sqlite/rusqlite,outbox-postgres/sqlx,outbox-postgres/tokio-postgres";

const CRASH: &[&str] = &["-p", "xtask", "--", "crash-test", "--rounds", "25"];

const CRASH_SHORT: &[&str] = &["-p", "xtask", "--", "crash-test", "--rounds", "10"];

const BARE: &str = "--no-default-features";

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
    /// Install the package of a server that is neither in the environment nor installed.
    #[arg(long)]
    install: bool,
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
            println!("{row}\n    {}", row.command(&Environment::new()));
        }
        return Ok(true);
    }
    let interrupt = Interrupt::watch()?;
    let mut stands = Stands::new(options.install);
    let mut report = Report::default();
    for (row, number) in rows.iter().zip(1..) {
        println!("[{number}/{}] {row}", rows.len());
        let outcome = run_on_stand(row, root, &mut stands, &interrupt)?;
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

/// A row whose server cannot be had has failed: it was not skipped.
fn run_on_stand(
    row: &Row,
    root: &Path,
    stands: &mut Stands,
    interrupt: &Interrupt,
) -> Result<Outcome> {
    let mut environment = Environment::new();
    for need in row.needs() {
        match stands.environment(need) {
            Ok(told) => environment.extend(told),
            Err(why) => return Ok(Outcome::without_server(why)),
        }
    }
    let command = row.command(&environment);
    println!("    {command}");
    run::run(row, &command, root, interrupt)
}

fn chosen(row: &Row, only: &[String]) -> bool {
    let name = row.to_string();
    only.is_empty() || only.iter().any(|part| name.contains(part))
}

/// Whether a row builds this crate, and no other, with these features alone.
#[cfg(test)]
pub(crate) fn builds(name: &str, features: &str) -> bool {
    ROWS.iter().any(|row| row.builds(name, features))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn command(row: &Row) -> String {
        row.command(&Environment::new()).to_string()
    }

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let names: BTreeSet<String> = ROWS.iter().map(Row::to_string).collect();
        assert_eq!(names.len(), ROWS.len());
    }

    #[test]
    fn no_row_runs_what_another_row_runs() {
        let commands: BTreeSet<String> = ROWS.iter().map(command).collect();
        assert_eq!(commands.len(), ROWS.len());
    }

    #[test]
    fn a_row_names_its_packages() {
        for row in ROWS {
            assert!(row.cargo.contains(&"-p"), "{row}");
        }
    }

    #[test]
    fn the_drivers_are_built_alone_in_pairs_all_together_and_not_at_all() {
        let crates = [
            ("outbox-sqlite", ["sqlx", "rusqlite"]),
            ("outbox-postgres", ["sqlx", "tokio-postgres"]),
        ];
        let mut expected = BTreeSet::new();
        let mut all = Vec::new();
        for (name, drivers) in crates {
            expected.insert(format!("-p {name} {BARE}"));
            for features in [drivers[0], drivers[1], &drivers.join(",")] {
                expected.insert(format!("-p {name} {BARE} -F {features}"));
            }
            all.push(drivers.map(|driver| format!("{name}/{driver}")));
        }
        let mut together = vec![all.concat()];
        for sqlite in &all[0] {
            together.extend(
                all[1]
                    .iter()
                    .map(|other| vec![sqlite.clone(), other.clone()]),
            );
        }
        let packages = "-p outbox-sqlite -p outbox-postgres";
        for drivers in together {
            expected.insert(format!("{packages} {BARE} -F {}", drivers.join(",")));
        }
        let commands = ROWS.iter().map(command);
        let built: BTreeSet<String> = commands
            .filter_map(|command| Some(command.strip_prefix("cargo check ")?.to_owned()))
            .collect();
        assert_eq!(built, expected);
    }

    #[test]
    fn a_row_of_tests_has_the_servers_that_its_stand_is_about() {
        for row in ROWS {
            let expected: &[_] = match row.stand {
                _ if !row.has_tests() => &[],
                "brokers" => &[POSTGRES.url, REDIS.url, NATS.url],
                "examples/payments" => &[POSTGRES.url],
                "examples/redis-pubsub" => &[POSTGRES.url, REDIS.url],
                "examples/nats" => &[NATS.url],
                stand if stand.starts_with("postgres/") => &[POSTGRES.url],
                _ => &[],
            };
            let needs: Vec<_> = row.needs().map(|need| need.server.url).collect();
            assert_eq!(needs, expected, "{row}");
        }
    }

    #[test]
    fn only_chooses_by_part_of_the_name_and_none_chooses_all() {
        let count = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            ROWS.iter().filter(|row| chosen(row, &only)).count()
        };
        assert_eq!(count(&[]), ROWS.len());
        assert_eq!(count(&["core/memory, switch on"]), 1);
        assert_eq!(count(&["memory", "sqlite/sqlx, switch off"]), 5);
        assert_eq!(count(&["no such stand"]), 0);
    }
}
