//! The publish side: a record is committed, its id travels, or nothing is sent.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ruststream::HeaderMap;
use ruststream::runtime::HandlerOutcome;
use tokio::time::{Instant, timeout};

use super::message::{headers, publish};
use super::service::{Service, registry};
use super::sink::Sink;
use super::stand::Stand;
use crate::{OUTBOX_ID_HEADER, decode_headers};

/// A name that is not registered passes as it is.
pub async fn a_name_that_is_not_registered_passes_without_a_record<S: Stand>() {
    let stand = S::open().await;
    let mut service = Service::on(&stand).await.start().await;
    service.publish("audit", b"1").await.unwrap();
    let delivery = service.next().await;
    assert_eq!((delivery.name.as_str(), delivery.id()), ("audit", None));
    service.stop().await;
    assert!(stand.rows().await.is_empty());
}

/// A name that is not registered passes even with no database at all.
pub async fn a_name_that_is_not_registered_asks_no_database<S: Stand>() {
    let mut service = Service::<S>::with(registry::<S>())
        .start_without_pool()
        .await;
    service.publish("audit", b"1").await.unwrap();
    assert_eq!(service.next().await.payload, b"1");
    service.stop().await;
}

/// A publish from outside a handler is recorded before it is sent, and carries its id.
pub async fn a_wrapped_publisher_records_before_it_sends<S: Stand>() {
    let stand = Arc::new(S::open().await);
    let seen = Arc::clone(&stand);
    let rows = Arc::new(Mutex::new(Vec::new()));
    let found = Arc::clone(&rows);
    let mut service = Service::on(&*stand)
        .await
        .handler(move |_, _| {
            let (seen, found) = (Arc::clone(&seen), Arc::clone(&found));
            Box::pin(async move {
                let rows = seen.rows().await;
                found.lock().unwrap().extend(rows);
                HandlerOutcome::ack()
            })
        })
        .start()
        .await;
    service.publish("payments", b"7").await.unwrap();
    let delivery = service.next().await;
    service.stop().await;
    let rows = rows.lock().unwrap();
    assert_eq!(rows.len(), 1, "the record is there while the handler runs");
    assert_eq!(delivery.id(), Some(rows[0].id.as_str()));
    assert_eq!(rows[0].name, "payments");
    assert_eq!(rows[0].payload.as_deref(), Some(b"7".as_slice()));
    assert!(rows[0].open);
}

/// A publish from inside a handler is recorded, too: through the publish layer.
pub async fn a_handler_records_what_it_publishes<S: Stand>() {
    let stand = S::open().await;
    let mut service = Service::on(&stand)
        .await
        .handler(|delivery, out| {
            Box::pin(async move {
                if delivery.name == "audit" {
                    out.publish("payments", b"9", HeaderMap::new())
                        .await
                        .unwrap();
                }
                HandlerOutcome::retry_after(Duration::from_hours(1))
            })
        })
        .start()
        .await;
    service.publish("audit", b"1").await.unwrap();
    service.next().await;
    let delivery = service.next().await;
    service.stop().await;
    let rows = stand.rows().await;
    assert_eq!(rows.len(), 1);
    assert_eq!(delivery.id(), Some(rows[0].id.as_str()));
    assert_eq!(rows[0].payload.as_deref(), Some(b"9".as_slice()));
}

/// Every byte of every header value comes back.
pub async fn the_headers_column_keeps_every_byte<S: Stand>() {
    let stand = S::open().await;
    let service = Service::on(&stand).await.without_handlers().start().await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let sent = headers(&[
        ("tenant", b"acme \"\\ \n \0 \xc3\xa4"),
        ("empty", b""),
        ("bytes", &every_byte),
    ]);
    service
        .publish_with("payments", b"1", sent.clone())
        .await
        .unwrap();
    service.stop().await;
    let stored = stand.rows().await.remove(0).headers.unwrap();
    assert_eq!(decode_headers(&stored).unwrap(), sent);
}

/// A record that was not written is an error, and its message is not sent.
pub async fn nothing_is_sent_when_the_record_cannot_be_written<S: Stand>() {
    let stand = S::open().await;
    let mut service = Service::on(&stand).await.start().await;
    stand.hide_table(true).await;
    let error = service.publish("payments", b"1").await.unwrap_err();
    assert!(error.contains("`payments` was not saved"), "{error}");
    stand.hide_table(false).await;
    service.assert_nothing_sent("payments").await;
    service.stop().await;
    assert!(stand.rows().await.is_empty());
}

/// An id that was handed out is not a commit.
pub async fn nothing_is_sent_when_the_commit_is_refused<S: Stand>() {
    let stand = S::open().await;
    let mut service = Service::on(&stand).await.leaving_open().start().await;
    stand.refuse_commits(true).await;
    let error = service.publish("payments", b"1").await.unwrap_err();
    assert!(error.contains("`payments` was not saved"), "{error}");
    stand.refuse_commits(false).await;
    assert!(stand.rows().await.is_empty());
    service.assert_nothing_sent("payments").await;
    service.publish("payments", b"2").await.unwrap();
    service.stop().await;
    assert_eq!(stand.rows().await.len(), 1);
}

