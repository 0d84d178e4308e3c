//! Batch handlers, which take their records and settle them by themselves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ruststream::HeaderMap;
use ruststream::runtime::{HandlerOutcome, Message, RETRY_COUNT_HEADER};
use tracing::Level;

use super::coverage::until_logged;
use super::custom::Deciding;
use super::fan::{BATCH, Fan, ack, json, pack};
use super::logs::Logs;
use super::message::{Settle, headers, id_header};
use super::shares_transactions;
use super::stand::{Stand, assert_closed, deletes};
use crate::registry::{Names, Node};
use crate::{Backend, OUTBOX_ID_HEADER, Outbox, OutboxHeaders, Statements};

const LATER: Duration = Duration::from_hours(1);
const SOON: Duration = Duration::from_millis(10);

type Registry<S> = Outbox<<S as Stand>::Backend, Node<<S as Stand>::Record>>;

fn payments<S: Stand>() -> Registry<S> {
    Outbox::deferred()
        .group_commit(shares_transactions())
        .register::<S::Record>("payments")
}

async fn payments_on<S: Stand>(stand: &S) -> Registry<S> {
    let outbox = payments::<S>();
    outbox.set_pool(stand.pool(4).await).unwrap();
    outbox
}

const PACK: [(&str, &str); 1] = [("pack", "payments")];

/// Each element closes its record by its own outcome, and only what is open is sent again; a copy
/// of what is processed reaches no handler.
pub async fn a_batch_handler_settles_each_record_by_its_outcome<S: Stand>() {
    let stand = S::open().await;
    let logs = Logs::capture();
    let outbox = payments_on(&stand).await;
    let mut first = Fan::start::<S::Record>(outbox, &PACK, |took| {
        Box::pin(async move {
            match took.as_str() {
                "pack 2" => HandlerOutcome::drop(),
                "pack 3" => HandlerOutcome::retry_after(LATER),
                _ => HandlerOutcome::ack(),
            }
        })
    })
    .await;
    for text in ["1", "2", "3", "4"] {
        first.publish("payments", text).await;
    }
    first.took(4).await;
    let ids: Vec<_> = stand.rows().await.into_iter().map(|row| row.id).collect();
    first.stop().await;
    let open = stand.rows().await.into_iter().filter(|row| row.open);
    let open: Vec<_> = open.map(|row| row.payload.unwrap()).collect();
    assert_eq!(open, [b"\"3\""]);

    let mut second = Fan::start::<S::Record>(payments_on(&stand).await, &PACK, ack).await;
    for id in ids {
        second.send("payments", "copy", &id).await;
    }
    assert_eq!(second.took(1).await, ["pack copy"], "of the open one");
    assert_eq!(second.stop().await, [""; 0]);
    assert_closed(&stand, 4).await;
    assert_eq!(logs.complaints(), [""; 0]);
}

/// A batch of more records than a statement takes.
pub async fn a_large_batch_is_taken_and_settled<S: Stand>() {
    let stand = S::open().await;
    let mut fan = Fan::start::<S::Record>(payments_on(&stand).await, &PACK, ack).await;
    let mut ids = Vec::with_capacity(BATCH);
    for _ in 0..BATCH {
        ids.push(stand.store("payments", Some(b"\"1\""), None).await);
    }
    for id in &ids {
        fan.send("payments", "1", id).await;
    }
    fan.took(BATCH).await;
    assert_eq!(fan.stop().await, [""; 0]);
    assert_closed(&stand, BATCH).await;
}

/// Messages without a record of this name run untracked, and close nothing.
pub async fn elements_without_a_record_run_untracked<S: Stand>() {
    let stand = S::open().await;
    let other = stand.store("refunds", Some(b"\"1\""), None).await;
    let logs = Logs::capture();
    let mut fan = Fan::start::<S::Record>(payments_on(&stand).await, &PACK, ack).await;
    let id = |id: &[u8]| headers(&[(OUTBOX_ID_HEADER, id)]);
    fan.send_with("payments", "none", HeaderMap::new()).await;
    fan.send_with("payments", "bytes", id(&[0xff, 0xfe])).await;
    fan.send_with("payments", "text", id(b"not an id")).await;
    fan.send_with("payments", "other", id(other.as_bytes()))
        .await;
    let took = fan.took(4).await;
    assert_eq!(took, ["pack bytes", "pack none", "pack other", "pack text"]);
    fan.stop().await;
    assert!(stand.rows().await[0].open);
    for words in [
        "without the header",
        "not UTF-8",
        "record's type",
        "another name",
    ] {
        let warned = logs.lines(Level::WARN, &["payments", words]);
        assert_eq!(warned.len(), 1, "{words}: {:?}", logs.complaints());
    }
}

