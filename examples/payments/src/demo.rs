//! The demo: checkouts go to a service that is killed in the middle, and what became of each is
//! counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use outbox_sqlite::outbox::SWITCH_VARIABLE;
use sqlx::SqlitePool;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::client::{Client, Error};
use crate::handlers::{Checkout, Payment};
use crate::record::PaymentOutbox;

/// The orders of the customers.
const ORDERS: u64 = 50;

/// How many checkouts are under way at once.
const IN_FLIGHT: usize = 8;

/// The service is killed when it has accepted this many.
const BEFORE_THE_KILL: usize = 25;

/// How long the demo waits for anything before it says what did not come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the demo, and returns how many accepted payments were lost.
///
/// # Errors
///
/// The service could not be run, or did not answer.
pub async fn run() -> Result<usize, Error> {
    let folder = Folder(tempfile::tempdir()?);
    let counted = checkouts(&folder).await;
    if !matches!(counted, Ok(0)) {
        let log = fs::read_to_string(folder.stderr()).unwrap_or_default();
        eprintln!("what the service logged:\n{log}");
    }
    counted
}

async fn checkouts(folder: &Folder) -> Result<usize, Error> {
    let mut accepted = BTreeSet::new();

    let service = Instance::start(folder).await?;
    println!("started the service; its outbox is on");
    let mut posting = post((1..=ORDERS).collect(), &service.client);
    while accepted.len() < BEFORE_THE_KILL {
        let answer = posting.join_next().await.ok_or("too few were accepted")?;
        accepted.insert(answer?.1?);
    }
    eventually("the first shipment", async || {
        Ok(!folder.shipped()?.is_empty())
    })
    .await?;
    service.kill().await?;
    while let Some(answer) = posting.join_next().await {
        // What was under way has no answer, so its customer does not know.
        accepted.extend(answer?.1);
    }
    println!(
        "killed the service (SIGKILL) after {} of {ORDERS} checkouts, {} of them shipped",
        accepted.len(),
        folder.shipped()?.len(),
    );

    let database = SqlitePool::connect(&folder.database()).await?;
    println!("left behind: {} open records", open(&database).await?);
    let service = Instance::start(folder).await?;
    println!("started the service again");
    let unanswered: Vec<u64> = (1..=ORDERS).filter(|id| !accepted.contains(id)).collect();
    println!("posted the {} checkouts without an answer again", unanswered.len());
    let mut posting = post(unanswered, &service.client);
    while let Some(answer) = posting.join_next().await {
        accepted.insert(answer?.1?);
    }
    let closed = eventually("the last record to be closed", async || {
        Ok(open(&database).await? == 0)
    });
    if let Err(error) = closed.await {
        println!("{error}");
    }
    service.kill().await?;

    let recorded: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox")
        .fetch_one(&database)
        .await?;
    let shipped = folder.shipped()?;
    let twice = shipped.values().filter(|times| **times > 1).count();
    let lost = accepted.iter().filter(|id| !shipped.contains_key(id)).count();
    println!("accepted (202)  {:>3}", accepted.len());
    println!("recorded        {recorded:>3}");
    println!("shipped         {:>3}", shipped.len());
    println!("shipped twice   {twice:>3}");
    println!("lost            {lost:>3}");
    Ok(lost)
}
