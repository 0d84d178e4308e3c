//! The pace of a start: as far ahead of the handlers as the window, and no further.

use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ruststream::memory::prelude::MemoryBroker;
use ruststream::runtime::HandlerOutcome;
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};
use tracing::Level;

use super::logs::Logs;
use super::message::publish;
use super::service::{Service, registry, registry_on};
use super::sink::Sink;
use super::stand::{Stand, assert_closed};
use crate::Backend;

/// A broker that sends on to another one.
fn forwarding(broker: &MemoryBroker) -> Sink {
    let publisher = broker.publisher();
    Sink::new(move |delivery| {
        let publisher = publisher.clone();
        Box::pin(async move {
            let sent = publish(
                &publisher,
                &delivery.name,
                &delivery.payload,
                delivery.headers,
            );
            sent.await.map_err(std::io::Error::other)
        })
    })
}

/// At most a window of records is sent and not yet taken up; each one that is makes room for one.
pub async fn a_start_is_at_most_a_window_ahead_of_the_handlers<S: Stand>() {
    let stand = S::open().await;
    for _ in 0..10 {
        stand.store("payments", Some(b"1"), None).await;
    }
    let (broker, permits) = (MemoryBroker::new(), Arc::new(Semaphore::new(0)));
    let (sink, blocked) = (forwarding(&broker), Arc::clone(&permits));
    let outbox = registry_on(&stand, 4).await.republish_window(3);
    let outbox = outbox.republish_patience(Duration::from_secs(20));
    let service = Service::<S>::with(outbox.clone()).broker(broker);
    let service = service.handler(move |_, _| {
        let blocked = Arc::clone(&blocked);
        Box::pin(async move {
            blocked.acquire().await.unwrap().forget();
            HandlerOutcome::ack()
        })
    });
    let mut service = service.without_republish().start().await;
    let start = tokio::spawn(outbox.republish()(sink.clone()));
    for handled in 0..10 {
        service.next().await;
        // This one is taken up and waits for its permit; a window of others is ahead of it.
        for _ in 0..100 {
            yield_now().await;
        }
        assert_eq!(sink.asked().len(), (handled + 1 + 3).min(10));
        permits.add_permits(1);
    }
    start.await.unwrap().unwrap();
    service.idle().await;
    service.stop().await;
    assert_closed(&stand, 10).await;
}

/// A backlog of more than a few pages is handled in one start, each record once.
pub async fn a_large_backlog_is_handled_in_one_start<S: Stand>() {
    const BACKLOG: usize = 1_000;
    let stand = S::open().await;
    for _ in 0..BACKLOG {
        stand.store("payments", Some(b"1"), None).await;
    }
    let logs = Logs::capture();
    let service = Service::on(&stand).await.handler(|_, _| {
        Box::pin(async {
            for _ in 0..20 {
                yield_now().await;
            }
            HandlerOutcome::ack()
        })
    });
    let mut service = service.start().await;
    service.idle().await;
    assert_eq!(service.outcomes().len(), BACKLOG, "each is sent once");
    let handled = service.stop().await;
    let mut ids: Vec<_> = handled.iter().map(|handled| handled.id()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((handled.len(), ids.len()), (BACKLOG, BACKLOG));
    assert_closed(&stand, BACKLOG).await;
    assert_eq!(logs.complaints(), [""; 0]);
}

/// Where the receiver is elsewhere, one line says so for each name, and all is sent in windows
/// with a pause between them.
pub async fn a_receiver_elsewhere_is_sent_all_in_windows<S: Stand>() {
    let stand = S::open().await;
    for at in 0..14 {
        let name = ["payments", "refunds"][at % 2];
        stand.store(name, Some(b"1"), None).await;
    }
    let patience = Duration::from_millis(20);
    let outbox = registry_on(&stand, 2).await.republish_window(2);
    let outbox = outbox.republish_patience(patience);
    let times = Arc::new(Mutex::new(Vec::new()));
    let sent = Arc::clone(&times);
    let sink = Sink::new(move |_| {
        sent.lock().unwrap().push(Instant::now());
        Box::pin(ready(Ok(())))
    });
    let logs = Logs::capture();
    outbox.republish()(sink.clone()).await.unwrap();
    assert_eq!(sink.sent().len(), 14);
    for name in ["payments", "refunds"] {
        let said = logs.lines(Level::WARN, &[name, "elsewhere"]);
        assert_eq!(said.len(), 1, "{said:?}");
    }
    assert_eq!(logs.complaints().len(), 2);
    let times = times.lock().unwrap();
    for name in times.chunks(7) {
        for window in name.windows(3).step_by(2) {
            assert!(window[2] - window[0] >= patience, "a pause between windows");
        }
    }
}

/// No connection is held while a record is sent: the broker's own client may take the only one.
pub async fn a_start_holds_no_connection_while_it_sends<S: Stand>() {
    let stand = S::open().await;
    for name in ["payments", "payments", "refunds"] {
        stand.store(name, Some(b"1"), None).await;
    }
    let pool = stand.pool(1).await;
    let outbox = registry::<S>();
    outbox.set_pool(pool.clone()).unwrap();
    let sink = Sink::new(move |_| {
        let pool = pool.clone();
        Box::pin(async move {
            let acquired = timeout(Duration::from_secs(2), S::Backend::acquire(&pool)).await;
            let acquired = acquired.map_err(std::io::Error::other)?;
            acquired.map(drop).map_err(std::io::Error::other)
        })
    });
    outbox.republish()(sink.clone()).await.unwrap();
    assert_eq!(sink.sent().len(), 3);
}

/// A record that was not sent takes no room in the window.
pub async fn a_record_that_was_not_sent_takes_no_room<S: Stand>() {
    let stand = S::open().await;
    let payloads: [&[u8]; 4] = [b"bad", b"good", b"bad", b"good"];
    for payload in payloads {
        stand.store("payments", Some(payload), None).await;
    }
    let patience = Duration::from_secs(20);
    let outbox = registry_on(&stand, 2).await.republish_window(1);
    let outbox = outbox.republish_patience(patience);
    let (broker, refused) = (MemoryBroker::new(), AtomicUsize::new(0));
    let service = Service::<S>::with(outbox.clone()).broker(broker.clone());
    let mut service = service.without_republish().start().await;
    let forward = broker.publisher();
    let sink = Sink::new(move |delivery| {
        let forward = forward.clone();
        let bad = delivery.payload == b"bad";
        refused.fetch_add(usize::from(bad), Ordering::Relaxed);
        Box::pin(async move {
            if bad {
                return Err(std::io::Error::other("the broker refused"));
            }
            let sent = publish(&forward, "payments", b"good", delivery.headers);
            sent.await.map_err(std::io::Error::other)
        })
    });
    let began = Instant::now();
    outbox.republish()(sink.clone()).await.unwrap_err();
    assert!(
        began.elapsed() < patience,
        "it waited for what was not sent"
    );
    assert_eq!(sink.sent().len(), 2);
    service.idle().await;
    assert_eq!(service.stop().await.len(), 2);
}
