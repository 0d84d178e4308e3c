//! The crash tests: builds them, starts the servers, and runs them on each stand and broker.

mod combination;

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use self::combination::{BROKERS, Combination, STANDS};
use crate::Result;
use crate::command::Cargo;
use crate::group::Group;
use crate::interrupt::Interrupt;
use crate::stand::Stands;

/// The crash tests of one stand, and the process that they kill.
const BINARIES: [&str; 2] = ["crash", "node"];

/// What `cargo xtask crash-test` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many rounds run on each stand and broker.
    #[arg(long, default_value_t = 25)]
    rounds: u64,
    /// Only this database and driver (repeatable).
    #[arg(long, value_parser = STANDS)]
    stand: Vec<String>,
    /// Only this broker (repeatable).
    #[arg(long, value_parser = BROKERS)]
    broker: Vec<String>,
    /// Of the first round; each further one has the next number. Another one each time unless set.
    #[arg(long)]
    seed: Option<u64>,
    /// Install the package of a server that is not installed.
    #[arg(long)]
    install: bool,
}

/// Runs the rounds. `false` when one of them failed.
pub(crate) fn run(options: &Options, root: &Path) -> Result<bool> {
    let interrupt = Interrupt::watch()?;
    let binaries = build(root, &interrupt)?;
    let seed = match options.seed {
        Some(seed) => seed,
        None => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
    };
    let mut stands = Stands::new(options.install);
    let mut clean = true;
    for Combination { stand, broker } in combination::chosen(&options.stand, &options.broker) {
        println!(
            "{stand} on {broker}, {} rounds from seed {seed} on",
            options.rounds
        );
        let mut command = Command::new(binaries.path().join(BINARIES[0]));
        command.args(["--stand", stand, "--broker", broker]);
        command.args(["--rounds", &options.rounds.to_string()]);
        command.args(["--seed", &seed.to_string()]);
        for need in combination::needs(stand, broker) {
            command.envs(stands.environment(need)?);
        }
        clean &= Group::passes(&mut command, &interrupt)?;
    }
    Ok(clean)
}

/// Builds the binaries, and copies them: another build of the package may replace them meanwhile by
/// some without crash points.
fn build(root: &Path, interrupt: &Interrupt) -> Result<TempDir> {
    let cargo = Cargo {
        args: vec![
            "build",
            "-p",
            "broker-tests",
            "--bins",
            "-F",
            "crash-points",
        ],
        ..Cargo::default()
    };
    println!("{cargo}");
    if !Group::passes(&mut cargo.in_root(root), interrupt)? {
        return Err("the crash tests could not be built".into());
    }
    let built = env::current_exe()?;
    let folder = tempfile::Builder::new().prefix("outbox-crash-").tempdir()?;
    for name in BINARIES {
        fs::copy(built.with_file_name(name), folder.path().join(name))?;
    }
    Ok(folder)
}