/// Records that cannot be read come back with their batch, and are handled once they can be.
pub async fn a_batch_that_cannot_be_read_comes_back<S: Stand>() {
    let stand = S::open().await;
    let id = stand.store("payments", Some(b"\"1\""), None).await;
    let logs = Logs::capture();
    let outbox = payments::<S>().retry_delay(SOON);
    let mut fan = Fan::start::<S::Record>(outbox, &PACK, ack).await;
    fan.send("payments", "1", &id).await;
    let no_pool = ["payments", &id, "no pool"];
    until_logged(&logs, Level::ERROR, &no_pool).await;
    stand.hide_table(true).await;
    fan.outbox.set_pool(stand.pool(2).await).unwrap();
    let logs = Logs::capture();
    let unread = ["payments", &id, "could not be read"];
    until_logged(&logs, Level::ERROR, &unread).await;
    stand.hide_table(false).await;
    assert_eq!(fan.took(1).await, ["pack 1"]);
    fan.stop().await;
    assert_closed(&stand, 1).await;
}

/// The copies that answer a batch's retries keep their records.
pub async fn the_retry_copy_of_an_element_keeps_its_record<S: Stand>() {
    let stand = S::open().await;
    let outbox = payments_on(&stand).await;
    let mut fan = Fan::start::<S::Record>(outbox, &PACK, |_| {
        Box::pin(async { HandlerOutcome::retry_after(LATER) })
    })
    .await;
    let id = stand.store("payments", Some(b"\"1\""), None).await;
    let count = |count: &'static [u8]| {
        headers(&[
            (OUTBOX_ID_HEADER, id.as_bytes()),
            (RETRY_COUNT_HEADER, count),
        ])
    };
    fan.send_with("payments", "1", count(b"6")).await;
    fan.took(1).await;
    let outbox = fan.outbox.clone();
    fan.stop().await;
    let name = outbox.names.find("payments").unwrap();
    assert!(!name.is_copy(&count(b"6")), "a forwarded one");
    assert!(name.is_copy(&count(b"7")), "the copy");
    assert!(!name.is_copy(&count(b"7")), "once");
}

/// A batch handler that panics leaves its records open, and each is logged.
pub async fn a_batch_that_is_not_settled_leaves_its_records_open<S: Stand>() {
    let stand = S::open().await;
    let logs = Logs::capture();
    let outbox = payments_on(&stand).await;
    let first = AtomicBool::new(true);
    let mut fan = Fan::start::<S::Record>(outbox, &PACK, move |_| {
        let first = first.swap(false, Ordering::Relaxed);
        Box::pin(async move {
            assert!(!first, "as the case has it");
            HandlerOutcome::retry_after(LATER)
        })
    })
    .await;
    fan.publish("payments", "1").await;
    assert_eq!(fan.took(2).await, ["pack 1", "pack 1"], "it is redelivered");
    fan.stop().await;
    let rows = stand.rows().await;
    assert!(rows[0].open);
    let said = logs.lines(Level::ERROR, &["payments", &rows[0].id, "stays open"]);
    assert_eq!(said.len(), 1, "{:?}", logs.complaints());
}

/// A batch handler and another handler of the name hide nothing from each other.
pub async fn a_batch_handler_is_one_of_several<S: Stand>() {
    let stand = S::open().await;
    let mounts = [("pack", "payments"), ("ship", "payments")];
    let logs = Logs::capture();
    let mut fan = Fan::start::<S::Record>(payments_on(&stand).await, &mounts, ack).await;
    for text in ["1", "2", "3"] {
        fan.publish("payments", text).await;
    }
    let all = ["pack 1", "pack 2", "pack 3", "ship 1", "ship 2", "ship 3"];
    assert_eq!(fan.took(6).await, all);
    fan.stop().await;
    assert_closed(&stand, 3).await;
    let warned = logs.lines(Level::WARN, &["several handlers", "::ship", "::pack"]);
    assert_eq!(warned.len(), 1, "{:?}", logs.complaints());
}

