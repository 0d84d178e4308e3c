//! A handler that panics, under each policy that keeps the service up.

use std::time::Duration;

use broker_tests::{Broker, Database, Driver, Names, Result, Service, cases};
use ruststream::runtime::{FailurePolicies, FailurePolicy, HandlerOutcome};

use crate::support::{Handled, Logs, acknowledge};

cases! {
    the_record_of_a_panic_stays_open_where_it_is_dropped,
    the_record_of_a_panic_stays_open_where_it_is_skipped,
    the_record_of_a_panic_stays_open_where_it_is_retried,
    the_record_of_a_panic_stays_open_where_it_is_retried_later,
}

async fn the_record_of_a_panic_stays_open_where_it_is_dropped<D: Driver>(broker: Broker) -> Result {
    panic_under::<D>(broker, FailurePolicy::Drop).await
}

async fn the_record_of_a_panic_stays_open_where_it_is_skipped<D: Driver>(broker: Broker) -> Result {
    panic_under::<D>(broker, FailurePolicy::Skip).await
}

/// Neither broker takes a message back, so this one is gone until the next start.
async fn the_record_of_a_panic_stays_open_where_it_is_retried<D: Driver>(broker: Broker) -> Result {
    panic_under::<D>(broker, FailurePolicy::Retry).await
}

async fn the_record_of_a_panic_stays_open_where_it_is_retried_later<D: Driver>(
    broker: Broker,
) -> Result {
    let later = Duration::from_millis(10);
    panic_under::<D>(broker, FailurePolicy::RetryAfter(later)).await
}

/// The second of three open records makes its handler panic, each time.
async fn panic_under<D: Driver>(broker: Broker, policy: FailurePolicy) -> Result {
    let (database, names) = (Database::create(D::KIND).await?, Names::unique());
    database.store(&names.payments, 3).await?;
    let logs = Logs::listen();
    let (taken, mut handled) = Handled::new();
    let service = Service::<D>::on(broker, &database, &names)?
        .on_failure(FailurePolicies::default().with_panic(policy))
        .handler(move |delivery, _| {
            let poison = delivery.payload == b"2";
            taken.send(delivery).ok();
            Box::pin(async move {
                assert!(!poison, "as the test wants it");
                HandlerOutcome::ack()
            })
        })
        .start()
        .await?;
    service.publish(&names.payments, b"4").await?;
    handled.distinct(4).await?;
    if matches!(policy, FailurePolicy::RetryAfter(_)) {
        let copies = |handled: &Handled| {
            let poisons = handled
                .all
                .iter()
                .filter(|delivery| delivery.payload == b"2");
            poisons
                .inspect(|copy| assert_eq!(copy.id(), Some("2")))
                .count()
        };
        while copies(&handled) < 3 {
            handled.next().await?;
        }
    }
    service.stop().await?;

    let rows = database.rows().await?;
    let open: Vec<_> = rows.iter().map(|row| (row.id, row.open)).collect();
    assert_eq!(open, [(1, false), (2, true), (3, false), (4, false)]);
    let said = logs.lines(&["ERROR", &names.payments, "id=\"2\"", "panicked=true"]);
    assert!(!said.is_empty(), "{:?}", logs.lines(&[&names.payments]));

    let (taken, mut handled) = Handled::new();
    let service = Service::<D>::on(broker, &database, &names)?
        .handler(acknowledge(taken, Duration::ZERO))
        .start()
        .await?;
    assert_eq!(handled.next().await?.id(), Some("2"));
    service.stop().await?;
    assert_eq!(database.open().await?, 0);
    Ok(())
}
