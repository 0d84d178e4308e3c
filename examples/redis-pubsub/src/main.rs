//! The command line: receive, take a payment, or show what happens when the receiver is killed.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use redis_pubsub::handlers::Payment;
use redis_pubsub::service::{Settings, service};
use redis_pubsub::till::Till;
use redis_pubsub::{Error, demo, receiver};
use ruststream::prelude::*;
use tracing_subscriber::EnvFilter;

/// A shop on Redis Pub/Sub whose messages are not lost.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    settings: Settings,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Ship what is paid, until Ctrl+C.
    Run,
    /// Take the payment of an order, whether a receiver runs or not.
    Checkout {
        /// The order's id. What every tenth order is for is sold out.
        order: i64,
        /// What is paid, in cents.
        #[arg(default_value = "1250")]
        amount: i64,
    },
    /// Take 100 payments, kill the receiver in the middle of them, and count.
    Demo,
}

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().execute().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

impl Cli {
    async fn execute(self) -> Result<(), Error> {
        match self.command {
            Command::Run => run(self.settings).await,
            Command::Checkout { order, amount } => {
                let till = Till::open(&self.settings).await?;
                till.take(Payment { order, amount }).await?;
                println!("order {order} is paid");
                till.close().await
            }
            Command::Demo => demo::run(self.settings).await,
        }
    }
}

async fn run(settings: Settings) -> Result<(), Error> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let running = service(settings).start().await?;
    println!("{}", receiver::READY);
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = running.stopping() => {}
    }
    Ok(running.shutdown().await?)
}
