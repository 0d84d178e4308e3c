//! Retry copies, which keep their record, and several handlers of one name, which share theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ruststream::runtime::{HandlerOutcome, RETRY_COUNT_HEADER};
use tokio::sync::Semaphore;
use tracing::Level;

use super::logs::Logs;
use super::message::{Delivery, Settle, headers};
use super::service::{Builder, Service};
use super::stand::{Stand, assert_closed, deletes};
use crate::OUTBOX_ID_HEADER;

const LATER: Duration = Duration::from_hours(1);

/// The headers of the copy that the runtime makes of a delivery that was retried `count` times.
fn copy_of(delivery: &Delivery, count: &str) -> ruststream::HeaderMap {
    headers(&[
        (OUTBOX_ID_HEADER, delivery.id().unwrap().as_bytes()),
        (RETRY_COUNT_HEADER, count.as_bytes()),
    ])
}

/// A service whose `audit` publishes a payment with all its headers, as the runtime does for a
/// copy, and whose payments are retried until they were once.
async fn retrying<S: Stand>(stand: &S) -> Builder<S> {
    Service::on(stand).await.handler(|delivery, out| {
        Box::pin(async move {
            if delivery.name == "audit" {
                let copy = delivery.headers.clone();
                out.publish("payments", &delivery.payload, copy)
                    .await
                    .unwrap();
            } else if !delivery.headers.contains(RETRY_COUNT_HEADER) {
                return HandlerOutcome::retry_after(LATER);
            }
            HandlerOutcome::ack()
        })
    })
}

/// The copy that answers a retry keeps the record of its delivery, once; whatever carries the same
/// headers after it is a new message.
pub async fn a_retry_copy_keeps_its_record<S: Stand>() {
    let stand = S::open().await;
    let mut service = retrying(&stand).await.start().await;
    service.publish("payments", b"1").await.unwrap();
    let first = service.next().await;
    assert_ne!(service.outcome().await, Settle::Ack);
    for (payload, same) in [(b"1", true), (b"2", false)] {
        service.send("audit", payload, copy_of(&first, "1")).await;
        assert_eq!(service.next().await.name, "audit");
        let copy = service.next().await;
        assert_eq!(copy.payload, payload);
        assert_eq!(copy.id() == first.id(), same, "{copy:?}");
    }
    service.idle().await;
    service.stop().await;
    assert_closed(&stand, 2).await;
}

/// A copy leaves without the database.
pub async fn a_retry_copy_asks_no_database<S: Stand>() {
    let stand = S::open().await;
    let mut service = retrying(&stand).await.start().await;
    service.publish("payments", b"1").await.unwrap();
    let first = service.next().await;
    assert_ne!(service.outcome().await, Settle::Ack);
    stand.hide_table(true).await;
    service.send("audit", b"1", copy_of(&first, "1")).await;
    assert_eq!(service.next().await.name, "audit");
    assert_eq!(
        service.outcome().await,
        Settle::Ack,
        "its publish went through"
    );
    stand.hide_table(false).await;
    service.stop().await;
    // The copy itself may have been handled by now, and its record deleted.
    assert!(stand.rows().await.len() <= 1, "and made no record");
}

/// A handler that forwards a copy to its own name, with all its headers, publishes a new message.
pub async fn a_forwarded_retry_copy_is_a_new_message<S: Stand>() {
    let stand = S::open().await;
    let mut service = Service::on(&stand)
        .await
        .handler(|delivery, out| {
            Box::pin(async move {
                let copy = delivery.headers.clone();
                match (delivery.name.as_str(), delivery.payload.as_slice()) {
                    ("audit", payload) => out.publish("payments", payload, copy).await.unwrap(),
                    (_, b"1") if !copy.contains(RETRY_COUNT_HEADER) => {
                        return HandlerOutcome::retry_after(LATER);
                    }
                    (_, b"1") => out.publish("payments", b"2", copy).await.unwrap(),
                    _ => {}
                }
                HandlerOutcome::ack()
            })
        })
        .start()
        .await;
    service.publish("payments", b"1").await.unwrap();
    let first = service.next().await;
    assert_ne!(service.outcome().await, Settle::Ack);
    service.send("audit", b"1", copy_of(&first, "1")).await;
    assert_eq!(service.next().await.name, "audit");
    assert_eq!(service.next().await.id(), first.id());
    let forwarded = service.next().await;
    assert_eq!(forwarded.payload, b"2");
    assert_ne!(forwarded.id(), first.id());
    service.idle().await;
    service.stop().await;
    assert_closed(&stand, 2).await;
}

/// The first handler's ack hides no message from the second one, nor the redelivery of a message
/// that the second one retried; one warning names both.
pub async fn several_handlers_of_a_name_all_run<S: Stand>() {
    let stand = S::open().await;
    let logs = Logs::capture();
    let gate = Arc::new(Semaphore::new(0));
    let closed = Arc::clone(&gate);
    let mut service = Service::on(&stand)
        .await
        .handler(move |delivery, _| {
            let closed = Arc::clone(&closed);
            Box::pin(async move {
                if delivery.name != "payments again" {
                    return HandlerOutcome::ack();
                }
                if closed.available_permits() == 0 {
                    closed.acquire().await.unwrap().forget();
                    closed.add_permits(2);
                    return HandlerOutcome::retry();
                }
                HandlerOutcome::ack()
            })
        })
        .with_a_second_handler()
        .start()
        .await;
    service.publish("payments", b"1").await.unwrap();
    let mut ran = [service.next().await.name, service.next().await.name];
    ran.sort();
    assert_eq!(ran, ["payments", "payments again"]);
    assert_eq!(
        service.outcome().await,
        Settle::Ack,
        "the first one closes the record"
    );
    gate.add_permits(1);
    assert_eq!(
        service.next().await.name,
        "payments again",
        "its redelivery runs"
    );
    service.publish("payments", b"2").await.unwrap();
    service.next().await;
    service.next().await;
    service.idle().await;
    service.stop().await;
    assert_closed(&stand, 2).await;
    let warned = logs.lines(Level::WARN, &["several handlers", "payments"]);
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(deletes::<S>() || logs.lines(Level::WARN, &["no open record"]).len() <= 2);
}

/// A retry that the broker itself redelivers leaves no copy behind: a new message with the headers
/// that its copy would have had is recorded, and reaches its handler.
pub async fn a_native_redelivery_leaves_no_copy_to_wait_for<S: Stand>() {
    let stand = S::open().await;
    let first = AtomicBool::new(true);
    let service = Service::on(&stand).await.handler(move |delivery, out| {
        let retry = delivery.name == "payments" && first.swap(false, Ordering::Relaxed);
        Box::pin(async move {
            if delivery.name == "audit" {
                let copy = delivery.headers.clone();
                out.publish("payments", b"2", copy).await.unwrap();
            }
            if retry {
                return HandlerOutcome::retry();
            }
            HandlerOutcome::ack()
        })
    });
    let mut service = service.start().await;
    service.publish("payments", b"1").await.unwrap();
    let delivery = service.next().await;
    assert_eq!(service.next().await, delivery, "it is redelivered");
    service.idle().await;
    service.send("audit", b"", copy_of(&delivery, "1")).await;
    assert_eq!(service.next().await.name, "audit");
    let forwarded = service.next().await;
    assert_eq!(forwarded.payload, b"2");
    assert_ne!(forwarded.id(), delivery.id());
    service.idle().await;
    service.stop().await;
    assert_closed(&stand, 2).await;
}
