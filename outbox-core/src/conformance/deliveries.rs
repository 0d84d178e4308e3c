//! Subscriptions whose name is not the published one: patterns and queues.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ruststream::HeaderMap;
use ruststream::runtime::{HandlerOutcome, RETRY_COUNT_HEADER};
use tokio::time::timeout;
use tracing::Level;

use super::coverage::until_logged;
use super::fan::{Fan, ack, json};
use super::logs::Logs;
use super::message::{headers, publish};
use super::shares_transactions;
use super::sink::Sink;
use super::stand::{Stand, assert_closed};
use crate::registry::{Names, Node};
use crate::{OUTBOX_ID_HEADER, Outbox};

const LATER: Duration = Duration::from_hours(1);

type Names2<R> = Node<R, Node<R>>;
type Registry<S> =
    Outbox<<S as Stand>::Backend, Node<<S as Stand>::Record, Names2<<S as Stand>::Record>>>;

/// The names `payments.card` and `payments.sepa`, which `payments.*` delivers.
fn payments<S: Stand>() -> Registry<S> {
    Outbox::deferred()
        .group_commit(shares_transactions())
        .register::<S::Record>("payments.card")
        .register::<S::Record>("payments.sepa")
        .deliver::<S::Record>("payments.*")
}

async fn payments_on<S: Stand>(stand: &S, size: u32) -> Registry<S> {
    let outbox = payments::<S>();
    outbox.set_pool(stand.pool(size).await).unwrap();
    outbox
}

const PATTERN: [(&str, &str); 1] = [("any", "payments.*")];

/// A subscription of another name marks what it handled, whichever of its names it was recorded
/// under, and a copy of that reaches no handler.
pub async fn a_subscription_of_another_name_marks_what_it_handled<S: Stand>() {
    let stand = S::open().await;
    let card = stand.store("payments.card", Some(b"\"1\""), None).await;
    let sepa = stand.store("payments.sepa", Some(b"\"2\""), None).await;
    let logs = Logs::capture();
    let mut fan = Fan::start::<S::Record>(payments_on(&stand, 2).await, &PATTERN, ack).await;
    for _ in 0..2 {
        fan.send("payments.card", "1", &card).await;
        fan.send("payments.sepa", "2", &sepa).await;
    }
    assert_eq!(fan.took(2).await, ["any 1", "any 2"]);
    assert_eq!(fan.stop().await, [""; 0]);
    assert_closed(&stand, 2).await;
    assert_eq!(logs.complaints(), [""; 0]);
}

/// What is published under the name of a subscription is not recorded: it is no message's name.
pub async fn nothing_is_recorded_under_the_name_of_a_subscription<S: Stand>() {
    let stand = S::open().await;
    let sink = Sink::accepting();
    let outbox = payments_on(&stand, 2).await.wrap(sink.clone());
    let sent = publish(&outbox, "payments.*", b"1", HeaderMap::new());
    sent.await.unwrap();
    assert_eq!(sink.sent()[0].id(), None);
    assert_eq!(stand.rows().await, []);
}

/// A record of a name that the subscription does not deliver is left alone.
pub async fn a_record_that_the_subscription_does_not_deliver_is_left_alone<S: Stand>() {
    let stand = S::open().await;
    let id = stand.store("refunds", Some(b"\"1\""), None).await;
    let logs = Logs::capture();
    let mut fan = Fan::start::<S::Record>(payments_on(&stand, 2).await, &PATTERN, ack).await;
    fan.send("payments.cash", "1", &id).await;
    assert_eq!(fan.took(1).await, ["any 1"], "it runs untracked");
    fan.stop().await;
    assert!(stand.rows().await[0].open);
    let warned = logs.lines(Level::WARN, &["payments.*", &id, "refunds", "another name"]);
    assert_eq!(warned.len(), 1, "{:?}", logs.complaints());
}

