//! The line that names, at a start, what no handler of the app takes up.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::timeout;
use tracing::Level;

use super::fan::{Fan, ack, json};
use super::logs::Logs;
use super::message::publish;
use super::service::{Service, registry_on};
use super::shares_transactions;
use super::sink::Sink;
use super::stand::{Stand, assert_closed};
use crate::Outbox;

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

/// A broker that drops what a receiver's buffer does not hold dropped some of what the start sent:
/// what is still open of that is sent once more, in the same start.
pub async fn what_a_broker_dropped_while_others_arrived_is_sent_once_more<S: Stand>() {
    let stand = S::open().await;
    for text in ["1", "2", "3", "4"] {
        stand.store("payments", Some(&json(text)), None).await;
    }
    let outbox = Outbox::<S::Backend>::deferred().register::<S::Record>("payments");
    let outbox = outbox.republish_patience(Duration::from_millis(200));
    let outbox = outbox.group_commit(shares_transactions());
    outbox.set_pool(stand.pool(4).await).unwrap();
    let logs = Logs::capture();
    let mut fan = Fan::start::<S::Record>(outbox, &[("ship", "payments")], ack).await;
    let bare = fan.bare.clone();
    let dropped = Mutex::new(vec![json("2"), json("4")]);
    let broker = Sink::new(move |delivery| {
        let mut dropped = dropped.lock().unwrap();
        let drops = dropped.iter().position(|of| *of == delivery.payload);
        drops.map(|at| dropped.remove(at));
        let bare = bare.clone();
        Box::pin(async move {
            if drops.is_some() {
                return Ok(());
            }
            let sent = publish(&bare, "payments", &delivery.payload, delivery.headers);
            sent.await.map_err(io::Error::other)
        })
    });
    fan.outbox.republish()(broker.clone()).await.unwrap();
    assert_eq!(fan.took(4).await, ["ship 1", "ship 2", "ship 3", "ship 4"]);
    fan.stop().await;
    assert_closed(&stand, 4).await;
    assert_eq!(broker.sent().len(), 6);
    assert_eq!(logs.complaints(), [""; 0]);
}
