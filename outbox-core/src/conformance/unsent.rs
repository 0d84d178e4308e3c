//! A record whose message the broker refused, or took and lost: it is open, and the next start
//! sends it.

use std::str;
use std::sync::{Arc, Mutex};

use ruststream::runtime::{HandlerOutcome, Outgoing, PublishLayer, PublishNext, PublishPipeline};
use ruststream::{HeaderMap, Publisher};

use super::message::{headers, publish};
use super::service::{Service, registry_on};
use super::sink::Sink;
use super::stand::{Stand, assert_closed};
use crate::{BoxError, OUTBOX_ID_HEADER, OutboxError, decode_headers, encode_headers};

/// Whether a broker carries the headers whose wire has one line of text for each value.
fn fit_one_line(headers: &HeaderMap) -> bool {
    let mut values = headers.iter().map(|(_, value)| str::from_utf8(value));
    values.all(|text| text.is_ok_and(|text| !text.contains('\n')))
}

/// Headers that the table takes and such a broker does not.
fn refused() -> [HeaderMap; 2] {
    [
        headers(&[("note", b"two\nlines")]),
        headers(&[("note", b"no text: \xff\xfe")]),
    ]
}

/// Such a broker, as the innermost publish layer, if it is on.
#[derive(Debug, Clone, Copy)]
pub(super) struct OneLine(pub(super) bool);

impl PublishLayer for OneLine {
    async fn on_publish<'a, N: PublishPipeline, P: Publisher>(
        &'a self,
        out: &'a mut Outgoing<'a>,
        next: PublishNext<'a, N, P>,
    ) -> Result<(), BoxError> {
        if self.0 && !fit_one_line(out.headers()) {
            return Err("the broker refused".into());
        }
        next.run(out).await
    }
}

/// A publish whose headers the broker refuses, from outside a handler and from inside one, says
/// that its record exists, which one it is, and that the send failed; the record is open and has
/// every byte.
pub async fn a_header_that_the_broker_refuses_fails_the_publish_and_names_the_record<S: Stand>() {
    let stand = S::open().await;
    let outbox = registry_on(&stand, 2).await;
    let sink = Sink::refusing(|delivery| !fit_one_line(&delivery.headers));
    let errors = Arc::new(Mutex::new(Vec::new()));
    for headers in refused() {
        let wrapped = outbox.wrap(sink.clone());
        let published = publish(&wrapped, "payments", b"1", headers).await;
        errors.lock().unwrap().push(published.unwrap_err());
    }
    let said = Arc::clone(&errors);
    let service = Service::<S>::with(outbox).one_line_headers();
    let service = service.without_republish().handler(move |delivery, out| {
        let said = Arc::clone(&said);
        Box::pin(async move {
            let published = out.publish("payments", b"1", delivery.headers).await;
            said.lock().unwrap().push(published.unwrap_err());
            HandlerOutcome::ack()
        })
    });
    let mut service = service.start().await;
    for headers in refused() {
        service.send("audit", b"1", headers).await;
        assert_eq!(service.next().await.name, "audit");
    }
    service.idle().await;
    assert_eq!((service.stop().await, sink.sent()), (vec![], vec![]));
    let (rows, errors) = (stand.rows().await, errors.lock().unwrap());
    assert_eq!((rows.len(), errors.len()), (4, 4));
    for ((row, error), headers) in rows.iter().zip(&*errors).zip(refused().iter().cycle()) {
        let exists = format!(
            "record {} of `payments` was saved but its message was not sent",
            row.id
        );
        assert!(
            error.contains(&exists) && error.contains("the broker refused"),
            "{error}"
        );
        assert!(row.open);
        assert_eq!(
            decode_headers(row.headers.as_deref().unwrap()).unwrap(),
            *headers
        );
    }
}

/// A start on the same broker names those records, after it sent the others; one on a broker that
/// carries them sends every byte.
pub async fn a_header_that_the_broker_refuses_is_named_by_the_start<S: Stand>() {
    let stand = S::open().await;
    for headers in refused() {
        let text = encode_headers(&headers);
        stand.store("payments", Some(b"bad"), Some(&text)).await;
        stand.store("payments", Some(b"good"), None).await;
    }
    let rows = stand.rows().await;
    let sink = Sink::refusing(|delivery| !fit_one_line(&delivery.headers));
    let started = registry_on(&stand, 2).await.republish()(sink.clone()).await;
    let Err(OutboxError::NotRepublished(report)) = started else {
        panic!("{started:?}");
    };
    let failures = report.failures().iter();
    let named: Vec<_> = failures.filter_map(|failure| failure.id()).collect();
    assert_eq!(named, [&rows[0].id, &rows[2].id]);
    assert_eq!(sink.payloads(), [b"good", b"good"]);
    let mut service = Service::on(&stand).await.start().await;
    for (row, carried) in rows.iter().step_by(2).zip(refused()) {
        let mut delivery = service.next().await;
        assert_eq!(delivery.id(), Some(row.id.as_str()));
        delivery.headers.remove(OUTBOX_ID_HEADER);
        assert_eq!(delivery.headers, carried, "every byte");
        assert_eq!(service.next().await.payload, b"good");
    }
    service.stop().await;
    assert_closed(&stand, 4).await;
}

/// A message that the broker's client took, and that was lost with the process, is sent by the
/// next start, and once more by the one after it if that one's client lost it, too: `Ok` of a
/// publish closes nothing.
pub async fn a_message_that_was_taken_and_lost_is_sent_by_the_next_start<S: Stand>() {
    let stand = S::open().await;
    let outbox = registry_on(&stand, 2).await;
    let buffer = Sink::accepting();
    let wrapped = outbox.wrap(buffer.clone());
    let tenant = headers(&[("tenant", b"acme")]);
    for name in ["payments", "refunds"] {
        let published = publish(&wrapped, name, b"1", tenant.clone()).await;
        published.unwrap();
    }
    registry_on(&stand, 2).await.republish()(buffer.clone())
        .await
        .unwrap();
    let lost = buffer.sent();
    assert_eq!(lost[..2], lost[2..], "the same messages");
    let rows = stand.rows().await;
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.open), "{rows:?}");
    let mut service = Service::on(&stand).await.start().await;
    let mut handled = [service.next().await, service.next().await];
    handled.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!(handled, lost[..2]);
    service.idle().await;
    assert_eq!(service.stop().await, []);
    assert_closed(&stand, 2).await;
}
