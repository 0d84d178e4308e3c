//! The command line: serve, or show what happens when the service is killed.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use payments::error::{Error, with_causes};
use payments::service::Settings;
use payments::{demo, http};
use tracing_subscriber::EnvFilter;

/// A payment service whose messages are not lost.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve until Ctrl+C.
    Run {
        /// The SQLite database of the service.
        #[arg(long, default_value = "sqlite://payments.db")]
        database: String,
        /// The address of the HTTP endpoint; port 0 takes a free one.
        #[arg(long, default_value = "127.0.0.1:8080")]
        listen: String,
        /// The file that the shipped orders are appended to.
        #[arg(long, default_value = "shipped.log")]
        log: PathBuf,
    },
    /// Run the service as a child process, kill it in the middle of 50 checkouts, and count.
    Demo,
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run {
            database,
            listen,
            log,
        } => run(Settings { database, log }, &listen).await,
        Command::Demo => demo::run().await.map(|lost| lost == 0),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run(settings: Settings, listen: &str) -> Result<bool, Error> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    http::serve(settings, listen).await?;
    Ok(true)
}