/// A handler of the name and one of the pattern are two handlers of one name: neither hides a
/// message from the other, whichever of them closes the record.
pub async fn a_pattern_and_its_name_hide_nothing_from_each_other<S: Stand>() {
    let stand = S::open().await;
    let mounts = [("any", "payments.*"), ("mail", "payments.card")];
    let outbox = payments_on(&stand, 2).await;
    let mut fan = Fan::start::<S::Record>(outbox, &mounts, ack).await;
    for _ in 0..4 {
        let id = stand.store("payments.card", Some(b"\"1\""), None).await;
        fan.send("payments.card", "1", &id).await;
        assert_eq!(fan.took(2).await, ["any 1", "mail 1"]);
    }
    fan.stop().await;
    assert_closed(&stand, 4).await;
}

/// A record that the pattern's handler takes up makes room in the start's window.
pub async fn what_a_pattern_takes_up_makes_room_at_the_start<S: Stand>() {
    let stand = S::open().await;
    for text in ["1", "2", "3"] {
        stand.store("payments.card", Some(&json(text)), None).await;
    }
    let outbox = payments_on(&stand, 2).await;
    let outbox = outbox.republish_window(1).republish_patience(LATER);
    let mut fan = Fan::start::<S::Record>(outbox, &PATTERN, ack).await;
    let bare = fan.bare.clone();
    let start = timeout(Duration::from_secs(20), fan.outbox.republish()(bare));
    start.await.expect("the window stays full").unwrap();
    assert_eq!(fan.took(3).await, ["any 1", "any 2", "any 3"]);
    fan.stop().await;
    assert_closed(&stand, 3).await;
}

/// The copy that answers a retry keeps its record, whichever name of the pattern it leaves under;
/// also where the record could not be read.
pub async fn a_retry_copy_of_a_pattern_keeps_its_record<S: Stand>() {
    let stand = S::open().await;
    let id = stand.store("payments.sepa", Some(b"\"1\""), None).await;
    let logs = Logs::capture();
    for hidden in [false, true] {
        let outbox = payments_on(&stand, 2).await.retry_delay(LATER);
        let mut fan = Fan::start::<S::Record>(outbox, &PATTERN, |_| {
            Box::pin(async { HandlerOutcome::retry_after(LATER) })
        })
        .await;
        if hidden {
            stand.hide_table(true).await;
        }
        fan.send("payments.sepa", "1", &id).await;
        if hidden {
            until_logged(&logs, Level::ERROR, &[&id, "could not be read"]).await;
        } else {
            fan.took(1).await;
        }
        let outbox = fan.outbox.clone();
        assert_eq!(fan.stop().await, [""; 0]);
        if hidden {
            stand.hide_table(false).await;
        }
        let copy = headers(&[
            (OUTBOX_ID_HEADER, id.as_bytes()),
            (RETRY_COUNT_HEADER, b"1"),
        ]);
        let name = outbox.names.find("payments.sepa").unwrap();
        assert!(name.is_copy(&copy), "it keeps its record");
        assert!(!name.is_copy(&copy), "once");
    }
    assert!(stand.rows().await[0].open);
}

/// Mistakes in the declaration are refused where the app is built.
pub async fn mistakes_in_the_deliveries_are_refused<S: Stand>() {
    let stand = S::open().await;
    let refused = |declare: Box<dyn FnOnce() + '_>, words: &[&str]| {
        let declared = catch_unwind(AssertUnwindSafe(declare)).unwrap_err();
        let message = declared.downcast_ref::<String>().unwrap();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    };
    refused(
        Box::new(|| {
            let none = Outbox::<S::Backend>::deferred();
            drop(none.deliver::<S::Record>("payments.*"));
        }),
        &["no name", "first"],
    );
    refused(
        Box::new(|| drop(payments::<S>().deliver::<S::Record>("payments.*"))),
        &["payments.*", "already"],
    );
    refused(
        Box::new(|| drop(payments::<S>().republish_names::<Sink>(["payments.*"]))),
        &["payments.*", "not registered"],
    );
    let outbox = payments_on(&stand, 1).await;
    outbox.republish()(Sink::accepting()).await.unwrap();
}
