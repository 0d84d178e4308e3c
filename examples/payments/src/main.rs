//! The command line: serve, or show what happens when the service is killed.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use outbox_postgres::{Postgres, TokioPostgres};
use outbox_sqlite::{Rusqlite, Sqlite, outbox};
use payments::database::Database;
use payments::error::{Error, with_causes};
use payments::record::PaymentOutbox;
use payments::service::Settings;
use payments::{demo, http};
use tracing_subscriber::EnvFilter;

/// The database of a service that is told no other.
const DATABASE: &str = "sqlite://payments.db";

/// A payment service whose messages are not lost.
#[derive(Parser)]
struct Cli {
    /// The database, `sqlite://..` or `postgres://..`; an empty one for the demo. Without it `run`
    /// takes `sqlite://payments.db`, and the demo a file that goes away with it.
    #[arg(long, global = true)]
    database: Option<String>,
    /// The driver: sqlx, or the database's native one (rusqlite, tokio-postgres).
    #[arg(long, global = true, default_value = "sqlx", value_parser = ["sqlx", "native"])]
    driver: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve until Ctrl+C.
    Run {
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
    match Cli::parse().execute().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

impl Cli {
    async fn execute(self) -> Result<bool, Error> {
        let url = self.database.as_deref().unwrap_or(DATABASE);
        let scheme = url.split_once("://").map_or(url, |(scheme, _)| scheme);
        match (scheme, &*self.driver) {
            ("sqlite", "sqlx") => self.execute_on::<Sqlite>().await,
            ("sqlite", _) => self.execute_on::<Rusqlite>().await,
            ("postgres" | "postgresql", "sqlx") => self.execute_on::<Postgres>().await,
            ("postgres" | "postgresql", _) => self.execute_on::<TokioPostgres>().await,
            _ => Err(format!("`{url}` is neither sqlite://.. nor postgres://..").into()),
        }
    }

    async fn execute_on<D: Database>(self) -> Result<bool, Error>
    where
        PaymentOutbox: outbox::Publish<D>,
    {
        match self.command {
            Command::Run { listen, log } => {
                let database = self.database.unwrap_or_else(|| DATABASE.to_owned());
                run::<D>(Settings { database, log }, &listen).await
            }
            Command::Demo => Ok(demo::run::<D>(self.database).await? == 0),
        }
    }
}

async fn run<D: Database>(settings: Settings, listen: &str) -> Result<bool, Error>
where
    PaymentOutbox: outbox::Publish<D>,
{
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    http::serve::<D>(settings, listen).await?;
    Ok(true)
}
