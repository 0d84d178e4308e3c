//! What becomes of the record: marked, left open, or loud about why not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ruststream::HeaderMap;
use ruststream::runtime::HandlerOutcome;
use tracing::Level;

use super::logs::Logs;
use super::message::{Settle, id_header};
use super::service::{Service, registry, registry_on};
use super::stand::{Stand, assert_closed, deletes};
use crate::Backend;

/// A record is closed by an acknowledgement, and by a drop.
pub async fn an_ack_and_a_drop_close_the_record<S: Stand>() {
    for settle in [Settle::Ack, Settle::Drop] {
        let stand = S::open().await;
        let service = Service::<S>::with(registry_on(&stand, 1).await).outcomes([settle]);
        let mut service = service.start().await;
        service.publish("payments", b"1").await.unwrap();
        assert_eq!(service.outcome().await, settle);
        service.stop().await;
        assert_closed(&stand, 1).await;
    }
}

/// No connection is held while the handler runs: it can take the only one.
pub async fn a_running_handler_holds_no_connection<S: Stand>() {
    let stand = S::open().await;
    let pool = stand.pool(1).await;
    let outbox = registry::<S>();
    outbox.set_pool(pool.clone()).unwrap();
    let mut service = Service::<S>::with(outbox)
        .handler(move |_, _| {
            let pool = pool.clone();
            Box::pin(async move {
                let _own = S::Backend::acquire(&pool).await.unwrap();
                HandlerOutcome::ack()
            })
        })
        .start()
        .await;
    service.publish("payments", b"1").await.unwrap();
    assert_eq!(service.outcome().await, Settle::Ack);
    service.stop().await;
    assert_closed(&stand, 1).await;
}

/// A retried record stays open and keeps its id, until an acknowledgement closes it.
pub async fn a_retried_record_stays_open_until_it_is_acknowledged<S: Stand>() {
    let stand = S::open().await;
    let retries = [
        Settle::Retry,
        Settle::RetryAfter(Duration::from_millis(10)),
        Settle::Retry,
    ];
    let logs = Logs::capture();
    let mut service = Service::on(&stand).await.outcomes(retries).start().await;
    service.publish("payments", b"1").await.unwrap();
    let first = service.next().await;
    for retry in retries {
        assert_eq!(service.outcome().await, retry);
        assert_eq!(service.next().await, first, "the same message");
    }
    assert_eq!(service.outcome().await, Settle::Ack);
    assert_eq!(service.stop().await, []);
    assert_closed(&stand, 1).await;
    assert_eq!(logs.complaints(), [""; 0]);
}

/// A record that is only ever retried is open.
pub async fn a_retry_marks_nothing<S: Stand>() {
    let stand = S::open().await;
    let service = Service::on(&stand).await.leaving_open();
    let mut service = service.start().await;
    service.publish("payments", b"1").await.unwrap();
    let retried = Settle::RetryAfter(Duration::from_hours(1));
    assert_eq!(service.outcome().await, retried);
    service.stop().await;
    let rows = stand.rows().await;
    assert!(rows[0].open, "{rows:?}");
}

/// A mark that fails is logged; the handler's outcome stands, and the record stays open.
pub async fn a_failed_mark_is_loud_and_leaves_the_record_open<S: Stand>() {
    for settle in [Settle::Ack, Settle::Drop] {
        let stand = Arc::new(S::open().await);
        let broken = Arc::clone(&stand);
        let logs = Logs::capture();
        let mut service = Service::on(&*stand)
            .await
            .handler(move |_, _| {
                let broken = Arc::clone(&broken);
                Box::pin(async move {
                    broken.hide_table(true).await;
                    settle.into()
                })
            })
            .start()
            .await;
        service.publish("payments", b"1").await.unwrap();
        let id = service.next().await.id().unwrap().to_owned();
        assert_eq!(service.outcome().await, settle, "the outcome stands");
        service.idle().await;
        assert_eq!(service.stop().await, [], "it does not come back");
        stand.hide_table(false).await;
        assert!(stand.rows().await[0].open);
        let words = ["payments", &id, "could not be marked", "error="];
        let errors = logs.lines(Level::ERROR, &words);
        assert_eq!(errors.len(), 1, "with its cause: {:?}", logs.complaints());
        assert_eq!(logs.complaints().len(), 1);
    }
}

/// A mark that meets a held write lock gives up within the bound.
pub async fn a_mark_that_meets_a_held_lock_gives_up_within_the_bound<S: Stand>() {
    let stand = Arc::new(S::open().await);
    let (locked, held) = (Arc::clone(&stand), Arc::new(Mutex::new(None)));
    let keep = Arc::clone(&held);
    let logs = Logs::capture();
    let mut service = Service::on(&*stand)
        .await
        .registry(|outbox| outbox.lock_wait(Duration::from_millis(300)))
        .handler(move |_, _| {
            let (locked, keep) = (Arc::clone(&locked), Arc::clone(&keep));
            Box::pin(async move {
                let lock = locked.lock().await;
                *keep.lock().unwrap() = Some(lock);
                HandlerOutcome::ack()
            })
        })
        .start()
        .await;
    service.publish("payments", b"1").await.unwrap();
    let id = service.next().await.id().unwrap().to_owned();
    assert_eq!(service.outcome().await, Settle::Ack);
    service.stop().await;
    let lock = held.lock().unwrap().take();
    S::unlock(lock.unwrap()).await;
    let errors = logs.lines(Level::ERROR, &["payments", &id, "kept the lock"]);
    assert_eq!(errors.len(), 1, "{:?}", logs.complaints());
    assert!(stand.rows().await[0].open, "nothing is marked later");
}

