//! The command line: serve, check out, or show what happens when the service is killed.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use nats_core::customer::Customer;
use nats_core::handlers::Checkout;
use nats_core::service::{Settings, service};
use nats_core::{Error, demo, instance};
use ruststream::prelude::*;
use tracing_subscriber::EnvFilter;

/// A shop on NATS core subjects whose messages are not lost.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    settings: Settings,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Take payments and ship, until Ctrl+C.
    Run,
    /// Check out, as a customer of a running service.
    Checkout {
        /// The order's id.
        order: i64,
        /// What the order costs, in cents.
        #[arg(default_value = "1250")]
        amount: i64,
    },
    /// Check out 100 times, kill the service in the middle of it, and count.
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
                let customer = Customer::connect(&self.settings).await?;
                let receipt = customer.checkout(Checkout { order, amount }).await?;
                println!("order {} is paid", receipt.order);
                customer.close().await
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
    println!("{}", instance::READY);
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = running.stopping() => {}
    }
    Ok(running.shutdown().await?)
}
