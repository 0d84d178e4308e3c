//! The bench: builds it, starts its server, and runs it.

use std::env;
use std::path::Path;
use std::process::Command;

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
    /// Only measure the parts whose title contains this text, and write no report: "Postgres: whole
    /// path".
    #[arg(long)]
    only: Option<String>,
    /// Install the package of a server that is not installed.
    #[arg(long)]
    install: bool,
}

/// Measures, and writes the report. `false` when it did not get through.
pub(crate) fn run(options: &Options, root: &Path) -> Result<bool> {
    let interrupt = Interrupt::watch()?;
    let build = Cargo {
        args: vec!["build", "--release", "-p", "bench", "--bins"],
        ..Cargo::default()
    };
    println!("{build}");
    if !Group::passes(&mut build.in_root(root), &interrupt)? {
        return Err("the bench could not be built".into());
    }
    // This program is in the folder of another profile.
    let profiles = env::current_exe()?;
    let profiles = profiles.ancestors().nth(2).ok_or("no target folder")?;
    let mut measure = Command::new(profiles.join("release/bench"));
    measure
        .current_dir(root)
        .args(options.quick.then_some("--quick"));
    if let Some(only) = &options.only {
        measure.arg("--only").arg(only);
    }
    measure.env("RUSTSTREAM_SQLX_OUTBOX", "on");
    let mut stands = Stands::new(options.install);
    let need = Need {
        server: POSTGRES,
        restarts: false,
    };
    measure.envs(stands.environment(need)?);
    Group::passes(&mut measure, &interrupt)
}
