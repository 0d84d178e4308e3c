//! A record's way around, whatever the type of its id.

use super::logs::Logs;
use super::message::{Settle, id_header};
use super::service::{Service, registry_on};
use super::sink::Sink;
use super::stand::{Stand, assert_closed};
use crate::Record;

/// An id travels as its text, finds its record at the delivery, and closes it.
pub async fn an_id_finds_its_record_and_closes_it<S: Stand>() {
    let stand = S::open().await;
    let logs = Logs::capture();
    let mut service = Service::on(&stand).await.start().await;
    let mut ids = Vec::new();
    for name in ["payments", "refunds", "payments"] {
        service.publish(name, b"1").await.unwrap();
        let delivery = service.next().await;
        let id = delivery.id().unwrap().to_owned();
        let parsed = id.parse::<<S::Record as Record>::Id>().ok().unwrap();
        assert_eq!(parsed.to_string(), id, "the text is the id's own");
        service.idle().await;
        service.send(name, b"1", id_header(&id)).await;
        service.idle().await;
        ids.push(id);
    }
    assert_eq!(service.outcomes(), [Settle::Ack; 6]);
    assert_eq!(service.stop().await, [], "the copies found it processed");
    assert_closed(&stand, 3).await;
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    assert_eq!(logs.complaints(), [""; 0]);
}

/// A record that stays open is left alone by the marks of others, and sent again by its own id.
pub async fn an_open_record_is_sent_again_by_its_id<S: Stand>() {
    let stand = S::open().await;
    let outcomes = [Settle::Retry, Settle::Ack];
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.push(stand.store("payments", Some(b"1"), None).await);
    }
    let done = sent.remove(1);
    let service = Service::on(&stand).await.outcomes(outcomes);
    let mut service = service.without_republish().start().await;
    service.send("payments", b"1", id_header(&done)).await;
    for outcome in outcomes {
        assert_eq!(service.outcome().await, outcome);
    }
    service.stop().await;
    let rows = stand.rows().await.into_iter().filter(|row| row.open);
    let open: Vec<_> = rows.map(|row| row.id).collect();
    assert_eq!(open.len(), 2);
    assert!(!open.contains(&done));
    let mut service = Service::on(&stand).await.start().await;
    for id in &open {
        assert_eq!(
            service.next().await.id(),
            Some(id.as_str()),
            "in the order of ids"
        );
    }
    service.stop().await;
    assert_closed(&stand, 3).await;
}

/// More records than a page holds are sent again, each once and in the order of ids.
pub async fn more_records_than_a_page_holds_are_sent_again<S: Stand>() {
    let stand = S::open().await;
    for _ in 0..300 {
        stand.store("payments", Some(b"1"), None).await;
    }
    let rows = stand.rows().await;
    let ids: Vec<_> = rows.iter().map(|row| row.id.as_str()).collect();
    let outbox = registry_on(&stand, 2).await.republish_window(usize::MAX);
    let sink = Sink::accepting();
    outbox.republish()(sink.clone()).await.unwrap();
    let sent = sink.sent();
    let sent: Vec<_> = sent.iter().filter_map(|sent| sent.id()).collect();
    assert_eq!(sent, ids);
}
