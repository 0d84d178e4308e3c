//! The command line: serve, or show what happens when the service is killed.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use payments::client::Error;
use payments::service::Settings;
use payments::{demo, http};
use tokio::net::TcpListener;
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
async fn main() -> Result<ExitCode, Error> {
    match Cli::parse().command {
        Command::Run {
            database,
            listen,
            log,
        } => {
            let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
            tracing_subscriber::fmt()
                .with_env_filter(filter)
                .with_writer(std::io::stderr)
                .init();
            let listener = TcpListener::bind(&listen).await?;
            http::serve(Settings { database, log }, listener).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Demo => {
            let lost = demo::run().await?;
            Ok(ExitCode::from(u8::from(lost > 0)))
        }
    }
}
