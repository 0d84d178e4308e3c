//! What arrives: its handler runs, or it is acknowledged without one, or it comes back later.

use std::time::Duration;

use ruststream::HeaderMap;
use ruststream::runtime::HandlerOutcome;
use tokio::time::Instant;
use tracing::Level;

use super::logs::Logs;
use super::message::{Settle, headers, id_header};
use super::service::{Service, registry, registry_on};
use super::stand::{Stand, assert_closed, deletes};
use crate::{Backend, OUTBOX_ID_HEADER, Record};

/// A delivery of a name that is not registered runs whatever its id header says, and asks no
/// database.
pub async fn a_delivery_of_another_name_runs_whatever_its_header_says<S: Stand>() {
    let stand = S::open().await;
    let id = stand.store("payments", Some(b"1"), None).await;
    let logs = Logs::capture();
    let service = Service::<S>::with(registry::<S>());
    let mut service = service.start_without_pool().await;
    for header in [id.as_bytes(), b"\xff", b""] {
        let carried = headers(&[(OUTBOX_ID_HEADER, header)]);
        service.send("audit", b"2", carried).await;
        assert_eq!(service.next().await.name, "audit");
    }
    service.stop().await;
    assert!(stand.rows().await[0].open);
    assert_eq!(logs.complaints(), [""; 0]);
}

/// A message without an id runs untracked, and one line says so for all of a name.
pub async fn messages_without_an_id_run_and_are_warned_of_once<S: Stand>() {
    let stand = S::open().await;
    let logs = Logs::capture();
    let mut service = Service::on(&stand).await.start().await;
    for name in ["payments", "payments", "refunds", "payments"] {
        service.send(name, b"1", HeaderMap::new()).await;
        assert_eq!(service.next().await.name, name);
    }
    service.stop().await;
    assert_eq!(stand.rows().await, [], "nothing is recorded");
    for name in ["payments", "refunds"] {
        let warned = logs.lines(Level::WARN, &[name, OUTBOX_ID_HEADER]);
        assert_eq!(warned.len(), 1, "{warned:?}");
    }
    assert_eq!(logs.complaints().len(), 2);
}

/// A message whose header is no id of the record's type runs untracked, with a warning.
pub async fn an_id_that_cannot_be_read_runs_untracked<S: Stand>() {
    let stand = S::open().await;
    stand.store("payments", Some(b"1"), None).await;
    let service = Service::on(&stand).await.without_republish();
    let mut service = service.start().await;
    let texts = ["", "payment", "9223372036854775808", "1.5", " 1", "-"].into_iter();
    let no_ids = texts.filter(|text| text.parse::<<S::Record as Record>::Id>().is_err());
    for header in no_ids.map(str::as_bytes).chain([b"\xff\xfe".as_slice()]) {
        let logs = Logs::capture();
        let carried = headers(&[(OUTBOX_ID_HEADER, header)]);
        service.send("payments", b"2", carried).await;
        assert_eq!(service.next().await.payload, b"2");
        service.idle().await;
        assert_eq!(logs.lines(Level::WARN, &["payments", "untracked"]).len(), 1);
        assert_eq!(logs.complaints().len(), 1, "{:?}", logs.complaints());
    }
    service.stop().await;
    let rows = stand.rows().await;
    assert_eq!(rows.len(), 1, "nothing is recorded");
    assert!(rows[0].open, "nothing is marked");
}

/// The record's connection is given back before the handler runs, so a handler may publish a
/// tracked message on a pool of one.
pub async fn a_handler_may_publish_on_a_pool_of_one<S: Stand>() {
    let stand = S::open().await;
    let mut service = Service::<S>::with(registry_on(&stand, 1).await)
        .handler(|delivery, out| {
            Box::pin(async move {
                if delivery.name == "payments" {
                    let published = out.publish("refunds", b"2", HeaderMap::new()).await;
                    published.unwrap();
                }
                HandlerOutcome::ack()
            })
        })
        .start()
        .await;
    service.publish("payments", b"1").await.unwrap();
    assert_eq!(service.next().await.name, "payments");
    assert_eq!(service.next().await.name, "refunds");
    service.stop().await;
    assert_closed(&stand, 2).await;
}

/// A copy that was sent twice is processed once: the second one is acknowledged without the
/// handler.
pub async fn a_copy_of_a_processed_record_reaches_no_handler<S: Stand>() {
    let stand = S::open().await;
    let logs = Logs::capture();
    let mut service = Service::on(&stand).await.start().await;
    service.publish("payments", b"1").await.unwrap();
    let first = service.next().await;
    service.idle().await;
    for _ in 0..2 {
        let copy = first.headers.clone();
        service.send("payments", b"1", copy).await;
        service.idle().await;
    }
    assert_eq!(service.outcomes(), [Settle::Ack; 3]);
    assert_eq!(service.stop().await, [], "the copies reached no handler");
    assert_closed(&stand, 1).await;
    assert_eq!(logs.complaints(), [""; 0]);
}

