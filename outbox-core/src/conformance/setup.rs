//! The registry as a service sets it up: names, pools, handles, and what wraps what.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ruststream::HeaderMap;
use ruststream::runtime::HandlerOutcome;

use super::custom::Fetching;
use super::message::{Delivery, publish};
use super::service::{Service, registry, registry_on};
use super::sink::Sink;
use super::stand::{Stand, assert_closed};
use crate::{OutboxError, Statements};

/// The message of the panic that a mistake in the set-up ends in.
fn refusal<T>(mistake: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(mistake))
        .map(drop)
        .unwrap_err();
    let panic: Box<dyn Any> = panic;
    *panic.downcast::<String>().unwrap()
}

/// Mistakes in the set-up are refused where the app is built, with the name and what to do.
pub async fn mistakes_in_the_setup_are_refused<S>()
where
    S: Stand<Backend: Statements<Fetching<S::Record>>>,
{
    let stand = S::open().await;
    let outbox = registry_on(&stand, 1).await;
    let twice = refusal(|| outbox.clone().register::<S::Record>("payments"));
    assert!(twice.contains("`payments` is registered"), "{twice}");
    assert!(twice.contains("each name once"), "{twice}");
    let unknown = refusal(|| outbox.handle::<S::Record>("ledger"));
    assert!(unknown.contains("`ledger` is not registered"), "{unknown}");
    let other = refusal(|| outbox.handle::<Fetching<S::Record>>("payments"));
    assert!(other.contains("`payments` is registered"), "{other}");
    assert!(other.contains("Fetching"), "the type: {other}");
    let unsent = refusal(|| outbox.republish_names::<Sink>(["refunds", "ledger"]));
    assert!(unsent.contains("`ledger` is not registered"), "{unsent}");
    assert!(unsent.contains("republish_names"), "{unsent}");
}

/// A pool that is set later is the pool of every clone, layer, handle and wrapped publisher.
pub async fn every_handle_sees_a_pool_that_is_set_later<S: Stand>() {
    let stand = S::open().await;
    let outbox = registry::<S>();
    let (clone, sink) = (outbox.clone(), Sink::accepting());
    let wrapped = outbox.wrap(sink.clone());
    let handle = outbox.handle::<S::Record>("payments").wrap(sink.clone());
    let republish = outbox.republish();
    clone.set_pool(stand.pool(2).await).unwrap();
    publish(&wrapped, "payments", b"1", HeaderMap::new())
        .await
        .unwrap();
    publish(&handle, "payments", b"2", HeaderMap::new())
        .await
        .unwrap();
    assert_eq!(stand.rows().await.len(), 2);
    republish(sink.clone()).await.unwrap();
    assert_eq!(sink.payloads(), [b"1", b"2", b"1", b"2"]);
}

/// A handle tracks its own name alone.
pub async fn a_handle_passes_the_other_names<S: Stand>() {
    let stand = S::open().await;
    let outbox = registry_on(&stand, 2).await;
    let sink = Sink::accepting();
    let handle = outbox.handle::<S::Record>("payments").wrap(sink.clone());
    publish(&handle, "refunds", b"1", HeaderMap::new())
        .await
        .unwrap();
    publish(&handle, "payments", b"2", HeaderMap::new())
        .await
        .unwrap();
    let recorded: Vec<_> = stand.rows().await.into_iter().map(|row| row.name).collect();
    assert_eq!(recorded, ["payments"]);
    let ids: Vec<_> = sink.sent().iter().map(|sent| sent.id().is_some()).collect();
    assert_eq!(ids, [false, true]);
}

/// A second pool is refused, and the first one stays.
pub async fn a_second_pool_is_refused_and_the_first_one_stays<S: Stand>() {
    let (first, second) = (S::open().await, S::open().await);
    let mut service = Service::on(&first).await.start().await;
    let refused = service.outbox.set_pool(second.pool(2).await).unwrap_err();
    assert!(matches!(refused, OutboxError::PoolAlreadySet), "{refused}");
    service.publish("payments", b"1").await.unwrap();
    service.next().await;
    service.stop().await;
    assert_closed(&first, 1).await;
    assert_eq!(second.rows().await, []);
}

/// A publish layer that wraps payloads runs outside the outbox's: the record holds what finally
/// leaves, and the start sends it again as it was.
pub async fn what_a_publish_layer_wraps_is_recorded_wrapped<S: Stand>() {
    let stand = S::open().await;
    let mut service = Service::on(&stand)
        .await
        .enveloped()
        .handler(|delivery, out| {
            Box::pin(async move {
                if delivery.name == "audit" {
                    let published = out.publish("payments", b"1", HeaderMap::new()).await;
                    published.unwrap();
                }
                HandlerOutcome::retry_after(Duration::from_hours(1))
            })
        })
        .start()
        .await;
    service.publish("audit", b"").await.unwrap();
    service.next().await;
    let first: Delivery = service.next().await;
    service.stop().await;
    assert_eq!(first.payload, b"<1>");
    assert_eq!(first.headers.get("envelope"), Some(b"brackets".as_slice()));
    let rows = stand.rows().await;
    assert_eq!(rows[0].payload.as_deref(), Some(b"<1>".as_slice()));
    let mut service = Service::on(&stand).await.enveloped().start().await;
    assert_eq!(service.next().await, first, "as it was sent the first time");
    service.stop().await;
    assert_closed(&stand, 1).await;
}
