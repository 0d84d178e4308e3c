//! Runs the bench: measures, prints the tables, and writes the report.

use std::env;

use bench::{Plan, Result, run};
use clap::Parser;

/// Measures what a message costs, side by side.
#[derive(Parser)]
struct Options {
    /// Only try that everything runs: few messages, one round, and a report in `target/bench`.
    #[arg(long)]
    quick: bool,
    /// Only measure the parts whose title contains this text, and write no report: "Postgres: whole
    /// path".
    #[arg(long)]
    only: Option<String>,
}

#[tokio::main]
async fn main() -> Result {
    let options = Options::parse();
    let mut plan = if options.quick {
        Plan::QUICK
    } else {
        Plan::FULL
    };
    plan.only = options.only;
    let postgres = env::var("OUTBOX_POSTGRES_URL");
    let postgres =
        postgres.map_err(|_| "OUTBOX_POSTGRES_URL is not set: run `cargo xtask bench`")?;
    run(&plan, &postgres).await
}
