//! The start: what is open is sent again, once, in order, and only that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ruststream::HeaderMap;
use ruststream::runtime::HandlerOutcome;
use tokio::join;
use tokio::sync::{Barrier, Semaphore};
use tokio::task::yield_now;
use tracing::Level;

use super::logs::Logs;
use super::message::{Delivery, Settle, headers};
use super::service::{Service, registry_on};
use super::sink::Sink;
use super::stand::{Row, Stand, assert_closed, deletes};
use crate::{OUTBOX_ID_HEADER, decode_headers, encode_headers};

/// What a start must send of a row.
fn resent(row: &Row) -> Delivery {
    let headers = row.headers.as_deref().map(decode_headers);
    let mut headers = headers.transpose().unwrap().unwrap_or_default();
    headers.insert(OUTBOX_ID_HEADER, row.id.clone());
    Delivery {
        name: row.name.clone(),
        payload: row.payload.clone().unwrap(),
        headers,
    }
}

/// Every open record of a registered name is sent again with its id, its payload and every byte of
/// its headers: name by name as they were registered, each in the order of ids.
pub async fn open_records_are_sent_again_in_order<S: Stand>() {
    let stand = S::open().await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let kept = headers(&[
        ("tenant", b"acme \"\\ \n \0 \xc3\xa4"),
        ("empty", b""),
        ("bytes", &every_byte),
    ]);
    let carried = headers(&[("X-RustStream-Outbox-Id", b"forged")]);
    let texts = [
        None,
        Some(encode_headers(&kept)),
        Some(encode_headers(&carried)),
    ];
    let names = [
        "refunds", "payments", "audit", "payments", "refunds", "payments",
    ];
    for (name, text) in names.into_iter().zip(texts.iter().cycle()) {
        let payload = format!("{name} {every_byte:?}");
        stand
            .store(name, Some(payload.as_bytes()), text.as_deref())
            .await;
    }
    stand.store("payments", Some(b""), None).await;
    let processed = stand.store("payments", Some(b"processed"), None).await;
    stand.close(&processed).await;
    let rows = stand.rows().await;
    let of = |name| rows.iter().filter(move |row| row.open && row.name == name);
    let expected: Vec<_> = of("payments").chain(of("refunds")).map(resent).collect();
    assert_eq!(expected.len(), 6);
    let (outbox, sink) = (registry_on(&stand, 2).await, Sink::accepting());
    outbox.republish()(sink.clone()).await.unwrap();
    assert_eq!(sink.sent(), expected);
    assert_eq!(stand.rows().await, rows, "no record is written or closed");
}

/// The publisher's own headers lie under the stored ones.
pub async fn the_publishers_own_headers_lie_under_the_stored_ones<S: Stand>() {
    let stand = S::open().await;
    let stored = encode_headers(&headers(&[("tenant", b"acme")]));
    let id = stand.store("payments", Some(b"1"), Some(&stored)).await;
    let own = headers(&[("tenant", b"none"), ("producer", b"checkout")]);
    let (outbox, sink) = (
        registry_on(&stand, 2).await,
        Sink::accepting().with_base(own),
    );
    outbox.republish()(sink.clone()).await.unwrap();
    let sent = sink.sent().remove(0).headers;
    assert_eq!(sent.get("tenant"), Some(b"acme".as_slice()));
    assert_eq!(sent.get("producer"), Some(b"checkout".as_slice()));
    assert_eq!(sent.get(OUTBOX_ID_HEADER), Some(id.as_bytes()));
    assert_eq!(sent.len(), 3);
}

/// What the start sends becomes no new record, and is processed once its handlers acknowledged.
pub async fn what_the_start_sends_is_processed_by_its_handlers<S: Stand>() {
    let stand = S::open().await;
    let mut stored = Vec::new();
    for name in ["payments", "refunds", "payments"] {
        stored.push(stand.store(name, Some(b"1"), None).await);
    }
    let logs = Logs::capture();
    let mut service = Service::on(&stand).await.start().await;
    let mut handled = Vec::new();
    for _ in &stored {
        handled.push(service.next().await.id().unwrap().to_owned());
    }
    service.idle().await;
    assert_eq!(service.outcomes(), [Settle::Ack; 3], "each is sent once");
    assert_eq!(service.stop().await, []);
    for (name, open) in [("payments", "open=2"), ("refunds", "open=1")] {
        assert!(!logs.lines(Level::INFO, &[name, open]).is_empty());
    }
    handled.sort();
    stored.sort();
    assert_eq!(handled, stored);
    assert_closed(&stand, 3).await;
    let mut again = Service::on(&stand).await.start().await;
    again.idle().await;
    assert_eq!(again.stop().await, [], "nothing is open any more");
}

