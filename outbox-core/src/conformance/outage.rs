//! A database that is away for a while: nothing spins, and nothing is lost.

use std::time::Duration;

use tokio::time::Instant;
use tracing::Level;

use super::logs::Logs;
use super::message::{Settle, id_header};
use super::service::Service;
use super::stand::{Stand, assert_closed};

const DELAY: Duration = Duration::from_millis(50);

/// The most times that `messages` can have been tried since `began`, a delay apart each.
fn most(messages: usize, began: Instant) -> usize {
    let delays = began.elapsed().as_millis() / DELAY.as_millis();
    messages * (1 + usize::try_from(delays).unwrap())
}

/// Messages that arrive while the database is away reach no handler and come back at the
/// registry's delay, however many they are; each is handled once when it is there again.
pub async fn messages_that_arrive_in_an_outage_are_handled_after_it<S: Stand>() {
    const ARRIVING: usize = 20;
    let stand = S::open().await;
    let mut stored = Vec::new();
    for at in 0..ARRIVING {
        let name = ["payments", "refunds"][at % 2];
        let id = stand.store(name, Some(b"1"), None).await;
        stored.push((id, name.to_owned()));
    }
    let logs = Logs::capture();
    let service = Service::on(&stand).await.registry(|o| o.retry_delay(DELAY));
    let mut service = service.without_republish().start().await;
    stand.hide_table(true).await;
    let began = Instant::now();
    for (id, name) in &stored {
        service.send(name, b"1", id_header(id)).await;
    }
    for tried in 1..=ARRIVING * 3 {
        assert_eq!(service.outcome().await, Settle::RetryAfter(DELAY));
        assert!(tried <= most(ARRIVING, began), "a tight loop");
    }
    service.publish("payments", b"2").await.unwrap_err();
    stand.hide_table(false).await;
    let mut handled = Vec::new();
    for _ in &stored {
        let delivery = service.next().await;
        handled.push((delivery.id().unwrap().to_owned(), delivery.name));
    }
    service.idle().await;
    assert_eq!(service.stop().await, [], "each is handled once");
    handled.sort();
    stored.sort();
    assert_eq!(handled, stored);
    assert_closed(&stand, ARRIVING).await;
    let tried = logs.lines(Level::ERROR, &["could not be read", "comes back"]);
    assert!((ARRIVING * 3..=most(ARRIVING, began)).contains(&tried.len()));
}
