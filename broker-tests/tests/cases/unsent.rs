//! "Published" is not "sent": a record is open until its handler is done, whatever the client says.

use std::time::Duration;

use broker_tests::{Broker, Builder, Database, Driver, Names, Result, Service, cases};
use ruststream::HeaderMap;
use tokio::time::timeout;

use crate::support::{Handled, Process, Server, acknowledge};

cases! {
    what_nobody_received_is_sent_by_the_next_start,
    what_is_published_while_the_server_is_gone_is_sent_by_the_next_start,
}

/// The next start: it sends the records that are open, and they are handled.
async fn next_start<D: Driver>(service: Builder<D>, database: &Database, open: usize) -> Result {
    assert_eq!(usize::try_from(database.open().await?)?, open);
    let (taken, mut handled) = Handled::new();
    let service = service.handler(acknowledge(taken, Duration::ZERO));
    let service = service.start().await?;
    handled.distinct(open).await?;
    service.stop().await?;
    assert_eq!(database.open().await?, 0);
    assert_eq!(database.rows().await?.len(), open);
    Ok(())
}

async fn what_nobody_received_is_sent_by_the_next_start<D: Driver>(broker: Broker) -> Result {
    let (database, names) = (Database::create(D::KIND).await?, Names::unique());
    let first = Service::<D>::on(broker, &database, &names)?.without_handlers();
    let first = first.start().await?;
    for payload in [b"1", b"2", b"3"] {
        first.publish(&names.payments, payload).await?;
    }
    // In order: everything that the client has was sent.
    first.stop().await?;
    next_start(Service::<D>::on(broker, &database, &names)?, &database, 3).await
}

/// The client of NATS takes the message and answers; that of Redis waits for its server.
async fn what_is_published_while_the_server_is_gone_is_sent_by_the_next_start<D: Driver>(
    broker: Broker,
) -> Result {
    let (database, names) = (Database::create(D::KIND).await?, Names::unique());
    let mut server = Server::start(broker).await?;
    let process = Process::start()?;
    let first = Service::<D>::on(broker, &database, &names)?.without_handlers();
    let first = process.run(first.server(server.url()).start())?;
    server.kill().await?;

    // Without a bound, a publish to Redis waits for as long as its server is gone.
    let bound = Duration::from_secs(2);
    let published =
        process.run(async { timeout(bound, first.publish(&names.payments, b"1")).await });

    match broker {
        Broker::Nats => published??,
        Broker::Redis => assert!(!matches!(published, Ok(Ok(()))), "{published:?}"),
    }
    process.die();
    server.restart().await?;
    next_start(
        Service::<D>::on(broker, &database, &names)?.server(server.url()),
        &database,
        1,
    )
    .await
}

mod buffered {
    use super::*;

    broker_tests::cases! { @broker nats, Nats;
        what_is_in_the_clients_buffer_when_the_process_dies_is_sent_by_the_next_start
    }

    /// The client answers before it has written to its connection.
    async fn what_is_in_the_clients_buffer_when_the_process_dies_is_sent_by_the_next_start<
        D: Driver,
    >(
        broker: Broker,
    ) -> Result {
        let (database, names) = (Database::create(D::KIND).await?, Names::unique());
        let (taken, mut handled) = Handled::new();
        let receiver = Service::<D>::on(broker, &database, &names)?
            .handler(acknowledge(taken, Duration::ZERO))
            .start()
            .await?;
        let process = Process::start()?;
        process.run(async {
            let service = Service::<D>::on(broker, &database, &names)?.without_handlers();
            let service = service.start().await?;
            service.publish(&names.payments, b"1").await
        })?;
        process.die();

        let probe = receiver.send(&names.payments, b"probe", HeaderMap::new());
        probe.await?;
        assert_eq!(
            handled.next().await?.payload,
            b"probe",
            "the other one was not sent"
        );
        receiver.stop().await?;
        next_start(Service::<D>::on(broker, &database, &names)?, &database, 1).await
    }
}
