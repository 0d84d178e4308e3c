//! Declared consumers: each has a mark of its own, and the last of them closes the record.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ruststream::HeaderMap;
use ruststream::runtime::HandlerOutcome;
use tracing::Level;

use super::coverage::until_logged;
use super::fan::{Fan, ack, audit, mail, pack, ship};
use super::logs::Logs;
use super::shares_transactions;
use super::sink::Sink;
use super::stand::{Stand, assert_closed};
use crate::Outbox;
use crate::registry::Node;

const LATER: Duration = Duration::from_hours(1);

type Registry<S> = Outbox<<S as Stand>::Backend, Node<<S as Stand>::Record>>;

/// The name `payments`, on a pool of four connections. The consumers are the case's.
async fn payments<S: Stand>(
    stand: &S,
    consumers: impl FnOnce(Registry<S>) -> Registry<S>,
) -> Registry<S> {
    let outbox = Outbox::deferred().register::<S::Record>("payments");
    let outbox = consumers(outbox.group_commit(shares_transactions()));
    outbox.set_pool(stand.pool(4).await).unwrap();
    outbox
}

const BOTH: [(&str, &str); 2] = [("ship", "payments"), ("mail", "payments")];

/// A record stays open until each of its consumers has acknowledged or dropped; what one of them
/// has marked is not given to it again.
pub async fn a_record_closes_with_the_last_of_its_consumers<S: Stand>() {
    let stand = S::open().await;
    let declare = |outbox: Registry<S>| outbox.consumer::<ship>(0).consumer::<mail>(30);
    let outbox = payments(&stand, declare).await;
    let mut first = Fan::start::<S::Record>(outbox, &BOTH, |took| {
        Box::pin(async move {
            match took.as_str() {
                "ship 1" => HandlerOutcome::ack(),
                "ship 2" => HandlerOutcome::drop(),
                _ => HandlerOutcome::retry_after(LATER),
            }
        })
    })
    .await;
    first.publish("payments", "1").await;
    first.publish("payments", "2").await;
    assert_eq!(
        first.took(4).await,
        ["mail 1", "mail 2", "ship 1", "ship 2"]
    );
    first.stop().await;
    let open = stand.rows().await;
    assert!(open.iter().all(|row| row.open), "{open:?}");

    let outbox = payments(&stand, declare).await;
    let mut second = Fan::start::<S::Record>(outbox, &BOTH, ack).await;
    let bare = second.bare.clone();
    second.outbox.republish()(bare).await.unwrap();
    assert_eq!(second.took(2).await, ["mail 1", "mail 2"]);
    assert_eq!(second.stop().await, [""; 0], "the other one had them");
    assert_closed(&stand, 2).await;
}

/// Consumers that mark one record at once lose no mark.
pub async fn consumers_that_mark_at_once_lose_no_mark<S: Stand>() {
    const MESSAGES: usize = 40;
    let stand = S::open().await;
    let declare = |outbox: Registry<S>| outbox.consumer::<ship>(3).consumer::<mail>(4);
    let outbox = payments(&stand, declare).await;
    let logs = Logs::capture();
    let mut fan = Fan::start::<S::Record>(outbox, &BOTH, ack).await;
    for text in 0..MESSAGES {
        fan.publish("payments", &text.to_string()).await;
    }
    fan.took(2 * MESSAGES).await;
    fan.stop().await;
    assert_closed(&stand, MESSAGES).await;
    assert_eq!(logs.complaints(), [""; 0]);
}

/// A record that waits for a consumer which was removed closes with its next delivery, which no
/// handler gets.
pub async fn a_removed_consumer_keeps_no_record_open<S: Stand>() {
    let stand = S::open().await;
    let declare = |outbox: Registry<S>| outbox.consumer::<ship>(0).consumer::<mail>(1);
    let outbox = payments(&stand, |outbox| declare(outbox).consumer::<audit>(2)).await;
    let mut first = Fan::start::<S::Record>(outbox, &BOTH, ack).await;
    first.publish("payments", "1").await;
    first.took(2).await;
    first.stop().await;
    assert!(stand.rows().await[0].open, "it waits for the third");

    let outbox = payments(&stand, declare).await;
    let mut second = Fan::start::<S::Record>(outbox, &BOTH, ack).await;
    let bare = second.bare.clone();
    second.outbox.republish()(bare).await.unwrap();
    second
        .send_with("payments", "after", HeaderMap::new())
        .await;
    assert_eq!(second.took(2).await, ["mail after", "ship after"]);
    assert_eq!(second.stop().await, [""; 0]);
    assert_closed(&stand, 1).await;
}

/// A consumer that is declared later gets what is still under way, although the record is closed.
pub async fn a_consumer_that_is_declared_later_gets_what_is_under_way<S: Stand>() {
    let stand = S::open().await;
    let outbox = payments(&stand, |outbox| outbox.consumer::<ship>(0)).await;
    let mut first = Fan::start::<S::Record>(outbox, &BOTH[..1], ack).await;
    first.publish("payments", "1").await;
    first.took(1).await;
    first.stop().await;
    assert_closed(&stand, 1).await;

    let outbox = payments(&stand, |outbox| {
        outbox.consumer::<ship>(0).consumer::<mail>(1)
    });
    let mut second = Fan::start::<S::Record>(outbox.await, &BOTH, ack).await;
    let id = stand.rows().await[0].id.clone();
    second.send("payments", "1", &id).await;
    assert_eq!(second.took(1).await, ["mail 1"]);
    assert_eq!(second.stop().await, [""; 0]);
}

