//! A backlog that outruns its receiver: the start goes at the pace of the handlers.

use std::time::Duration;

use broker_tests::{Broker, Database, Driver, Names, Result, Service, cases};
use ruststream::HeaderMap;

use crate::support::{Handled, Logs, acknowledge, soon};

cases! {
    a_backlog_goes_out_no_faster_than_it_is_handled,
    a_start_whose_receiver_is_elsewhere_ends_and_says_what_it_did,
}

/// What a handler takes for a message.
const WORK: Duration = Duration::from_millis(5);

async fn a_backlog_goes_out_no_faster_than_it_is_handled<D: Driver>(broker: Broker) -> Result {
    let (database, names) = (Database::create(D::KIND).await?, Names::unique());
    database.store(&names.payments, 1_000).await?;
    let (taken, mut handled) = Handled::new();

    let service = Service::<D>::on(broker, &database, &names)?
        // A handler that a busy machine holds up is not taken for one that is elsewhere.
        .registry(|registry| registry.republish_patience(Duration::from_mins(1)))
        .handler(acknowledge(taken, WORK))
        .start()
        .await?;

    // All but a window, and the one that the handler has.
    handled.drain();
    assert!(handled.all.len() >= 1_000 - 16 - 1, "{}", handled.all.len());
    handled.distinct(1_000).await?;
    service.stop().await?;
    assert_eq!(handled.or_open(&database).await?, 0);
    assert_eq!(handled.all.len(), 1_000, "each of them was handled once");
    Ok(())
}

/// The receiver is another app with a registry of its own, as it is in another process.
async fn a_start_whose_receiver_is_elsewhere_ends_and_says_what_it_did<D: Driver>(
    broker: Broker,
) -> Result {
    let (database, names) = (Database::create(D::KIND).await?, Names::unique());
    database.store(&names.payments, 100).await?;
    let logs = Logs::listen();
    let (taken, mut handled) = Handled::new();
    let receiver = Service::<D>::on(broker, &database, &names)?
        .handler(acknowledge(taken, WORK))
        .without_republish()
        .start()
        .await?;

    let sender = Service::<D>::on(broker, &database, &names)?.without_handlers();
    let sender = soon("the start's end", sender.start()).await??;

    let name = &*names.payments;
    let elsewhere = logs.lines(&["WARN", name, "the receiver is elsewhere", "left=16"]);
    assert_eq!(elsewhere.len(), 1, "{elsewhere:?}");
    let sent = logs.lines(&["INFO", name, "open records sent again", "done=100 open=100"]);
    assert_eq!(sent.len(), 1, "{sent:?}");
    // It comes after all that was sent, and a full buffer drops the oldest.
    let last = sender.send(name, b"last", HeaderMap::new());
    last.await?;
    handled.payload(b"last").await?;
    sender.stop().await?;
    receiver.stop().await?;
    assert!(handled.or_open(&database).await? < 100);
    Ok(())
}
