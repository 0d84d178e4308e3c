//! The suite that every backend passes: a [`Stand`] for a database, and one named test per case.
//!
//! A backend writes a `Stand`, then `outbox_core::conformance!(MyStand);` in an integration test.
//! The test crate needs `tokio` with `macros` and `rt`.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "these are tests: a panic is their report"
)]

mod fan;
mod list;
mod logs;
mod memory;
mod message;
mod service;
mod sink;
mod stand;
mod watch;

pub mod attempts;
pub mod batches;
pub mod check;
pub mod connections;
pub mod consumers;
pub mod coverage;
pub mod custom;
pub mod deliver;
pub mod deliveries;
pub mod encounters;
pub mod groups;
pub mod ids;
pub mod outage;
pub mod pace;
pub mod publish;
pub mod report;
pub mod resend;
pub mod retries;
pub mod settle;
pub mod setup;
pub mod shop;
pub mod start;
pub mod storm;
pub mod switch;
pub mod transaction;
pub mod unsent;
pub mod unsettled;

pub use logs::Logs;
pub use memory::{Memory, MemoryAcquired, MemoryConnection, MemoryError, MemoryPool};
pub use message::{Delivery, Settle, headers, id_header, publish};
pub use service::{Builder, Outlet, Registry, Service, registry, registry_on};
pub use sink::Sink;
pub use stand::{MemoryStand, Row, Stand, StandRecord, assert_closed, deletes};

use crate::{SWITCH_VARIABLE, is_on};

/// Runs a case that needs the outbox to be on.
pub async fn on(case: impl Future<Output = ()>) {
    if is_on() {
        case.await;
    } else {
        skip(&format!(
            "the outbox is off in this build: set {SWITCH_VARIABLE}=on"
        ));
    }
}

/// Runs a case that needs the outbox to be off.
pub async fn off(case: impl Future<Output = ()>) {
    if is_on() {
        skip(&format!(
            "the outbox is on: turn on the feature `testing` and unset {SWITCH_VARIABLE}"
        ));
    } else {
        case.await;
    }
}

/// Whether the suite runs with group commit: unless the environment says `OUTBOX_GROUP_COMMIT=off`.
#[must_use]
pub fn shares_transactions() -> bool {
    std::env::var_os("OUTBOX_GROUP_COMMIT").is_none_or(|value| value != "off")
}

/// Says loudly that a test did not run, or fails where skips are denied.
///
/// # Panics
///
/// If the environment has `OUTBOX_DENY_SKIPS`.
pub fn skip(why: &str) {
    assert!(
        std::env::var_os("OUTBOX_DENY_SKIPS").is_none(),
        "a test was skipped: {why}"
    );
    println!("SKIPPED: {why}");
}