/// A handler that is not among the declared consumers gets every message and marks nothing; one
/// warning names it.
pub async fn an_undeclared_handler_marks_nothing<S: Stand>() {
    let stand = S::open().await;
    let outbox = payments(&stand, |outbox| outbox.consumer::<ship>(0)).await;
    let logs = Logs::capture();
    let mut first = Fan::start::<S::Record>(outbox, &[("audit", "payments")], ack).await;
    first.publish("payments", "1").await;
    first.publish("payments", "2").await;
    assert_eq!(first.took(2).await, ["audit 1", "audit 2"]);
    first.stop().await;
    let open = stand.rows().await;
    assert!(open.iter().all(|row| row.open), "{open:?}");
    let warned = logs.lines(Level::WARN, &["payments", "audit", "declared consumers"]);
    assert_eq!(warned.len(), 1, "{warned:?}");

    let outbox = payments(&stand, |outbox| outbox.consumer::<ship>(0)).await;
    let mounts = [("ship", "payments"), ("audit", "payments")];
    let mut second = Fan::start::<S::Record>(outbox, &mounts, ack).await;
    let bare = second.bare.clone();
    second.outbox.republish()(bare).await.unwrap();
    let all = ["audit 1", "audit 2", "ship 1", "ship 2"];
    assert_eq!(second.took(4).await, all);
    second.stop().await;
    assert_closed(&stand, 2).await;
}

/// A batch handler is a consumer like any other.
pub async fn a_batch_handler_is_a_consumer<S: Stand>() {
    let stand = S::open().await;
    let declare = |outbox: Registry<S>| outbox.consumer::<ship>(0).consumer::<pack>(1);
    let outbox = payments(&stand, declare).await;
    let mounts = [("ship", "payments"), ("pack", "payments")];
    let mut first = Fan::start::<S::Record>(outbox, &mounts, |took| {
        Box::pin(async move {
            match took.as_str() {
                "pack 1" | "ship 2" => HandlerOutcome::retry_after(LATER),
                _ => HandlerOutcome::ack(),
            }
        })
    })
    .await;
    first.publish("payments", "1").await;
    first.publish("payments", "2").await;
    first.took(4).await;
    first.stop().await;
    assert!(stand.rows().await.iter().all(|row| row.open));

    let outbox = payments(&stand, declare).await;
    let mut second = Fan::start::<S::Record>(outbox, &mounts, ack).await;
    let bare = second.bare.clone();
    second.outbox.republish()(bare).await.unwrap();
    assert_eq!(second.took(2).await, ["pack 1", "ship 2"]);
    assert_eq!(second.stop().await, [""; 0]);
    assert_closed(&stand, 2).await;
}

/// A start with open records names the consumers that no handler of the app is.
pub async fn a_consumer_that_is_not_mounted_is_named_at_the_start<S: Stand>() {
    let stand = S::open().await;
    stand.store("payments", Some(b"\"1\""), None).await;
    let declare = |outbox: Registry<S>| outbox.consumer::<ship>(0).consumer::<mail>(1);
    let outbox = payments(&stand, declare).await;
    let logs = Logs::capture();
    let mut fan = Fan::start::<S::Record>(outbox, &BOTH[..1], ack).await;
    let bare = fan.bare.clone();
    fan.outbox.republish()(bare).await.unwrap();
    assert_eq!(fan.took(1).await, ["ship 1"]);
    let line = until_logged(&logs, Level::WARN, &["payments", "older than this process"]).await;
    assert!(
        line.contains("::mail") && !line.contains("::ship"),
        "{line}"
    );
    fan.stop().await;
    assert_eq!(logs.complaints(), [line]);
}

/// Mistakes in the declaration are refused where the app is built.
pub async fn mistakes_in_the_consumers_are_refused<S: Stand>() {
    let stand = S::open().await;
    let refused = |declare: fn(Registry<S>) -> Registry<S>, words: &[&str]| {
        let outbox: Registry<S> = Outbox::deferred().register::<S::Record>("payments");
        let declared = catch_unwind(AssertUnwindSafe(|| declare(outbox))).unwrap_err();
        let message = declared.downcast_ref::<String>().unwrap();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    refused(
        |o| o.consumer::<ship>(31),
        &["payments", "::ship", "31", "0 to 30"],
    );
    refused(
        |o| o.consumer::<ship>(1).consumer::<mail>(1),
        &["bit 1", "::ship", "::mail"],
    );
    refused(
        |o| o.consumer::<ship>(1).consumer::<ship>(2),
        &["::ship", "already"],
    );
    refused(
        |o| {
            let _layer = o.layer();
            o.consumer::<ship>(1)
        },
        &["payments", "before a clone"],
    );
    // A mark by hand has no bit that is a consumer's.
    let outbox = payments(&stand, |o| o.consumer::<ship>(0)).await;
    outbox.republish()(Sink::accepting()).await.unwrap();
}
