//! Deliveries that meet: their records are read, and marked, together, and each gets its own answer.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use ruststream::runtime::HandlerOutcome;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::unbounded_channel;
use tracing::Level;

use super::fan::{Fan, audit, mail, ship};
use super::logs::Logs;
use super::message::{Settle, id_header};
use super::service::{Builder, Registry, Service, registry};
use super::stand::{Stand, assert_closed, deletes};
use crate::{Backend, Outbox};

/// More than any case has deliveries.
const WORKERS: NonZeroUsize = NonZeroUsize::new(16).unwrap();

type Pool<S> = <<S as Stand>::Backend as Backend>::Pool;

/// A registry on a pool of one: whoever holds that connection makes all others meet.
async fn on_one<S: Stand>(stand: &S) -> (Registry<S>, Pool<S>) {
    let pool = stand.pool(1).await;
    let outbox = registry::<S>().group_commit(true);
    let outbox = outbox.acquire_timeout(Duration::from_mins(1));
    outbox.set_pool(pool.clone()).unwrap();
    (outbox, pool)
}

fn service<S: Stand>(outbox: Registry<S>) -> Builder<S> {
    Service::with(outbox).workers(WORKERS).without_republish()
}

/// Has the handlers wait for a permit each before they acknowledge.
fn gated<S: Stand>(service: Builder<S>) -> (Builder<S>, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let gates = Arc::clone(&gate);
    let service = service.handler(move |_, _| {
        let gate = Arc::clone(&gates);
        Box::pin(async move {
            gate.acquire().await.unwrap().forget();
            HandlerOutcome::ack()
        })
    });
    (service, gate)
}

/// Sends messages of records, which all arrive while no record can be read.
async fn meet<S: Stand>(service: &mut Service<S>, pool: &Pool<S>, messages: &[(&str, &str)]) {
    let held = S::Backend::acquire(pool).await.unwrap();
    for (payload, id) in messages {
        service
            .send("payments", payload.as_bytes(), id_header(id))
            .await;
    }
    service.idle().await;
    drop(held);
}

/// Deliveries whose records are read together get an answer each: of open records and of a closed one,
/// of another name's, and of none.
pub async fn records_that_are_read_together_are_told_apart<S: Stand>() {
    let stand = S::open().await;
    let [first, closed, second] = [
        stand.store("payments", Some(b"1"), None).await,
        stand.store("payments", Some(b"2"), None).await,
        stand.store("payments", Some(b"3"), None).await,
    ];
    let other = stand.store("refunds", Some(b"4"), None).await;
    stand.close(&closed).await;
    let logs = Logs::capture();
    let (outbox, pool) = on_one(&stand).await;
    let mut service = service::<S>(outbox).start().await;
    let messages = [
        ("first", first.as_str()),
        ("closed", &closed),
        ("second", &second),
        ("other", &other),
        ("absent", "999999"),
    ];
    meet(&mut service, &pool, &messages).await;
    for _ in messages {
        assert_eq!(service.outcome().await, Settle::Ack);
    }
    let mut handled: Vec<_> = service
        .stop()
        .await
        .into_iter()
        .map(|it| it.payload)
        .collect();
    handled.sort();
    let mut expected = vec![b"first".to_vec(), b"other".into(), b"second".into()];
    if !deletes::<S>() {
        expected.insert(0, b"absent".into());
    }
    assert_eq!(handled, expected);
    let open = stand.rows().await.into_iter().filter(|row| row.open);
    let open: Vec<_> = open.map(|row| row.id).collect();
    assert_eq!(open, [other.as_str()], "the others are marked");
    let mut warned = logs.lines(Level::WARN, &[&format!("id={other} "), "another name"]);
    if !deletes::<S>() {
        warned.extend(logs.lines(Level::WARN, &["id=999999 ", "no record"]));
    }
    assert_eq!(
        warned.len(),
        if deletes::<S>() { 1 } else { 2 },
        "{warned:?}"
    );
    assert_eq!(
        logs.complaints().len(),
        warned.len(),
        "{:?}",
        logs.complaints()
    );
}

/// Records that cannot be read together come back, and are handled once when they can be.
pub async fn records_that_cannot_be_read_together_come_back<S: Stand>() {
    const DELAY: Duration = Duration::from_millis(50);
    let stand = S::open().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(stand.store("payments", Some(b"1"), None).await);
    }
    let (outbox, pool) = on_one(&stand).await;
    let mut service = service::<S>(outbox.retry_delay(DELAY)).start().await;
    stand.hide_table(true).await;
    let messages: Vec<_> = ids.iter().map(|id| ("1", id.as_str())).collect();
    meet(&mut service, &pool, &messages).await;
    for _ in &ids {
        assert_eq!(service.outcome().await, Settle::RetryAfter(DELAY));
    }
    stand.hide_table(false).await;
    let mut handled = Vec::new();
    for _ in &ids {
        handled.push(service.next().await.id().unwrap().to_owned());
    }
    service.idle().await;
    assert_eq!(service.stop().await, [], "each is handled once");
    handled.sort();
    ids.sort();
    assert_eq!(handled, ids);
    assert_closed(&stand, 5).await;
}

