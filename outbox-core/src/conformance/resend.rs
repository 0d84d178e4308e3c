//! What a resend drops: the record has neither the publish options nor, without their column, the
//! headers.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use ruststream::{Lend, OutgoingMessage, Publisher};

use super::custom::With;
use super::message::{Delivery, headers};
use super::service::{Service, registry_on};
use super::stand::{Stand, assert_closed};
use crate::{Mark, OutboxSpec, Publish, Record, Statements};

/// A message, and the partition key that it was published with.
type Sent = (Delivery, Option<&'static str>);

/// A broker whose publishes may carry a partition key.
#[derive(Clone, Default)]
struct Keyed(Arc<Mutex<Vec<Sent>>>);

impl Publisher for Keyed {
    type Payload = Lend;
    type Error = Infallible;
    type Options = &'static str;

    async fn publish(
        &self,
        msg: OutgoingMessage<'_, &[u8]>,
        key: Option<&&'static str>,
    ) -> Result<(), Infallible> {
        let delivery = Delivery {
            name: msg.name().to_owned(),
            payload: msg.payload().to_vec(),
            headers: msg.headers().clone(),
        };
        self.0.lock().unwrap().push((delivery, key.copied()));
        Ok(())
    }
}

/// A resend has the message's payload, headers and id, and no publish options.
pub async fn a_resend_has_no_publish_options<S: Stand>() {
    let stand = S::open().await;
    let outbox = registry_on(&stand, 2).await;
    let keyed = Keyed::default();
    let tenant = headers(&[("tenant", b"acme")]);
    let msg = OutgoingMessage::new("payments", b"1").with_headers(tenant);
    let wrapped = outbox.wrap(keyed.clone());
    wrapped.publish(msg, Some(&"customer 7")).await.unwrap();
    outbox.republish()(keyed.clone()).await.unwrap();
    let sent = keyed.0.lock().unwrap();
    let [(first, key), (again, no_key)] = sent.as_slice() else {
        panic!("{sent:?}");
    };
    assert_eq!((*key, *no_key), (Some("customer 7"), None));
    assert_eq!(again, first, "the same message otherwise");
}

/// The table of `R`, without its headers column.
#[derive(Debug)]
pub struct Headerless<R>(PhantomData<R>);

impl<R: Record> Record for Headerless<R> {
    type Id = R::Id;

    const SPEC: OutboxSpec = {
        let spec = OutboxSpec::new("outbox", "id", "name", "payload");
        match R::SPEC.processed_at_column() {
            Some(column) => spec.processed_at(column),
            None => spec,
        }
    };
}

impl<B: Statements<Self>, R: Record> Publish<B> for Headerless<R> {
    fn publish(
        conn: &mut B::Connection,
        msg: &OutgoingMessage<'_>,
    ) -> impl Future<Output = Result<Self::Id, B::Error>> + Send {
        B::insert(conn, msg)
    }
}

impl<B: Statements<Self>, R: Record> Mark<B> for Headerless<R> {}

/// Without a headers column a resend has the id and no other header.
pub async fn a_resend_without_a_headers_column_has_the_id_alone<S>()
where
    S: Stand<Backend: Statements<Headerless<S::Record>>>,
{
    let stand = With::<S, Headerless<S::Record>>::open().await;
    let mut service = Service::on(&stand).await.leaving_open().start().await;
    let tenant = headers(&[("tenant", b"acme")]);
    let published = service.publish_with("payments", b"1", tenant).await;
    published.unwrap();
    let first = service.next().await;
    assert_eq!(first.headers.get_str("tenant"), Some("acme"));
    service.stop().await;
    let mut service = Service::on(&stand).await.start().await;
    let again = service.next().await;
    service.stop().await;
    assert_eq!(again.id(), first.id());
    assert_eq!((again.payload, again.headers.len()), (first.payload, 1));
    assert_closed(&stand, 1).await;
}
