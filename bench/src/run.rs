//! The run: the sides take turns, round by round, and the report is written at the end.

mod backlog;
mod messages;
mod processed;

use std::env;
use std::process::Command;
use std::sync::Arc;

use outbox_sqlite::outbox::is_on;

use crate::allocations::Allocations;
use crate::contender::{Measured, open};
use crate::database::{Database, Kind};
use crate::figures::Figures;
use crate::plan::Plan;
use crate::report::Report;
use crate::scenario::PATH_FULL;
use crate::side::{POSTGRES, SQLITE, Side};
use crate::{Result, machine};

/// A side with its pool, on a database of its own.
struct Contestant {
    side: Side,
    contender: Box<dyn Measured>,
    database: Arc<Database>,
}

/// Measures everything and writes the report.
///
/// # Errors
///
/// Something did not do its work: a figure of it would mean nothing.
pub async fn run(plan: &Plan, postgres: &str) -> Result {
    // The peer is built without a switch of its own: it is on.
    if !is_on() {
        return Err("the outbox is off: set RUSTSTREAM_SQLX_OUTBOX=on".into());
    }
    let mut figures = Figures::default();
    // No pool is closed before the end: see `Database`.
    let mut all = Vec::new();
    for kind in Kind::ALL {
        let mut contestants = Vec::new();
        for side in sides(kind) {
            contestants.push(contestant(*side, kind, postgres, 0).await?);
        }
        let bare = contestant(Side::Bare, Kind::Wal, postgres, 0).await?;
        figures.add(messages::measure(plan, kind, &contestants, &bare).await?);
        if kind != Kind::Rollback {
            figures.add(backlog::measure(plan, kind, &contestants).await?);
            if plan.has(kind, PATH_FULL) {
                let mut full = Vec::new();
                for side in sides(kind).iter().filter(|side| side.is_outbox()) {
                    full.push(contestant(*side, kind, postgres, plan.processed).await?);
                }
                figures.add(processed::measure(plan, kind, &contestants, &full).await?);
                all.append(&mut full);
            }
        }
        contestants.push(bare);
        all.append(&mut contestants);
    }
    let whole = plan.only.is_none();
    let allocations = if whole { allocations()? } else { Vec::new() };
    let report = Report {
        plan,
        figures,
        allocations,
        machine: machine::describe(),
    };
    report.print();
    if whole { report.write() } else { Ok(()) }
}

fn sides(kind: Kind) -> &'static [Side] {
    match kind {
        Kind::Wal | Kind::Rollback => SQLITE,
        Kind::Postgres => POSTGRES,
    }
}

async fn contestant(side: Side, kind: Kind, server: &str, processed: usize) -> Result<Contestant> {
    let database = Arc::new(Database::create(kind, server, processed).await?);
    let contender = open(side, kind, database.url())?;
    Ok(Contestant {
        side,
        contender,
        database,
    })
}

/// A process of its own: what counts allocations is in every one of them.
fn allocations() -> Result<Vec<Allocations>> {
    let binary = env::current_exe()?.with_file_name("allocations");
    let counted = Command::new(binary).output()?;
    if !counted.status.success() {
        let said = String::from_utf8_lossy(&counted.stderr);
        return Err(format!("the allocations were not counted: {said}").into());
    }
    Ok(serde_json::from_slice(&counted.stdout)?)
}