/// Of the marks that are written together, one whose record somebody closed meanwhile says so, and one
/// of two copies; no other does.
pub async fn a_mark_without_an_open_record_is_named_alone<S: Stand>() {
    let stand = S::open().await;
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(stand.store("payments", Some(b"1"), None).await);
    }
    let logs = Logs::capture();
    let (outbox, pool) = on_one(&stand).await;
    let (service, gate) = gated(service::<S>(outbox));
    let mut service = service.start().await;
    for id in &ids {
        service.send("payments", b"1", id_header(id)).await;
    }
    for _ in &ids {
        service.next().await;
    }
    service.send("payments", b"1", id_header(&ids[1])).await;
    service.next().await;
    stand.close(&ids[3]).await;
    let held = S::Backend::acquire(&pool).await.unwrap();
    gate.add_permits(ids.len() + 1);
    service.idle().await;
    assert_eq!(service.outcomes(), [], "all wait for the connection");
    drop(held);
    for _ in 0..=ids.len() {
        assert_eq!(service.outcome().await, Settle::Ack);
    }
    service.stop().await;
    assert_closed(&stand, ids.len()).await;
    let warned = [&ids[1], &ids[3]].map(|id| {
        let words = ["payments", &format!("id={id} "), "no open record"];
        logs.lines(Level::WARN, &words).len()
    });
    assert_eq!(warned, [usize::from(!deletes::<S>()); 2]);
    assert_eq!(logs.complaints().len(), warned[0] + warned[1]);
}

/// Marks that meet a write lock which somebody holds give up within the bound, each by its id.
pub async fn marks_that_meet_a_held_lock_give_up_together<S: Stand>() {
    let stand = S::open().await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(stand.store("payments", Some(b"1"), None).await);
    }
    let logs = Logs::capture();
    let (outbox, _) = on_one(&stand).await;
    let outbox = outbox.lock_wait(Duration::from_millis(300));
    let (service, gate) = gated(service::<S>(outbox));
    let mut service = service.start().await;
    for id in &ids {
        service.send("payments", b"1", id_header(id)).await;
    }
    for _ in &ids {
        service.next().await;
    }
    let lock = stand.lock().await;
    gate.add_permits(ids.len());
    for _ in &ids {
        assert_eq!(service.outcome().await, Settle::Ack, "the outcome stands");
    }
    service.stop().await;
    S::unlock(lock).await;
    for id in &ids {
        let words = ["payments", &format!("id={id} "), "kept the lock"];
        assert_eq!(logs.lines(Level::ERROR, &words).len(), 1, "{id}");
    }
    assert!(
        stand.rows().await.iter().all(|row| row.open),
        "nothing is marked later"
    );
}

/// The marks of several consumers of one record that are written together are all written.
pub async fn consumers_whose_marks_meet_lose_none<S: Stand>() {
    let stand = S::open().await;
    let pool = stand.pool(1).await;
    let outbox = Outbox::<S::Backend>::deferred().register::<S::Record>("payments");
    let outbox = outbox.group_commit(true);
    let outbox = outbox
        .consumer::<ship>(0)
        .consumer::<mail>(1)
        .consumer::<audit>(7);
    outbox.set_pool(pool.clone()).unwrap();
    let logs = Logs::capture();
    let gate = Arc::new(Semaphore::new(0));
    let gates = Arc::clone(&gate);
    let (settled, mut settling) = unbounded_channel();
    let mounts = [
        ("ship", "payments"),
        ("mail", "payments"),
        ("audit", "payments"),
    ];
    let mut fan = Fan::start::<S::Record>(outbox, &mounts, move |_| {
        let (gate, settled) = (Arc::clone(&gates), settled.clone());
        Box::pin(async move {
            gate.acquire().await.unwrap().forget();
            settled.send(()).unwrap();
            HandlerOutcome::ack()
        })
    })
    .await;
    fan.publish("payments", "1").await;
    assert_eq!(fan.took(3).await, ["audit 1", "mail 1", "ship 1"]);
    let held = S::Backend::acquire(&pool).await.unwrap();
    gate.add_permits(3);
    for _ in mounts {
        settling.recv().await.unwrap();
    }
    drop(held);
    fan.stop().await;
    assert_closed(&stand, 1).await;
    assert_eq!(logs.complaints(), [""; 0]);
}
