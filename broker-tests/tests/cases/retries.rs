//! The copies that the runtime itself makes of a delivery, and those that a handler forwards.

use std::sync::Arc;
use std::time::Duration;

use broker_tests::{Broker, Database, Delivery, Driver, Names, Result, Service, cases};
use outbox_core::OUTBOX_ID_HEADER;
use ruststream::HeaderMap;
use ruststream::runtime::{HandlerOutcome, RETRY_COUNT_HEADER};

use crate::support::{Handled, Logs, acknowledge};

cases! {
    three_retries_and_an_ack_leave_one_record,
    a_copy_that_leaves_while_the_database_is_away_keeps_its_record,
    a_forwarded_message_is_a_record_of_its_own,
    a_message_forwarded_through_wrap_is_a_record_of_its_own,
}

const LATER: Duration = Duration::from_millis(10);

/// How often a delivery was retried before.
fn count(delivery: &Delivery) -> u32 {
    let count = delivery.headers.get_str(RETRY_COUNT_HEADER);
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

async fn three_retries_and_an_ack_leave_one_record<D: Driver>(broker: Broker) -> Result {
    let (database, names) = (Database::create(D::KIND).await?, Names::unique());
    let (taken, mut handled) = Handled::new();
    let service = Service::<D>::on(broker, &database, &names)?
        .handler(move |delivery, _| {
            let again = count(&delivery) < 3;
            taken.send(delivery).ok();
            Box::pin(async move {
                if again {
                    return HandlerOutcome::retry_after(LATER);
                }
                HandlerOutcome::ack()
            })
        })
        .start()
        .await?;

    service.publish(&names.payments, b"1").await?;

    for retries in 0..=3 {
        let delivery = handled.next().await?;
        assert_eq!((delivery.id(), count(delivery)), (Some("1"), retries));
        assert_eq!(database.rows().await?.len(), 1);
    }
    service.stop().await?;
    let rows = database.rows().await?;
    assert_eq!((rows.len(), rows[0].open), (1, false));
    Ok(())
}

async fn a_copy_that_leaves_while_the_database_is_away_keeps_its_record<D: Driver>(
    broker: Broker,
) -> Result {
    let (database, names) = (Arc::new(Database::create(D::KIND).await?), Names::unique());
    let logs = Logs::listen();
    let (taken, mut handled) = Handled::new();
    let away = Arc::clone(&database);
    let service = Service::<D>::on(broker, &database, &names)?
        .registry(|registry| registry.retry_delay(LATER))
        .handler(move |delivery, _| {
            let (first, away) = (count(&delivery) == 0, Arc::clone(&away));
            taken.send(delivery).ok();
            Box::pin(async move {
                if !first {
                    return HandlerOutcome::ack();
                }
                let hidden = away.execute("ALTER TABLE outbox RENAME TO hidden").await;
                assert!(hidden.is_ok(), "{hidden:?}");
                HandlerOutcome::retry_after(LATER)
            })
        })
        .start()
        .await?;
    service.publish(&names.payments, b"1").await?;
    assert_eq!(handled.next().await?.id(), Some("1"));

    // The copy arrived, and so did the copy that the outbox itself asks for.
    let unread = ["ERROR", &*names.payments, "could not be read"];
    logs.said(2, &unread).await?;
    database
        .execute("ALTER TABLE hidden RENAME TO outbox")
        .await?;

    let delivery = handled.next().await?;
    assert_eq!(delivery.id(), Some("1"));
    assert!(count(delivery) > 2, "{delivery:?}");
    service.stop().await?;
    let rows = database.rows().await?;
    assert_eq!((rows.len(), rows[0].open), (1, false));
    Ok(())
}

/// To its own name on a delivery that is a retry copy, and then to another one.
async fn a_forwarded_message_is_a_record_of_its_own<D: Driver>(broker: Broker) -> Result {
    let (database, names) = (Database::create(D::KIND).await?, Names::unique());
    let (taken, mut handled) = Handled::new();
    let to = names.clone();
    let service = Service::<D>::on(broker, &database, &names)?
        .handler(move |delivery, out| {
            let to = to.clone();
            taken.send(delivery.clone()).ok();
            Box::pin(async move {
                let headers = delivery.headers.clone();
                let forwarded = match &*delivery.payload {
                    b"1" if count(&delivery) == 0 => return HandlerOutcome::retry_after(LATER),
                    b"1" => out.publish(&to.payments, b"2", headers).await,
                    b"2" => out.publish(&to.refunds, b"3", headers).await,
                    _ => Ok(()),
                };
                assert!(forwarded.is_ok(), "{forwarded:?}");
                HandlerOutcome::ack()
            })
        })
        .start()
        .await?;

    service.publish(&names.payments, b"1").await?;

    for (payload, id) in [(b"1", "1"), (b"1", "1"), (b"2", "2"), (b"3", "3")] {
        let delivery = handled.next().await?;
        assert_eq!(
            (&*delivery.payload, delivery.id()),
            (&payload[..], Some(id))
        );
    }
    service.stop().await?;
    let rows = database.rows().await?;
    let rows: Vec<_> = rows.iter().map(|row| (&*row.payload, row.open)).collect();
    assert_eq!(rows, [(&b"1"[..], false), (b"2", false), (b"3", false)]);
    Ok(())
}

/// With the id's header in capitals, and in small letters.
async fn a_message_forwarded_through_wrap_is_a_record_of_its_own<D: Driver>(
    broker: Broker,
) -> Result {
    let (database, names) = (Database::create(D::KIND).await?, Names::unique());
    let (taken, mut handled) = Handled::new();
    let service = Service::<D>::on(broker, &database, &names)?
        .handler(acknowledge(taken, Duration::ZERO))
        .start()
        .await?;
    let publisher = service.publisher();
    service.publish(&names.payments, b"1").await?;
    let first = handled.next().await?.clone();
    assert_eq!(first.id(), Some("1"));

    let capitals = OUTBOX_ID_HEADER.to_uppercase();
    for (header, id) in [(OUTBOX_ID_HEADER, "2"), (&capitals, "3")] {
        let mut headers = HeaderMap::new();
        headers.insert(header.to_owned(), b"1".to_vec());
        headers.insert(RETRY_COUNT_HEADER, b"1".to_vec());
        publisher
            .publish(&names.payments, b"again", headers)
            .await?;
        let delivery = handled.next().await?;
        assert_eq!(
            (&*delivery.payload, delivery.id()),
            (&b"again"[..], Some(id))
        );
    }
    service.stop().await?;
    let rows = database.rows().await?;
    assert_eq!(
        (rows.len(), rows.iter().filter(|row| row.open).count()),
        (3, 0)
    );
    Ok(())
}
