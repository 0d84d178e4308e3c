//! The commands of the workspace, `cargo xtask <command>`: reads the command line and dispatches.

mod api;
mod bench;
mod ci;
mod command;
mod crash;
mod group;
mod interrupt;
mod matrix;
mod stand;
mod tidy;

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

/// What every command of the workspace returns: a failure here means that it could not do its work.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The commands of this workspace.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
enum Task {
    /// Run all that has to pass before a change is merged, step by step.
    Ci(ci::Options),
    /// Run every test on every stand: database, driver, test switch.
    TestMatrix(matrix::Options),
    /// Kill processes and servers under load, round by round, and count what was lost.
    CrashTest(crash::Options),
    /// Measure what a message costs, by hand, through the closest peer and here, side by side.
    Bench(bench::Options),
    /// Check the rules that a program can check, and print all violations at once.
    Tidy,
    /// Compare the public API of each library with its listing in `public-api.txt`.
    PublicApi(api::Options),
}

fn main() -> ExitCode {
    let task = Task::parse();
    let done = workspace_root().and_then(|root| match task {
        Task::Ci(options) => ci::run(&options, &root),
        Task::TestMatrix(options) => matrix::run(&options, &root),
        Task::CrashTest(options) => crash::run(&options, &root),
        Task::Bench(options) => bench::run(&options, &root),
        Task::Tidy => tidy::run(&root),
        Task::PublicApi(options) => api::run(&options, &root),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Where the workspace is now. Asked at run time: a path that was compiled in belongs to one machine.
fn workspace_root() -> Result<PathBuf> {
    let member = env::var_os("CARGO_MANIFEST_DIR")
        .ok_or("CARGO_MANIFEST_DIR is not set; run this as `cargo xtask`")?;
    let root = Path::new(&member).parent();
    Ok(root.ok_or("CARGO_MANIFEST_DIR has no parent")?.to_owned())
}
