//! Attempts that run out outside the outbox's layer: the record waits for the next start, whatever
//! becomes of the message.

use std::time::Duration;

use ruststream::runtime::{HandlerOutcome, RETRY_COUNT_HEADER};

use super::message::{Delivery, Settle, headers, id_header};
use super::service::{Builder, Service};
use super::stand::{Stand, assert_closed, deletes};
use crate::encode_headers;

const SOON: Duration = Duration::from_millis(10);

/// A message that is out of attempts is rejected, and its record stays open: each start gives it
/// its attempts again, until a handler acknowledges.
pub async fn a_message_out_of_attempts_comes_back_at_each_start<S: Stand>() {
    let stand = S::open().await;
    let id = stand.store("payments", Some(b"1"), None).await;
    let retries = [Settle::Retry, Settle::RetryAfter(SOON)];
    for _start in 0..2 {
        let service = Service::on(&stand).await.attempts(2, None);
        let mut service = service.outcomes(retries).start().await;
        for retry in retries {
            assert_eq!(service.next().await.id(), Some(id.as_str()));
            assert_eq!(service.outcome().await, retry);
        }
        service.idle().await;
        assert_eq!(service.stop().await, [], "it is out of attempts");
        assert!(stand.rows().await[0].open);
    }
    let mut service = Service::on(&stand).await.start().await;
    assert_eq!(service.next().await.id(), Some(id.as_str()));
    service.stop().await;
    assert_closed(&stand, 1).await;
}

/// A service whose payments go to a dead letter after two attempts.
async fn giving_up<S: Stand>(stand: &S, dead_letter: &'static str) -> Builder<S> {
    let service = Service::on(stand).await.attempts(2, Some(dead_letter));
    service.handler(|delivery, _| {
        Box::pin(async move {
            if delivery.name == "payments" {
                HandlerOutcome::retry()
            } else {
                HandlerOutcome::ack()
            }
        })
    })
}

/// Starts that service, and returns the dead letter that it makes of the one open payment.
async fn dead_letter<S: Stand>(stand: &S, id: &str, name: &'static str) -> Delivery {
    let mut service = giving_up(stand, name).await.start().await;
    for _attempt in 0..2 {
        let delivery = service.next().await;
        assert_eq!(delivery.name, "payments");
        assert_eq!(delivery.id(), Some(id));
    }
    let copy = service.next().await;
    assert_eq!(
        (copy.name.as_str(), copy.payload.as_slice()),
        (name, b"1".as_slice())
    );
    assert!(copy.headers.contains(RETRY_COUNT_HEADER), "{copy:?}");
    service.idle().await;
    assert_eq!(service.stop().await, []);
    copy
}

/// A dead letter of a registered name is a message of its own: it has a record, which its own
/// handler closes, while that of the payment stays open.
pub async fn a_dead_letter_of_a_registered_name_has_a_record_of_its_own<S: Stand>() {
    let stand = S::open().await;
    let tenant = encode_headers(&headers(&[("tenant", b"acme")]));
    let id = stand.store("payments", Some(b"1"), Some(&tenant)).await;
    let mut ids = vec![id.clone()];
    for _start in 0..2 {
        let copy = dead_letter(&stand, &id, "refunds").await;
        assert_eq!(copy.headers.get_str("tenant"), Some("acme"));
        ids.push(copy.id().unwrap().to_owned());
    }
    let rows = stand.rows().await;
    let (open, closed): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.open);
    assert_eq!(open.len(), 1, "{rows:?}");
    assert_eq!(open[0].id, id);
    assert!(closed.iter().all(|row| row.name == "refunds"));
    assert_eq!(closed.len(), if deletes::<S>() { 0 } else { 2 });
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3, "each start made one");
}

/// A dead letter of any other name passes as it is, and its handler closes nothing.
pub async fn a_dead_letter_of_another_name_passes<S: Stand>() {
    let stand = S::open().await;
    let id = stand.store("payments", Some(b"1"), None).await;
    for _start in 0..2 {
        let copy = dead_letter(&stand, &id, "audit").await;
        assert_eq!(copy.id(), Some(id.as_str()));
        let rows = stand.rows().await;
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert!(rows[0].open);
    }
}

/// Deliveries that come back because the database is away count as attempts. The dead letter that
/// they end in is recorded or not sent; the payment, which no handler saw, waits for the start.
pub async fn attempts_that_an_outage_spends_leave_the_record_open<S: Stand>() {
    for (name, reached) in [("refunds", 0), ("audit", 1)] {
        let stand = S::open().await;
        let id = stand.store("payments", Some(b"1"), None).await;
        let service = giving_up(&stand, name).await.without_republish();
        let service = service.registry(|outbox| outbox.retry_delay(SOON));
        let mut service = service.start().await;
        stand.hide_table(true).await;
        service.send("payments", b"1", id_header(&id)).await;
        for _attempt in 0..2 {
            assert_eq!(service.outcome().await, Settle::RetryAfter(SOON));
        }
        // The dead letter leaves, and then it is handled.
        service.idle().await;
        service.idle().await;
        assert_eq!(service.outcomes(), vec![Settle::Ack; reached]);
        let handled = service.stop().await;
        assert_eq!(handled.len(), reached);
        assert!(handled.iter().all(|run| run.name == name), "{handled:?}");
        stand.hide_table(false).await;
        assert_eq!(stand.rows().await.len(), 1);
        let mut service = Service::on(&stand).await.start().await;
        assert_eq!(service.next().await.id(), Some(id.as_str()));
        service.stop().await;
        assert_closed(&stand, 1).await;
    }
}
