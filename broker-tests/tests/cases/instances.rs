//! Several instances of one service, which start together, late, or beside live traffic.

use std::time::Duration;

use broker_tests::{Broker, Builder, Database, Driver, Names, Result, Service, cases};
use tokio::sync::mpsc::UnboundedSender;

use crate::support::{Handled, Logs, acknowledge, soon};

cases! {
    two_instances_that_start_together_lose_nothing,
    two_instances_that_start_together_and_a_third_one_lose_nothing,
    a_second_instance_beside_live_traffic_loses_nothing,
}

/// What a handler takes for a message.
const WORK: Duration = Duration::from_millis(20);

type Taken = UnboundedSender<broker_tests::Delivery>;

fn instance<D: Driver>(
    broker: Broker,
    database: &Database,
    names: &Names,
    taken: &Taken,
) -> Result<Builder<D>> {
    let service = Service::<D>::on(broker, database, names)?;
    Ok(service.handler(acknowledge(taken.clone(), WORK)))
}

/// Nothing that the outbox says of these names is an error.
fn assert_no_errors(names: &Names) {
    let errors = Logs::listen().lines(&["ERROR", &names.payments]);
    assert!(errors.is_empty(), "{errors:?}");
}

async fn two_instances_that_start_together_lose_nothing<D: Driver>(broker: Broker) -> Result {
    start_together::<D>(broker, false, |service| service).await
}

async fn two_instances_that_start_together_and_a_third_one_lose_nothing<D: Driver>(
    broker: Broker,
) -> Result {
    start_together::<D>(broker, true, |service| service).await
}

/// Two instances, and a third one before they are done.
async fn start_together<D: Driver>(
    broker: Broker,
    three: bool,
    with: impl Fn(Builder<D>) -> Builder<D>,
) -> Result {
    let logs = Logs::listen();
    let (database, names) = (Database::create(D::KIND).await?, Names::unique());
    database.store(&names.payments, 100).await?;
    let (taken, mut handled) = Handled::new();
    let start = || async {
        let service = instance::<D>(broker, &database, &names, &taken)?;
        with(service).start().await
    };
    let third = async {
        if !three {
            return Ok(None);
        }
        handled.distinct(30).await?;
        Box::pin(start()).await.map(Some)
    };
    let starts = async { tokio::join!(Box::pin(start()), Box::pin(start()), third) };
    let (first, second, third) = soon("the starts' end", starts).await?;
    let all = handled.distinct(100).await;
    for service in [Some(first?), Some(second?), third?].into_iter().flatten() {
        service.stop().await?;
    }
    let open = handled.or_open(&database).await?;
    let fell_behind = logs.lines(&[&names.payments, "fell behind"]).len();
    all.map_err(|error| format!("{error}; {open} open; {fell_behind} times a buffer was full"))?;
    assert_eq!(open, 0);
    assert_no_errors(&names);
    Ok(())
}

/// The first one publishes a few messages at a time, and the second one sends a backlog meanwhile.
async fn a_second_instance_beside_live_traffic_loses_nothing<D: Driver>(broker: Broker) -> Result {
    Logs::listen();
    let (database, names) = (Database::create(D::KIND).await?, Names::unique());
    let (taken, mut handled) = Handled::new();
    let first = instance::<D>(broker, &database, &names, &taken)?;
    let first = first.start().await?;
    database.store(&names.payments, 100).await?;

    let live = async {
        for round in 0..10 {
            let payloads: Vec<_> = (0..8).map(|number| format!("{round}.{number}")).collect();
            for payload in &payloads {
                first.publish(&names.payments, payload.as_bytes()).await?;
            }
            for payload in &payloads {
                handled.payload(payload.as_bytes()).await?;
            }
        }
        Ok::<_, broker_tests::Error>(())
    };
    let second = instance::<D>(broker, &database, &names, &taken)?;
    let (live, second) = tokio::join!(live, soon("the second start", second.start()));
    live?;
    let second = second??;
    handled.distinct(180).await?;
    second.stop().await?;
    first.stop().await?;
    assert_eq!(handled.or_open(&database).await?, 0);
    assert_eq!(database.rows().await?.len(), 180);
    assert_no_errors(&names);
    Ok(())
}

/// The subscriptions of a queue group share what is sent, whichever instance sent it.
mod group {
    use super::*;

    broker_tests::cases! { @broker nats, Nats;
        instances_of_a_queue_group_lose_nothing
    }

    async fn instances_of_a_queue_group_lose_nothing<D: Driver>(broker: Broker) -> Result {
        start_together::<D>(broker, true, |service| service.group("instances")).await
    }
}