/// A send that fails gives the caller the send's own error, and the record stays open.
pub async fn a_failed_send_leaves_the_record_open<S: Stand>() {
    let stand = S::open().await;
    let outbox = registry::<S>();
    outbox.set_pool(stand.pool(2).await).unwrap();
    let publisher = outbox.wrap(Sink::refusing(|_| true));
    let error = publish(&publisher, "payments", b"1", HeaderMap::new())
        .await
        .unwrap_err();
    let rows = stand.rows().await;
    assert!(rows[0].open);
    let id = &rows[0].id;
    assert!(
        error.contains(&format!("record {id} of `payments` was saved but")),
        "{error}"
    );
    assert!(
        error.contains("the broker refused"),
        "the send's own error: {error}"
    );
}

/// Without a pool nothing is recorded and nothing is sent.
pub async fn a_publish_without_a_pool_fails_and_sends_nothing<S: Stand>() {
    let mut service = Service::<S>::with(registry::<S>())
        .start_without_pool()
        .await;
    let error = service.publish("payments", b"1").await.unwrap_err();
    assert!(
        error.contains("no pool") && error.contains("set_pool"),
        "{error}"
    );
    service.assert_nothing_sent("payments").await;
    service.stop().await;
}

/// A write lock that somebody holds is an error within the bound, and nothing is written later.
pub async fn a_held_write_lock_is_an_error_within_the_bound<S: Stand>() {
    let stand = S::open().await;
    let wait = Duration::from_millis(300);
    let service = Service::on(&stand)
        .await
        .registry(|outbox| outbox.lock_wait(wait));
    let mut service = service.leaving_open().start().await;
    let lock = stand.lock().await;
    let began = Instant::now();
    let error = service.publish("payments", b"1").await.unwrap_err();
    assert!(
        error.contains("write lock") && error.contains("first statement"),
        "{error}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "bounded: {:?}",
        began.elapsed()
    );
    S::unlock(lock).await;
    // The connection that waited is clean, and what waited wrote nothing later.
    service.publish("payments", b"2").await.unwrap();
    assert_eq!(service.next().await.payload, b"2", "nothing else was sent");
    service.stop().await;
    assert_eq!(stand.rows().await.len(), 1);
}

/// A write lock that is released in time is waited for.
pub async fn a_lock_released_within_the_bound_is_waited_for<S: Stand>() {
    let stand = S::open().await;
    let service = Service::on(&stand)
        .await
        .registry(|o| o.lock_wait(Duration::from_secs(10)));
    let service = service.leaving_open().start().await;
    let lock = stand.lock().await;
    let mut publish = pin!(service.publish("payments", b"1"));
    // It is waiting once it has been polled and did not come back.
    assert!(
        timeout(Duration::from_millis(50), &mut publish)
            .await
            .is_err()
    );
    S::unlock(lock).await;
    publish.await.unwrap();
    assert_eq!(stand.rows().await.len(), 1);
}

/// An id that is carried in is replaced: through `wrap`, and with the header in capitals.
pub async fn a_forwarded_id_becomes_a_record_of_its_own<S: Stand>() {
    let stand = S::open().await;
    let mut service = Service::on(&stand).await.start().await;
    service.publish("payments", b"1").await.unwrap();
    let first = service.next().await;
    for header in [OUTBOX_ID_HEADER, "X-RustStream-Outbox-Id"] {
        let carried = headers(&[(header, first.id().unwrap().as_bytes())]);
        service
            .publish_with("refunds", b"2", carried)
            .await
            .unwrap();
        let forwarded = service.next().await;
        assert_ne!(forwarded.id(), first.id());
        assert_eq!(
            forwarded.headers.len(),
            1,
            "one id, not two: {:?}",
            forwarded.headers
        );
    }
    service.stop().await;
    let recorded = stand.rows().await;
    assert!(recorded.iter().all(|row| !row.open), "{recorded:?}");
}

/// A handler that copies all its headers, to another name and to its own, sends new messages.
pub async fn a_handler_that_forwards_its_headers_records_each_message<S: Stand>() {
    let stand = S::open().await;
    let mut service = Service::on(&stand)
        .await
        .handler(|delivery, out| {
            Box::pin(async move {
                let to = match delivery.payload.as_slice() {
                    b"1" => Some(("payments", b"2")),
                    b"2" => Some(("refunds", b"3")),
                    _ => None,
                };
                if let Some((name, payload)) = to {
                    out.publish(name, payload, delivery.headers).await.unwrap();
                }
                HandlerOutcome::ack()
            })
        })
        .start()
        .await;
    service.publish("payments", b"1").await.unwrap();
    let mut ids = Vec::new();
    for payload in [b"1", b"2", b"3"] {
        let delivery = service.next().await;
        assert_eq!(delivery.payload, payload);
        ids.push(delivery.id().unwrap().to_owned());
    }
    service.stop().await;
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3, "each message has an id of its own");
    assert!(stand.rows().await.iter().all(|row| !row.open));
}
