//! A named test for each case, on each driver and each broker.

use std::env;

use outbox_core::{SWITCH_VARIABLE, is_on};

use crate::database::POSTGRES_URL;
use crate::{Broker, Driver, Kind, Result};

/// Runs a case where its servers are and the outbox is on.
///
/// # Errors
///
/// The case's own.
///
/// # Panics
///
/// The case cannot run, and the environment says that it must.
pub async fn run<D: Driver>(broker: Broker, case: impl Future<Output = Result>) -> Result {
    let missing = match missing::<D>(broker) {
        None => return case.await,
        Some(missing) => format!("SKIPPED: {missing}"),
    };
    assert!(env::var_os("OUTBOX_DENY_SKIPS").is_none(), "{missing}");
    println!("{missing}");
    Ok(())
}

fn missing<D: Driver>(broker: Broker) -> Option<String> {
    if !is_on() {
        return Some(format!("set {SWITCH_VARIABLE}=on to run this test"));
    }
    let database = (D::KIND == Kind::Postgres).then_some(POSTGRES_URL);
    let mut variables = [broker.variable()].into_iter().chain(database);
    let missing = variables.find(|variable| env::var_os(variable).is_none())?;
    Some(format!("set {missing} to the URL of a server"))
}

/// Makes each `async fn case<D: Driver>(broker: Broker) -> broker_tests::Result` of the calling
/// module a test on each driver and each broker.
#[macro_export]
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        $crate::cases! { @broker redis, Redis; $($case)* }
        $crate::cases! { @broker nats, Nats; $($case)* }
    };
    (@broker $module:ident, $broker:ident; $($case:ident)*) => {
        mod $module {
            $crate::cases! { @driver sqlite_sqlx, Sqlite, $broker; $($case)* }
            $crate::cases! { @driver sqlite_rusqlite, Rusqlite, $broker; $($case)* }
            $crate::cases! { @driver postgres_sqlx, Postgres, $broker; $($case)* }
            $crate::cases! { @driver postgres_tokio, TokioPostgres, $broker; $($case)* }
        }
    };
    (@driver $module:ident, $driver:ident, $broker:ident; $($case:ident)*) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() -> $crate::Result {
                    use $crate::{Broker, drivers::$driver, run};
                    let case = super::super::$case::<$driver>(Broker::$broker);
                    run::<$driver>(Broker::$broker, case).await
                }
            )*
        }
    };
}
