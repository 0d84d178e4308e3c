//! The test switch: an outbox that is off is not there.

use ruststream::HeaderMap;

use super::service::Service;
use super::stand::Stand;

/// Messages pass without a record and without an id, and what is open is left alone.
pub async fn switch_off_nothing_is_recorded_marked_or_sent_again<S: Stand>() {
    let stand = S::open().await;
    let left = stand.store("payments", Some(b"0"), None).await;
    let mut service = Service::on(&stand).await.start().await;
    service.publish("payments", b"1").await.unwrap();
    let delivery = service.next().await;
    assert_eq!(
        (delivery.payload.as_slice(), delivery.id()),
        (b"1".as_slice(), None)
    );
    let carried = super::headers(&[(crate::OUTBOX_ID_HEADER, left.as_bytes())]);
    service.send("payments", b"2", carried).await;
    assert_eq!(service.next().await.payload, b"2");
    service.send("payments", b"3", HeaderMap::new()).await;
    assert_eq!(service.next().await.payload, b"3");
    service.stop().await;
    let rows = stand.rows().await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows[0].open);
}
