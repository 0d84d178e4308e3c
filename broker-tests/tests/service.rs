//! The service under test is what the other tests take it for.

use broker_tests::{Broker, Database, Driver, Names, Result, Service, cases};
use ruststream::HeaderMap;
use ruststream::runtime::HandlerOutcome;
use tokio::sync::mpsc::unbounded_channel;

cases! {
    a_message_is_recorded_handled_and_marked,
    what_bypasses_the_outbox_has_no_record,
    open_records_are_sent_again_at_the_start,
}

async fn a_message_is_recorded_handled_and_marked<D: Driver>(broker: Broker) -> Result {
    let (database, names) = (Database::create(D::KIND).await?, Names::unique());
    let (taken, mut deliveries) = unbounded_channel();
    let service = Service::<D>::on(broker, &database, &names)?
        .handler(move |delivery, _| {
            taken.send(delivery).ok();
            Box::pin(async { HandlerOutcome::ack() })
        })
        .start()
        .await?;

    service.publish(&names.refunds, b"1").await?;

    let delivery = deliveries.recv().await.ok_or("no handler ran")?;
    assert_eq!(delivery.name, names.refunds);
    assert_eq!(delivery.payload, b"1");
    assert_eq!(delivery.id(), Some("1"));
    service.stop().await?;
    let rows = database.rows().await?;
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].id, &*rows[0].name), (1, &*names.refunds));
    assert_eq!((&*rows[0].payload, rows[0].open), (&b"1"[..], false));
    Ok(())
}

async fn what_bypasses_the_outbox_has_no_record<D: Driver>(broker: Broker) -> Result {
    let (database, names) = (Database::create(D::KIND).await?, Names::unique());
    let (taken, mut deliveries) = unbounded_channel();
    let service = Service::<D>::on(broker, &database, &names)?
        .handler(move |delivery, _| {
            taken.send(delivery).ok();
            Box::pin(async { HandlerOutcome::ack() })
        })
        .start()
        .await?;

    let sent = service.send(&names.payments, b"1", HeaderMap::new());
    sent.await?;

    let delivery = deliveries.recv().await.ok_or("no handler ran")?;
    assert_eq!((&*delivery.payload, delivery.id()), (&b"1"[..], None));
    service.stop().await?;
    assert!(database.rows().await?.is_empty());
    Ok(())
}

async fn open_records_are_sent_again_at_the_start<D: Driver>(broker: Broker) -> Result {
    let (database, names) = (Database::create(D::KIND).await?, Names::unique());
    database.store(&names.payments, 3).await?;
    assert_eq!(database.open().await?, 3);
    let (taken, mut deliveries) = unbounded_channel();

    let service = Service::<D>::on(broker, &database, &names)?
        .handler(move |delivery, _| {
            taken.send(delivery.payload).ok();
            Box::pin(async { HandlerOutcome::ack() })
        })
        .start()
        .await?;

    for payload in ["1", "2", "3"] {
        assert_eq!(deliveries.recv().await.as_deref(), Some(payload.as_bytes()));
    }
    service.stop().await?;
    assert_eq!(database.open().await?, 0);
    Ok(())
}