/// A mark that finds no open record says so once, where the table keeps what was processed.
pub async fn a_mark_that_finds_no_open_record_says_so<S: Stand>() {
    let stand = Arc::new(S::open().await);
    let closing = Arc::clone(&stand);
    let logs = Logs::capture();
    let mut service = Service::on(&*stand)
        .await
        .handler(move |delivery, _| {
            let closing = Arc::clone(&closing);
            Box::pin(async move {
                closing.close(delivery.id().unwrap()).await;
                HandlerOutcome::ack()
            })
        })
        .start()
        .await;
    service.publish("payments", b"1").await.unwrap();
    let id = service.next().await.id().unwrap().to_owned();
    assert_eq!(service.outcome().await, Settle::Ack);
    service.stop().await;
    let warned = logs.lines(Level::WARN, &["payments", &id, "no open record"]);
    let expected = usize::from(!deletes::<S>());
    assert_eq!(warned.len(), expected, "{warned:?}");
    assert_eq!(logs.complaints().len(), expected);
    assert_closed(&*stand, 1).await;
}

/// A handler that acknowledges although its own tracked publish failed: the incoming record is
/// closed, and nothing was sent.
pub async fn a_failed_publish_of_the_handler_changes_no_outcome<S: Stand>() {
    let stand = Arc::new(S::open().await);
    let broken = Arc::clone(&stand);
    let mut service = Service::on(&*stand)
        .await
        .handler(move |_, out| {
            let broken = Arc::clone(&broken);
            Box::pin(async move {
                broken.hide_table(true).await;
                let published = out.publish("refunds", b"2", HeaderMap::new()).await;
                broken.hide_table(false).await;
                assert!(published.is_err());
                HandlerOutcome::ack()
            })
        })
        .start()
        .await;
    service.publish("payments", b"1").await.unwrap();
    assert_eq!(service.next().await.payload, b"1");
    assert_eq!(service.outcome().await, Settle::Ack);
    service.idle().await;
    assert_eq!(service.stop().await, [], "nothing was sent");
    assert_closed(&*stand, 1).await;
}

/// A publish closes no record: that of the message that is being handled stays open after a
/// retry, and that of the published one until its own handler is done.
pub async fn a_publish_of_the_handler_closes_no_record<S: Stand>() {
    let stand = S::open().await;
    let mut service = Service::on(&stand)
        .await
        .handler(|delivery, out| {
            Box::pin(async move {
                if delivery.name == "payments" {
                    let published = out.publish("refunds", b"2", HeaderMap::new()).await;
                    published.unwrap();
                }
                HandlerOutcome::retry_after(Duration::from_hours(1))
            })
        })
        .start()
        .await;
    service.publish("payments", b"1").await.unwrap();
    service.outcome().await;
    service.outcome().await;
    service.stop().await;
    let rows = stand.rows().await;
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.open), "{rows:?}");
}

/// Somebody's open transaction on a pooled connection swallows no delivery: a record that was
/// written after that transaction began is seen, handled and marked.
pub async fn somebodys_open_transaction_swallows_no_delivery<S: Stand>() {
    let stand = S::open().await;
    let pool = stand.pool(1).await;
    let outbox = registry::<S>().retry_delay(Duration::from_millis(10));
    outbox.set_pool(pool.clone()).unwrap();
    let service = Service::<S>::with(outbox).without_republish();
    let mut service = service.start().await;
    let mut held = S::Backend::acquire(&pool).await.unwrap();
    S::begin_by_hand(&mut held).await;
    drop(held);
    let id = stand.store("payments", Some(b"1"), None).await;
    service.send("payments", b"1", id_header(&id)).await;
    assert_eq!(service.next().await.id(), Some(id.as_str()));
    service.idle().await;
    assert_eq!(service.stop().await, []);
    assert_closed(&stand, 1).await;
}

/// Somebody's open transaction on a pooled connection swallows no mark.
pub async fn somebodys_open_transaction_swallows_no_mark<S: Stand>() {
    let stand = S::open().await;
    let pool = stand.pool(1).await;
    let outbox = registry::<S>();
    outbox.set_pool(pool.clone()).unwrap();
    let logs = Logs::capture();
    let mut service = Service::<S>::with(outbox)
        .handler(move |_, _| {
            let pool = pool.clone();
            Box::pin(async move {
                let mut held = S::Backend::acquire(&pool).await.unwrap();
                S::begin_by_hand(&mut held).await;
                HandlerOutcome::ack()
            })
        })
        .start()
        .await;
    service.publish("payments", b"1").await.unwrap();
    assert_eq!(service.outcome().await, Settle::Ack);
    service.stop().await;
    assert_closed(&stand, 1).await;
    assert_eq!(logs.complaints(), [""; 0]);
}