/// Outcomes that are not as many as the open messages tell none from another: all come back, and an
/// error says so. Where their number is not known beforehand, what has none comes back.
pub async fn outcomes_of_another_number_settle_nothing<S: Stand>() {
    let stand = S::open().await;
    for text in ["1", "2"] {
        stand.store("payments", Some(&json(text)), None).await;
    }
    let logs = Logs::capture();
    let outbox = payments_on(&stand).await.retry_delay(LATER);
    let handle = outbox.handle::<S::Record>("payments");
    let ids: Vec<_> = stand.rows().await.into_iter().map(|row| row.id).collect();
    let batch = ids.iter().map(|id| {
        let headers: OutboxHeaders = id_header(id).to_typed().unwrap();
        Message::new(headers, ())
    });
    let batch: Vec<_> = batch.collect();
    let acks = || std::iter::repeat_with(HandlerOutcome::ack);
    let settled = |outcomes: Vec<HandlerOutcome>| outcomes.iter().map(Settle::from).collect();
    let later = Settle::RetryAfter(LATER);

    let taken = handle.take(&pack, &batch).await;
    let outcomes: Vec<Settle> = settled(taken.settle(acks().take(3)).await);
    assert_eq!(outcomes, [later, later]);
    let said = logs.lines(Level::ERROR, &["payments", "open=2", "outcomes=3"]);
    assert_eq!(said.len(), 1, "{:?}", logs.complaints());
    assert!(stand.rows().await.iter().all(|row| row.open));

    // Known to nobody before they come.
    let outbox = payments_on(&stand).await.retry_delay(LATER);
    let handle = outbox.handle::<S::Record>("payments");
    let taken = handle.take(&pack, &batch).await;
    let mut rest = 1;
    let one = std::iter::from_fn(|| {
        rest -= 1;
        (rest == 0).then(HandlerOutcome::ack)
    });
    let outcomes: Vec<Settle> = settled(taken.settle(one).await);
    assert_eq!(outcomes, [Settle::Ack, later]);
    let open = stand.rows().await.into_iter().filter(|row| row.open);
    assert_eq!(open.count(), 1);
}

/// A record whose steps are the service's own takes them one by one.
pub async fn the_services_own_steps_run_for_each_element<S>()
where
    S: Stand<Backend: Statements<Deciding<S::Record>>>,
{
    let stand = S::open().await;
    let outbox = Outbox::<S::Backend>::deferred().register::<Deciding<S::Record>>("payments");
    outbox.set_pool(stand.pool(2).await).unwrap();
    let logs = Logs::capture();
    let mut fan = Fan::start::<Deciding<S::Record>>(outbox, &PACK, |took| {
        Box::pin(async move {
            match took.as_str() {
                "pack ack" => HandlerOutcome::ack(),
                "pack discard" => HandlerOutcome::drop(),
                _ => HandlerOutcome::retry_after(LATER),
            }
        })
    })
    .await;
    let mut ids = Vec::new();
    for step in ["ack", "discard", "retry"] {
        let id = stand.store("payments", Some(&json(step)), None).await;
        fan.send("payments", step, &id).await;
        ids.push((step, id));
    }
    fan.took(3).await;
    fan.stop().await;
    for (step, id) in ids {
        let ran = logs.lines(Level::INFO, &[&format!("the service's {step} of {id} ")]);
        assert_eq!(ran.len(), 1, "{step}");
    }
    let open = stand.rows().await.into_iter().filter(|row| row.open);
    assert_eq!(open.count(), 2, "the dropped one is kept");
}

/// Marks that meet a held lock give up within the bound, and are loud; the outcomes stand.
pub async fn a_failed_mark_of_a_batch_is_loud<S: Stand>() {
    let stand = std::sync::Arc::new(S::open().await);
    let logs = Logs::capture();
    let outbox = payments_on(&*stand).await.lock_wait(SOON * 10);
    let lock = std::sync::Arc::new(tokio::sync::Mutex::new(None));
    let (held, of) = (std::sync::Arc::clone(&lock), std::sync::Arc::clone(&stand));
    let mut fan = Fan::start::<S::Record>(outbox, &PACK, move |_| {
        let (held, stand) = (std::sync::Arc::clone(&held), std::sync::Arc::clone(&of));
        Box::pin(async move {
            *held.lock().await = Some(stand.lock().await);
            HandlerOutcome::ack()
        })
    })
    .await;
    fan.publish("payments", "1").await;
    fan.took(1).await;
    fan.stop().await;
    S::unlock(lock.lock().await.take().unwrap()).await;
    let rows = stand.rows().await;
    assert!(rows[0].open);
    let said = logs.lines(
        Level::ERROR,
        &["payments", &rows[0].id, "could not be marked"],
    );
    assert_eq!(said.len(), 1, "{:?}", logs.complaints());
}

/// Somebody's open transaction on a pooled connection swallows no element of a batch.
pub async fn somebodys_open_transaction_swallows_no_element<S: Stand>() {
    let stand = S::open().await;
    let pool = stand.pool(1).await;
    let outbox = payments::<S>().retry_delay(SOON);
    outbox.set_pool(pool.clone()).unwrap();
    let mut fan = Fan::start::<S::Record>(outbox, &PACK, ack).await;
    let mut held = S::Backend::acquire(&pool).await.unwrap();
    S::begin_by_hand(&mut held).await;
    drop(held);
    let id = stand.store("payments", Some(b"\"1\""), None).await;
    fan.send("payments", "1", &id).await;
    assert_eq!(fan.took(1).await, ["pack 1"]);
    fan.stop().await;
    assert_closed(&stand, 1).await;
    assert!(deletes::<S>() || !stand.rows().await[0].open);
}
