//! The bench: builds it, starts its server, and runs it.

use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::Result;
use crate::command::Cargo;
use crate::group::Group;
use crate::interrupt::Interrupt;
use crate::stand::{Need, POSTGRES, Stands};

/// What `cargo xtask bench` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only try that everything runs: few messages, and a report in `target/bench`.
    #[arg(long)]
    quick: bool,
    /// Install the package of a server that is not installed.
    #[arg(long)]
    install: bool,
}

/// Measures, and writes the report. `false` when it did not get through.
pub(crate) fn run(options: &Options, root: &Path) -> Result<bool> {
    let interrupt = Interrupt::watch()?;
    let mut build = Cargo::default();
    build
        .args
        .extend(["build", "--release", "-p", "bench", "--bins"]);
    if !passes(&build, root, &interrupt)? {
        return Ok(false);
    }
    let mut stands = Stands::new(options.install);
    let mut measure = Cargo::default();
    measure.args.extend(["run", "--release", "-p", "bench"]);
    if options.quick {
        measure.args.extend(["--", "--quick"]);
    }
    let need = Need {
        server: POSTGRES,
        restarts: false,
    };
    measure.set = stands.environment(need)?;
    if measure.set.is_empty() {
        measure.kept.push(POSTGRES.url);
    }
    measure
        .set
        .push(("RUSTSTREAM_SQLX_OUTBOX", "on".to_owned()));
    passes(&measure, root, &interrupt)
}

/// Whether the command succeeds. An interrupt ends it, and is the error.
fn passes(cargo: &Cargo, root: &Path, interrupt: &Interrupt) -> Result<bool> {
    println!("{cargo}");
    let mut group = Group::spawn(&mut cargo.in_root(root))?;
    while !group.has_ended()? {
        interrupt.check()?;
        thread::sleep(Duration::from_millis(50));
    }
    Ok(group.wait()?.success())
}