/// Live traffic of the own process meanwhile: only what was open when the start began is sent by
/// it, so that each record reaches its handler once.
pub async fn the_start_sends_nothing_that_is_published_meanwhile<S: Stand>() {
    let stand = S::open().await;
    for _ in 0..4 {
        stand.store("payments", Some(b"stored"), None).await;
    }
    let mut service = Service::on(&stand)
        .await
        .registry(|outbox| outbox.republish_window(1))
        .handler(|delivery, out| {
            Box::pin(async move {
                if delivery.payload == b"stored" {
                    for name in ["payments", "refunds"] {
                        let published = out.publish(name, b"new", HeaderMap::new()).await;
                        published.unwrap();
                    }
                }
                HandlerOutcome::ack()
            })
        })
        .start()
        .await;
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.push(service.next().await.id().unwrap().to_owned());
    }
    service.idle().await;
    assert_eq!(service.outcomes(), [Settle::Ack; 12], "each is sent once");
    assert_eq!(service.stop().await, []);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 12);
    assert_closed(&stand, 12).await;
}

/// Two of these fit a page.
const LARGE: usize = 3 * 1024 * 1024 / 2;

/// A record that closes after the start began and before its page is read is not sent, and one
/// that is written meanwhile is not either, wherever its id falls and whatever its name is.
pub async fn the_start_sends_what_was_open_and_still_is<S: Stand>() {
    let stand = Arc::new(S::open().await);
    for _ in 0..6 {
        stand.store("payments", Some(&vec![0; LARGE]), None).await;
    }
    let open: Vec<_> = stand.rows().await.into_iter().map(|row| row.id).collect();
    let (meanwhile, closed) = (Arc::clone(&stand), [open[2].clone(), open[5].clone()]);
    let first = AtomicBool::new(true);
    let sink = Sink::new(move |_| {
        let (meanwhile, closed) = (Arc::clone(&meanwhile), closed.clone());
        let first = first.swap(false, Ordering::Relaxed);
        Box::pin(async move {
            for id in closed.iter().filter(|_| first) {
                meanwhile.close(id).await;
                for _ in 0..5 {
                    meanwhile.store("payments", Some(b"new"), None).await;
                    meanwhile.store("refunds", Some(b"new"), None).await;
                }
            }
            Ok(())
        })
    });
    let outbox = registry_on(&*stand, 2).await;
    outbox.republish()(sink.clone()).await.unwrap();
    let sent = sink.sent();
    let sent: Vec<_> = sent.iter().filter_map(Delivery::id).collect();
    assert_eq!(sent, [&open[0], &open[1], &open[3], &open[4]]);
}

/// Those names alone are sent that the start was given, whatever else is open.
pub async fn a_start_for_some_names_sends_those_alone<S: Stand>() {
    let stand = S::open().await;
    stand.store("payments", Some(b"1"), None).await;
    stand.store("refunds", Some(b"2"), None).await;
    let outbox = registry_on(&stand, 2).await;
    for (names, payloads) in [
        (vec!["refunds"], vec![b"2"]),
        (vec!["refunds", "payments"], vec![b"1", b"2"]),
        (vec![], vec![]),
    ] {
        let sink = Sink::accepting();
        outbox.republish_names(names)(sink.clone()).await.unwrap();
        assert_eq!(sink.payloads(), payloads);
    }
}

/// Instances that start together, and one that starts while they work, may each send and run a
/// record; none is lost, the mark that comes second is no error, and a later start finds nothing
/// open.
pub async fn instances_that_start_together_lose_nothing<S: Stand>() {
    let stand = S::open().await;
    for _ in 0..100 {
        stand.store("payments", Some(b"1"), None).await;
    }
    let ids: Vec<_> = stand.rows().await.into_iter().map(|row| row.id).collect();
    let logs = Logs::capture();
    let (together, working) = (Arc::new(Barrier::new(2)), Arc::new(Semaphore::new(0)));
    let slow = async |is_early: bool| {
        let (together, working) = (Arc::clone(&together), Arc::clone(&working));
        let handled = AtomicUsize::new(0);
        let service = Service::on(&stand).await.handler(move |_, _| {
            let (together, working) = (Arc::clone(&together), Arc::clone(&working));
            let handled = handled.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                // Both run the first record before either marks it.
                if is_early && handled == 0 {
                    together.wait().await;
                    working.add_permits(1);
                }
                for _ in 0..10 {
                    yield_now().await;
                }
                HandlerOutcome::ack()
            })
        });
        let patient = service.registry(|o| o.republish_patience(Duration::from_secs(20)));
        let mut service = patient.start().await;
        service.idle().await;
        service.stop().await
    };
    let later = async {
        working.acquire().await.unwrap().forget();
        slow(false).await
    };
    let (mut handled, second, third) = join!(slow(true), slow(true), later);
    assert_eq!(slow(false).await, [], "nothing is open any more");
    handled.extend(second.into_iter().chain(third));
    for id in &ids {
        let runs = handled.iter().filter(|run| run.id() == Some(id)).count();
        assert!((1..=3).contains(&runs), "{id} was handled {runs} times");
    }
    assert_closed(&stand, 100).await;
    assert_eq!(logs.lines(Level::ERROR, &[]), [""; 0]);
    if deletes::<S>() {
        assert_eq!(logs.complaints(), [""; 0]);
    } else {
        assert!(
            !logs
                .lines(Level::WARN, &[&ids[0], "no open record"])
                .is_empty()
        );
    }
}
