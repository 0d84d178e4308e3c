//! A handler that comes to no outcome: it panicked, or the service went away under it.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ruststream::memory::prelude::FailurePolicy;
use ruststream::runtime::{HandlerOutcome, RustStreamError};
use tracing::Level;

use super::logs::Logs;
use super::service::Service;
use super::stand::{Stand, assert_closed};

/// The lines that say of an open record that its handler came to no outcome.
fn said(logs: &Logs, id: &str, panicked: &str) -> usize {
    let words = ["payments", id, panicked, "the record stays open"];
    logs.lines(Level::ERROR, &words).len()
}

/// A panic leaves its record open and says which one it is; the other records are handled.
pub async fn a_panic_leaves_its_record_open_and_the_others_are_handled<S: Stand>() {
    for policy in [FailurePolicy::Drop, FailurePolicy::Skip] {
        let stand = S::open().await;
        let logs = Logs::capture();
        let mut service = Service::on(&stand)
            .await
            .on_panic(policy)
            .handler(|delivery, _| {
                Box::pin(async move {
                    assert_ne!(delivery.payload, b"bad", "this panic is the case's own");
                    HandlerOutcome::ack()
                })
            })
            .start()
            .await;
        let payloads: [&[u8]; 3] = [b"good", b"bad", b"good"];
        for payload in payloads {
            service.publish("payments", payload).await.unwrap();
            assert_eq!(service.next().await.payload, payload);
        }
        service.idle().await;
        assert_eq!(service.stop().await, []);
        let rows = stand.rows().await;
        let open: Vec<_> = rows.iter().filter(|row| row.open).collect();
        assert_eq!(open.len(), 1, "{rows:?}");
        assert_eq!(open[0].payload.as_deref(), Some(b"bad".as_slice()));
        assert_eq!(said(&logs, &open[0].id, "panicked=true"), 1);
        assert_eq!(logs.complaints().len(), 1);
    }
}

/// Where a panic asks for a retry, the record is closed by the delivery that comes to an end.
pub async fn a_panic_that_is_retried_closes_its_record_later<S: Stand>() {
    let policies = [
        FailurePolicy::Retry,
        FailurePolicy::RetryAfter(Duration::from_millis(10)),
    ];
    for policy in policies {
        let stand = S::open().await;
        let logs = Logs::capture();
        let panicked = AtomicBool::new(false);
        let mut service = Service::on(&stand)
            .await
            .on_panic(policy)
            .handler(move |_, _| {
                let first = !panicked.swap(true, Ordering::Relaxed);
                Box::pin(async move {
                    assert!(!first, "this panic is the case's own");
                    HandlerOutcome::ack()
                })
            })
            .start()
            .await;
        service.publish("payments", b"1").await.unwrap();
        let delivery = service.next().await;
        assert_eq!(service.next().await, delivery, "the same message");
        service.idle().await;
        assert_eq!(service.stop().await, []);
        assert_closed(&stand, 1).await;
        assert_eq!(said(&logs, delivery.id().unwrap(), "panicked=true"), 1);
    }
}

/// Where a panic stops the service, as it does by default, the record stays open and stops the
/// next start, too.
pub async fn a_panic_that_stops_the_service_leaves_its_record_open<S: Stand>() {
    let stand = S::open().await;
    let id = stand.store("payments", Some(b"bad"), None).await;
    for _start in 0..2 {
        let logs = Logs::capture();
        let mut service = Service::on(&stand)
            .await
            .on_panic(FailurePolicy::FailFast)
            .handler(|_, _| Box::pin(async { panic!("this panic is the case's own") }))
            .start()
            .await;
        assert_eq!(service.next().await.id(), Some(id.as_str()));
        let stopped = service.stopped().await;
        assert!(matches!(stopped, RustStreamError::Dispatch(_)), "{stopped}");
        assert!(stand.rows().await[0].open);
        assert_eq!(said(&logs, &id, "panicked=true"), 1);
    }
}

/// A handler that hangs when the service stops leaves its record open, and the log says which one
/// it is.
pub async fn a_handler_that_hangs_at_the_stop_leaves_its_record_open<S: Stand>() {
    let stand = S::open().await;
    let logs = Logs::capture();
    let mut service = Service::on(&stand)
        .await
        .shutdown_timeout(Duration::from_millis(20))
        .handler(|_, _| Box::pin(pending()))
        .start()
        .await;
    service.publish("payments", b"1").await.unwrap();
    let id = service.next().await.id().unwrap().to_owned();
    service.stop().await;
    assert!(stand.rows().await[0].open);
    assert_eq!(said(&logs, &id, "panicked=false"), 1);
}
