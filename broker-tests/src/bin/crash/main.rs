//! The crash tests of one stand: rounds in which processes and servers are killed, and what each of
//! them leaves behind is counted.

mod count;
mod plan;
mod process;
mod round;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use broker_tests::{Broker, Database, Result, Stand};
use clap::{Parser, ValueEnum};
use tempfile::TempDir;

use self::count::Count;
use self::plan::Plan;
use self::round::Round;

/// The crash tests of one stand. `cargo xtask crash-test` builds and runs them.
#[derive(Parser)]
struct Cli {
    #[arg(long)]
    stand: Stand,
    #[arg(long)]
    broker: Broker,
    #[arg(long)]
    rounds: u64,
    /// Of the first round; each further one has the next number.
    #[arg(long)]
    seed: u64,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let began = Instant::now();
    let database = Database::create(cli.stand.kind()).await?;
    let (mut total, mut killed) = (Count::default(), BTreeMap::<_, u64>::new());
    let (mut rounds, mut failed) = (0, false);
    while rounds < cli.rounds && !failed {
        let seed = cli.seed + rounds;
        let plan = Plan::new(seed, cli.stand.kind());
        let folder = tempfile::Builder::new().prefix("outbox-crash-").tempdir()?;
        let round = Round::new(cli.stand, cli.broker, &database, &plan, folder.path());
        let failure = match round.run().await {
            Ok(count) => {
                let lost = format!("lost: {:?}", count.lost);
                let failure = (!count.lost.is_empty()).then_some(lost);
                total += count;
                failure
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(failure) = failure {
            cli.report(seed, &plan, &failure, folder);
            failed = true;
        }
        for event in &plan.events {
            *killed.entry(event.victim()).or_default() += 1;
        }
        rounds += 1;
    }
    println!(
        "| {} | {} | {rounds} | {} | {} | {} | {} | {} | {:.0} s |",
        name(&cli.stand),
        name(&cli.broker),
        total.published,
        total.failed,
        total.processed,
        total.twice,
        total.lost.len(),
        began.elapsed().as_secs_f64(),
    );
    let killed = killed
        .iter()
        .map(|(victim, times)| format!("{victim} {times}"));
    println!(
        "    killed: {}; starts that failed without a server: {}; further starts: {}",
        killed.collect::<Vec<_>>().join(", "),
        total.failed_starts,
        total.further_starts,
    );
    Ok(ExitCode::from(u8::from(failed)))
}

impl Cli {
    /// A round that failed leaves its logs.
    fn report(&self, seed: u64, plan: &Plan, failure: &str, folder: TempDir) {
        let (stand, broker) = (name(&self.stand), name(&self.broker));
        println!("FAILED: {stand} on {broker}, seed {seed}: {failure}");
        for event in &plan.events {
            println!("    {event}");
        }
        println!(
            "    then: the {} sends again what is open",
            plan.last.name()
        );
        println!("    logs: {}", folder.keep().display());
        println!(
            "    again: cargo xtask crash-test --stand {stand} --broker {broker} --rounds 1 --seed {seed}"
        );
    }
}

/// A value as it is named on a command line.
fn name(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}