/// A record that is not there: where a table marks, the handler runs and a warning asks whether it
/// is the right database; where it deletes, the record is taken for processed.
pub async fn an_absent_record_runs_untracked_or_counts_as_processed<S: Stand>() {
    let (stand, other) = (S::open().await, S::open().await);
    stand.store("payments", Some(b"open"), None).await;
    other.store("payments", Some(b"1"), None).await;
    let absent = other.store("payments", Some(b"2"), None).await;
    let logs = Logs::capture();
    let service = Service::on(&stand).await.without_republish();
    let mut service = service.start().await;
    service.send("payments", b"2", id_header(&absent)).await;
    service.idle().await;
    assert_eq!(service.outcomes(), [Settle::Ack]);
    let handled = service.stop().await.len();
    let warned = logs.lines(Level::WARN, &["payments", &absent, "database"]);
    let expected = usize::from(!deletes::<S>());
    assert_eq!((handled, warned.len()), (expected, expected), "{warned:?}");
    assert_eq!(logs.complaints().len(), expected);
    let rows = stand.rows().await;
    assert_eq!(rows.len(), 1, "nothing else is touched");
    assert!(rows[0].open);
}

/// A message whose id belongs to a record of another name runs untracked with one warning, and
/// that record stays as it is.
pub async fn the_record_of_another_name_is_left_alone<S: Stand>() {
    let stand = S::open().await;
    let refund = stand.store("refunds", Some(b"1"), None).await;
    let ledger = stand.store("ledger", Some(b"2"), None).await;
    let done = stand.store("refunds", Some(b"3"), None).await;
    stand.close(&done).await;
    let before = stand.rows().await;
    let service = Service::on(&stand).await.without_republish();
    let mut service = service.start().await;
    let forged = [
        (&refund, "refunds"),
        (&ledger, "ledger"),
        (&done, "refunds"),
    ];
    // Where a processed record is deleted, no name is left to tell it by.
    let there = if deletes::<S>() { 2 } else { 3 };
    for (id, recorded) in &forged[..there] {
        let logs = Logs::capture();
        service.send("payments", b"4", id_header(id)).await;
        assert_eq!(service.next().await.payload, b"4");
        service.idle().await;
        let warned = logs.lines(Level::WARN, &["payments", id, recorded]);
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert_eq!(logs.complaints().len(), 1);
    }
    service.stop().await;
    assert_eq!(stand.rows().await, before);
}

const DELAY: Duration = Duration::from_millis(50);

/// Sends the message of a record that cannot be read now, and sees it come back, without a handler
/// and not before the delay.
async fn see_it_come_back<S: Stand>(service: &mut Service<S>, id: &str) {
    let began = Instant::now();
    service.send("payments", b"1", id_header(id)).await;
    for _ in 0..3 {
        assert_eq!(service.outcome().await, Settle::RetryAfter(DELAY));
    }
    assert!(began.elapsed() >= DELAY * 2, "no hot loop");
}

/// Sees the message handled, once, after one error line each time that it came back.
async fn see_it_handled<S: Stand>(mut service: Service<S>, stand: &S, logs: &Logs, why: [&str; 2]) {
    assert_eq!(service.next().await.payload, b"1");
    service.idle().await;
    let outcomes = service.outcomes();
    let (last, before) = outcomes.split_last().unwrap();
    assert_eq!(*last, Settle::Ack);
    let errors = logs.lines(Level::ERROR, &[&["payments"], why.as_slice()].concat());
    assert_eq!(errors.len(), 3 + before.len(), "{errors:?}");
    assert_eq!(logs.complaints().len(), errors.len());
    assert_eq!(service.stop().await, [], "handled once");
    assert_closed(stand, 1).await;
}

/// A record that cannot be read comes back later, and is handled once it can be.
pub async fn a_record_that_cannot_be_read_comes_back<S: Stand>() {
    let stand = S::open().await;
    let id = stand.store("payments", Some(b"1"), None).await;
    let logs = Logs::capture();
    let service = Service::on(&stand).await.registry(|o| o.retry_delay(DELAY));
    let mut service = service.without_republish().start().await;
    stand.hide_table(true).await;
    see_it_come_back(&mut service, &id).await;
    stand.hide_table(false).await;
    see_it_handled(service, &stand, &logs, [&id, "could not be read"]).await;
}

/// A delivery that arrives before the pool is set comes back, and is handled once there is one.
pub async fn a_delivery_before_the_pool_is_set_comes_back<S: Stand>() {
    let stand = S::open().await;
    let id = stand.store("payments", Some(b"1"), None).await;
    let logs = Logs::capture();
    let service = Service::<S>::with(registry::<S>().retry_delay(DELAY));
    let mut service = service.start_without_pool().await;
    see_it_come_back(&mut service, &id).await;
    let pool = stand.pool(2).await;
    service.outbox.set_pool(pool).unwrap();
    see_it_handled(service, &stand, &logs, [&id, "set_pool"]).await;
}

/// A delivery that gets no connection comes back, and is handled once one is free.
pub async fn a_delivery_on_an_exhausted_pool_comes_back<S: Stand>() {
    let stand = S::open().await;
    let id = stand.store("payments", Some(b"1"), None).await;
    let logs = Logs::capture();
    let pool = stand.pool(1).await;
    let outbox = registry::<S>()
        .retry_delay(DELAY)
        .acquire_timeout(DELAY * 6);
    outbox.set_pool(pool.clone()).unwrap();
    let service = Service::<S>::with(outbox).without_republish();
    let mut service = service.start().await;
    let held = S::Backend::acquire(&pool).await.unwrap();
    see_it_come_back(&mut service, &id).await;
    drop(held);
    see_it_handled(service, &stand, &logs, [&id, "came free"]).await;
}
