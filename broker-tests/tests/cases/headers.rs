//! A header that the table takes and NATS cannot carry; Redis carries it.

use std::time::Duration;

use broker_tests::{Broker, Database, Driver, Names, Result, Service};
use ruststream::HeaderMap;
use ruststream::runtime::HandlerOutcome;

use crate::support::{Handled, acknowledge, chain};

/// Values that NATS has no form for.
const REFUSED: [&[u8]; 3] = [b"two\nlines", b"\r\n", &[0xff, 0x00, 0xfe]];

const NAME: &str = "x-note";

fn note(value: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(NAME, value.to_vec());
    headers
}

mod refused {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    broker_tests::cases! { @broker nats, Nats;
        a_refused_header_leaves_its_record_open_and_the_error_says_so
        a_refused_header_in_a_handler_leaves_its_record_open_and_the_error_says_so
        the_next_start_names_the_record_of_a_refused_header
    }

    fn assert_recorded(error: &str, id: usize, name: &str) {
        let recorded = format!("record {id} of `{name}` was saved but its message was not sent");
        assert!(error.contains(&recorded), "{error}");
        assert!(
            error.contains(&format!("header `{NAME}` cannot")),
            "{error}"
        );
    }

    async fn a_refused_header_leaves_its_record_open_and_the_error_says_so<D: Driver>(
        broker: Broker,
    ) -> Result {
        let (database, names) = (Database::create(D::KIND).await?, Names::unique());
        let service = Service::<D>::on(broker, &database, &names)?.start().await?;
        let (name, publisher) = (&*names.payments, service.publisher());
        for (value, id) in REFUSED.into_iter().zip(1..) {
            let refused = publisher.publish(name, b"1", note(value)).await;
            let error = refused.err().ok_or("it was published")?;
            assert_recorded(&chain(&*error), id, name);
        }
        service.stop().await?;
        assert_eq!(database.open().await?, 3);
        Ok(())
    }

    async fn a_refused_header_in_a_handler_leaves_its_record_open_and_the_error_says_so<
        D: Driver,
    >(
        broker: Broker,
    ) -> Result {
        let (database, names) = (Database::create(D::KIND).await?, Names::unique());
        let (errors, mut published) = unbounded_channel();
        let refunds = names.refunds.clone();
        let service = Service::<D>::on(broker, &database, &names)?
            .handler(move |_, out| {
                let (refunds, errors) = (refunds.clone(), errors.clone());
                Box::pin(async move {
                    let published = out.publish(&refunds, b"2", note(REFUSED[0])).await;
                    errors.send(published.map_err(|error| chain(&*error))).ok();
                    HandlerOutcome::ack()
                })
            })
            .start()
            .await?;
        service.publish(&names.payments, b"1").await?;
        let published = published.recv().await.ok_or("no handler ran")?;
        let error = published.err().ok_or("it was published")?;
        assert_recorded(&error, 2, &names.refunds);
        service.stop().await?;
        let rows = database.rows().await?;
        let open: Vec<_> = rows.iter().map(|row| (&row.name, row.open)).collect();
        assert_eq!(open, [(&names.payments, false), (&names.refunds, true)]);
        Ok(())
    }

    async fn the_next_start_names_the_record_of_a_refused_header<D: Driver>(
        broker: Broker,
    ) -> Result {
        let (database, names) = (Database::create(D::KIND).await?, Names::unique());
        let service = Service::<D>::on(broker, &database, &names)?.without_handlers();
        let service = service.start().await?;
        let (name, publisher) = (&*names.payments, service.publisher());
        let refused = publisher.publish(name, b"1", note(REFUSED[0])).await;
        assert!(refused.is_err());
        publisher.publish(name, b"2", HeaderMap::new()).await?;
        service.stop().await?;

        let start = Service::<D>::on(broker, &database, &names)?.start();
        let error = start.await.err().ok_or("it started")?.to_string();

        assert!(
            error.contains("1 open records were not sent again"),
            "{error}"
        );
        assert!(error.contains("(1 were sent)"), "{error}");
        let record = format!("record 1 of `{name}`: ");
        assert!(error.contains(&record), "{error}");
        assert!(
            error.contains(&format!("header `{NAME}` cannot")),
            "{error}"
        );
        assert!(database.rows().await?[0].open);
        Ok(())
    }
}

mod carried {
    use super::*;

    broker_tests::cases! { @broker redis, Redis;
        any_header_comes_through_at_once_and_when_it_is_sent_again
    }

    async fn any_header_comes_through_at_once_and_when_it_is_sent_again<D: Driver>(
        broker: Broker,
    ) -> Result {
        let (database, names) = (Database::create(D::KIND).await?, Names::unique());
        let (taken, mut handled) = Handled::new();
        let name = &*names.payments;
        // Nobody receives these yet.
        let first = Service::<D>::on(broker, &database, &names)?.without_handlers();
        let first = first.start().await?;
        for value in REFUSED {
            first.publisher().publish(name, b"1", note(value)).await?;
        }
        first.stop().await?;
        assert_eq!(database.open().await?, 3);

        let service = Service::<D>::on(broker, &database, &names)?
            .handler(acknowledge(taken, Duration::ZERO))
            .start()
            .await?;
        for value in REFUSED {
            service.publisher().publish(name, b"2", note(value)).await?;
        }

        for (value, id) in REFUSED.into_iter().chain(REFUSED).zip(1..) {
            let delivery = handled.next().await?;
            assert_eq!(delivery.id(), Some(&*format!("{id}")));
            assert_eq!(delivery.headers.get(NAME), Some(value));
        }
        service.stop().await?;
        assert_eq!(database.open().await?, 0);
        Ok(())
    }
}
