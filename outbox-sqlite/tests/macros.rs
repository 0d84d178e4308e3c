//! The derive and `outbox!`, on each driver and on the one that is taken by default.
#![cfg(any(feature = "rusqlite", feature = "sqlx"))]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

mod stand;

use outbox_core::conformance::{Stand, StandRecord, on, publish};
use outbox_sqlite::outbox::{Backend, DefaultDriver, Outbox, Statements};
use outbox_sqlite::{Outbox, outbox};
use ruststream::HeaderMap;
use ruststream::memory::MemoryBroker;
use stand::{Driver, SqliteStand};

#[derive(Outbox)]
#[outbox(table = "outbox", publish)]
#[allow(dead_code, reason = "a row is never read whole")]
struct PaymentOutbox {
    #[field(id)]
    id: i64,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
    #[field(headers)]
    headers: Option<String>,
    #[field(processed_at)]
    processed_at: Option<String>,
}

/// The macro makes a registry of a driver, which records.
macro_rules! records {
    ($driver:ty, $registry:expr) => {
        on(async {
            let registry: Outbox<$driver, _> = $registry;
            let stand = open::<$driver>().await;
            registry.set_pool(stand.pool(1).await).unwrap();
            let publisher = registry.wrap(MemoryBroker::new().publisher());
            let recorded = publish(&publisher, "payments", b"1", HeaderMap::new()).await;
            recorded.unwrap();
            assert_eq!(stand.rows().await[0].name, "payments");
        })
        .await;
    };
}

async fn open<D: Driver + Statements<StandRecord>>() -> SqliteStand<D> {
    SqliteStand::open().await
}

#[tokio::test]
async fn without_a_driver_the_macro_takes_the_default_one() {
    let sqlx = cfg!(feature = "sqlx");
    assert_eq!(
        DefaultDriver::NAME,
        if sqlx { "Sqlite" } else { "Rusqlite" }
    );
    records!(DefaultDriver, outbox! { "payments" => PaymentOutbox });
}

#[cfg(feature = "sqlx")]
#[tokio::test]
async fn the_macro_takes_the_driver_sqlite() {
    use outbox_sqlite::Sqlite;
    records!(
        Sqlite,
        outbox! { driver: Sqlite, "payments" => PaymentOutbox }
    );
}

#[cfg(feature = "rusqlite")]
#[tokio::test]
async fn the_macro_takes_the_driver_rusqlite() {
    use outbox_sqlite::Rusqlite;
    records!(
        Rusqlite,
        outbox! { driver: Rusqlite, "payments" => PaymentOutbox }
    );
}
