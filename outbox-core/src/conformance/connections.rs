//! Connections: who holds one, who gives one back, and in what state.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use ruststream::HeaderMap;
use ruststream::runtime::HandlerOutcome;
use tokio::time::Instant;

use super::service::{Service, registry};
use super::stand::Stand;
use crate::Backend;

/// A publish that gets no connection fails within the timeout, and says how to size the pool.
pub async fn a_publish_on_an_exhausted_pool_fails_within_the_timeout<S: Stand>() {
    let stand = S::open().await;
    let pool = stand.pool(1).await;
    let outbox = registry::<S>().acquire_timeout(Duration::from_millis(200));
    outbox.set_pool(pool.clone()).unwrap();
    let service = Service::<S>::with(outbox).start().await;
    let held = S::Backend::acquire(&pool).await.unwrap();
    let began = Instant::now();
    let error = service.publish("payments", b"1").await.unwrap_err();
    assert!(
        error.contains("came free") && error.contains("one connection more"),
        "{error}"
    );
    assert!(
        error.contains(S::Backend::NAME),
        "it names the pool: {error}"
    );
    assert!(began.elapsed() < Duration::from_secs(5));
    drop(held);
    service.publish("payments", b"2").await.unwrap();
    service.stop().await;
}

/// Somebody's open transaction on a pooled connection hides no record of a message that was sent.
pub async fn somebodys_open_transaction_does_not_swallow_the_record<S: Stand>() {
    let stand = S::open().await;
    let pool = stand.pool(1).await;
    let outbox = registry::<S>();
    outbox.set_pool(pool.clone()).unwrap();
    let mut service = Service::<S>::with(outbox).start().await;
    let mut held = S::Backend::acquire(&pool).await.unwrap();
    S::begin_by_hand(&mut held).await;
    drop(held);
    // A publish may fail, but a message that was sent has a record that everyone sees.
    if service.publish("payments", b"1").await.is_ok() {
        let id = service.next().await.id().unwrap().to_owned();
        service.stop().await;
        let rows = stand.rows().await;
        let closed = rows.iter().all(|row| row.id == id && !row.open);
        assert!(closed, "recorded and marked for all to see: {rows:?}");
    }
}

/// A publish that is dropped, after every number of polls that it takes, leaves the pool clean.
pub async fn a_publish_cancelled_anywhere_leaves_the_pool_clean<S: Stand>() {
    let stand = S::open().await;
    let outbox = registry::<S>();
    outbox.set_pool(stand.pool(1).await).unwrap();
    let service = Service::<S>::with(outbox).without_handlers().start().await;
    for polls in 1.. {
        let before = stand.rows().await.len();
        let finished = poll_times(service.publish("payments", b"1"), polls).await;
        // No lock stays and no half-used connection comes back: the next publish goes through.
        service.publish("payments", b"2").await.unwrap();
        let left = stand.rows().await.len() - before - 1;
        assert!(left <= 1, "at most the record that the next start sends");
        if finished {
            assert_eq!(left, 1);
            break;
        }
    }
    service.stop().await;
}

/// Drops a future after it was polled `polls` times. Whether it came to its end.
pub(super) async fn poll_times<T>(future: impl Future<Output = T>, polls: usize) -> bool {
    let mut future = pin!(future);
    let mut polled = 0;
    poll_fn(|cx| {
        polled += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if polled >= polls => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// A handler on a thread of its own publishes, and then computes: nobody waits for that thread to
/// get the connection, on a pool that had not even opened it.
pub async fn a_handler_that_computes_on_its_own_thread_holds_no_connection<S: Stand>() {
    let stand = S::open().await;
    let outbox = registry::<S>();
    outbox.set_pool(stand.pool(1).await).unwrap();
    let (release, released) = channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let mut service = Service::<S>::with(outbox)
        .handler(move |delivery, out| {
            let released = Arc::clone(&released);
            if delivery.name != "reports" {
                return Box::pin(async { HandlerOutcome::ack() });
            }
            Box::pin(async move {
                out.publish("payments", b"1", HeaderMap::new())
                    .await
                    .unwrap();
                // It computes: this thread polls nothing until it is told to end.
                released
                    .lock()
                    .unwrap()
                    .recv_timeout(Duration::from_mins(1))
                    .unwrap();
                HandlerOutcome::ack()
            })
        })
        .start()
        .await;
    service.publish("reports", b"").await.unwrap();
    assert_eq!(service.next().await.name, "reports");
    // Its record is read on the main runtime, through the only connection.
    assert_eq!(service.next().await.payload, b"1");
    service.publish("payments", b"2").await.unwrap();
    assert_eq!(service.next().await.payload, b"2");
    release.send(()).unwrap();
    service.stop().await;
}
