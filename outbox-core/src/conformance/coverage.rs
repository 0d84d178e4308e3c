//! The line that names, at a start, what no handler of the app takes up.

use std::time::Duration;

use tokio::time::timeout;
use tracing::Level;

use super::logs::Logs;
use super::service::{Service, registry_on};
use super::sink::Sink;
use super::stand::Stand;

/// The first line of a level that contains every one of `words`, once it is logged.
pub(super) async fn until_logged(logs: &Logs, level: Level, words: &[&str]) -> String {
    let logged = timeout(Duration::from_secs(20), async {
        loop {
            if let Some(line) = logs.lines(level, words).first() {
                break line.clone();
            }
            tokio::task::yield_now().await;
        }
    });
    logged.await.expect("it was not logged")
}

/// A name whose open records no handler of the app takes up is named once, whatever their number;
/// the start does not wait for that.
pub async fn open_records_that_nobody_takes_up_are_named_once<S: Stand>() {
    let stand = S::open().await;
    for _ in 0..3 {
        stand.store("refunds", Some(b"1"), None).await;
    }
    let outbox = registry_on(&stand, 2).await;
    let outbox = outbox.republish_patience(Duration::from_millis(50));
    let logs = Logs::capture();
    let sink = Sink::accepting();
    outbox.republish()(sink.clone()).await.unwrap();
    assert_eq!(sink.sent().len(), 3);
    assert_eq!(logs.complaints(), [""; 0], "the service is up");
    let words = ["refunds", "left=3", "batch handler", "deliveries"];
    let line = until_logged(&logs, Level::WARN, &words).await;
    assert_eq!(logs.complaints(), [line]);
}

/// A name whose open records are taken up is not named.
pub async fn open_records_that_are_taken_up_are_not_named<S: Stand>() {
    let stand = S::open().await;
    for _ in 0..3 {
        stand.store("payments", Some(b"1"), None).await;
    }
    let logs = Logs::capture();
    let patience = Duration::from_mins(1);
    let service = Service::on(&stand).await;
    let service = service.registry(|outbox| outbox.republish_patience(patience));
    let mut service = service.start().await;
    for _ in 0..3 {
        service.next().await;
    }
    service.idle().await;
    service.stop().await;
    assert_eq!(logs.complaints(), [""; 0]);
}
