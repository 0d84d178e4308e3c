//! A record type that says itself what happens to its records: what it overrides runs, and the
//! backend's own for the rest.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ruststream::runtime::HandlerOutcome;
use ruststream::{HeaderMap, OutgoingMessage};
use tracing::Level;

use super::logs::Logs;
use super::message::{Settle, publish};
use super::service::{Service, registry};
use super::sink::Sink;
use super::stand::{Row, Stand, assert_closed, deletes};
use crate::{
    Backend, Consumer, Handle, Mark, OpenIds, Outbox, OutboxSpec, Publish, Record, Statements,
    Stored, TARGET, TrackedName,
};

/// The table of `R`, whose records are fetched by the service.
#[derive(Debug)]
pub struct Fetching<R>(PhantomData<R>);

/// The table of `R`, whose records the service does everything with: it closes what was
/// acknowledged, keeps what was dropped, and sends nothing again.
#[derive(Debug)]
pub struct Deciding<R>(PhantomData<R>);

/// The table of `R`, whose records the service inserts itself; for the payload `panic` it panics.
#[derive(Debug)]
pub struct Own<R>(PhantomData<R>);

/// The table of `R`, whose records are never found by a fetch.
#[derive(Debug)]
pub struct Hiding<R>(PhantomData<R>);

macro_rules! record {
    ($record:ident) => {
        record!(rows of $record);

        impl<B: Statements<Self>, R: Record> Publish<B> for $record<R> {
            fn publish(
                conn: &mut B::Connection,
                msg: &OutgoingMessage<'_>,
            ) -> impl Future<Output = Result<Self::Id, B::Error>> + Send {
                B::insert(conn, msg)
            }
        }
    };
    (rows of $record:ident) => {
        impl<R: Record> Record for $record<R> {
            type Id = R::Id;

            const SPEC: OutboxSpec = R::SPEC;
        }
    };
}
record!(rows of Own);
record!(Fetching);
record!(Deciding);
record!(Hiding);

/// What the service's own steps say when they run.
fn ran(step: &str, id: impl std::fmt::Display) {
    tracing::info!(target: TARGET, "the service's {step} of {id}");
}

impl<B: Statements<Self>, R: Record> Publish<B> for Own<R> {
    async fn publish(
        conn: &mut B::Connection,
        msg: &OutgoingMessage<'_>,
    ) -> Result<R::Id, B::Error> {
        let text = String::from_utf8_lossy(msg.payload());
        let id = B::insert(conn, msg).await?;
        ran("insert", &text);
        assert!(text != "panic", "an insert that panics");
        Ok(id)
    }
}

impl<B: Statements<Self>, R: Record> Mark<B> for Own<R> {}

impl<B: Statements<Self>, R: Record> Mark<B> for Fetching<R> {
    async fn fetch(conn: &mut B::Connection, id: &R::Id) -> Result<Option<Stored>, B::Error> {
        ran("fetch", id);
        <B as Statements<Self>>::fetch(conn, id).await
    }
}

impl<B: Statements<Self>, R: Record> Mark<B> for Hiding<R> {
    async fn fetch(_conn: &mut B::Connection, _id: &R::Id) -> Result<Option<Stored>, B::Error> {
        Ok(None)
    }
}

impl<B: Statements<Self>, R: Record> Mark<B> for Deciding<R> {
    const RETRY: bool = true;

    async fn ack(conn: &mut B::Connection, id: &R::Id) -> Result<bool, B::Error> {
        ran("ack", id);
        <B as Statements<Self>>::mark(conn, id, Consumer::SOLE).await
    }

    async fn discard(_conn: &mut B::Connection, id: &R::Id) -> Result<bool, B::Error> {
        ran("discard", id);
        Ok(true)
    }

    async fn retry(_conn: &mut B::Connection, id: &R::Id) -> Result<(), B::Error> {
        ran("retry", id);
        Ok(())
    }

    async fn recover(
        _conn: &mut B::Connection,
        name: &str,
    ) -> Result<OpenIds<R::Id, B::Error>, B::Error> {
        ran("recover", name);
        Ok(OpenIds::new())
    }
}

/// A stand with another record type over its table.
#[derive(Debug)]
pub struct With<S, R>(S, PhantomData<fn() -> R>);

impl<S, R> Stand for With<S, R>
where
    S: Stand<Backend: Statements<R>>,
    R: Publish<S::Backend> + Mark<S::Backend>,
{
    type Backend = S::Backend;
    type Record = R;
    type Lock = S::Lock;

    async fn open() -> Self {
        Self(S::open().await, PhantomData)
    }

    async fn pool(&self, size: u32) -> <S::Backend as Backend>::Pool {
        self.0.pool(size).await
    }

    async fn rows(&self) -> Vec<Row> {
        self.0.rows().await
    }

    async fn store(&self, name: &str, payload: Option<&[u8]>, headers: Option<&str>) -> String {
        self.0.store(name, payload, headers).await
    }

    async fn close(&self, id: &str) {
        self.0.close(id).await;
    }

    async fn hide_table(&self, hidden: bool) {
        self.0.hide_table(hidden).await;
    }

    async fn refuse_commits(&self, refuse: bool) {
        self.0.refuse_commits(refuse).await;
    }

    async fn refuse(&self, payload: &str) {
        self.0.refuse(payload).await;
    }

    async fn lock(&self) -> S::Lock {
        self.0.lock().await
    }

    async fn unlock(lock: S::Lock) {
        S::unlock(lock).await;
    }

    async fn begin_by_hand(conn: &mut <S::Backend as Backend>::Connection) {
        S::begin_by_hand(conn).await;
    }
}

/// A record type that overrides its fetch alone: that runs, and the rest is the backend's.
pub async fn a_fetch_of_the_services_own_leaves_the_rest_to_the_backend<S>()
where
    S: Stand<Backend: Statements<Fetching<S::Record>>>,
{
    let stand = With::<S, Fetching<S::Record>>::open().await;
    let stored = stand.store("payments", Some(b"1"), None).await;
    let logs = Logs::capture();
    let mut service = Service::on(&stand).await.start().await;
    assert_eq!(service.next().await.id(), Some(stored.as_str()));
    service.publish("refunds", b"2").await.unwrap();
    let published = service.next().await;
    service.idle().await;
    service.stop().await;
    for id in [&stored, published.id().unwrap()] {
        let ran = logs.lines(Level::INFO, &[&format!("the service's fetch of {id} ")]);
        assert_eq!(ran.len(), 1);
    }
    assert_closed(&stand, 2).await;
}

/// What a fetch of the service's own does not find is absent, though the backend would find it.
pub async fn a_record_that_the_services_own_fetch_hides_is_absent<S>()
where
    S: Stand<Backend: Statements<Hiding<S::Record>>>,
{
    let stand = With::<S, Hiding<S::Record>>::open().await;
    let id = stand.store("payments", Some(b"1"), None).await;
    let logs = Logs::capture();
    let mut service = Service::on(&stand).await.start().await;
    service.idle().await;
    assert_eq!(service.outcomes(), [Settle::Ack]);
    let handled = service.stop().await.len();
    let warned = logs.lines(Level::WARN, &["payments", &id, "no record"]);
    let expected = usize::from(!deletes::<S>());
    assert_eq!((handled, warned.len()), (expected, expected));
    assert!(stand.rows().await[0].open, "nothing is marked");
}

/// A record type that overrides the other steps: each runs in place of the backend's.
pub async fn the_services_own_steps_run_in_place_of_the_backends<S>()
where
    S: Stand<Backend: Statements<Deciding<S::Record>>>,
{
    let stand = With::<S, Deciding<S::Record>>::open().await;
    stand
        .store("payments", Some(b"never sent again"), None)
        .await;
    let outcomes = [Settle::Ack, Settle::Retry, Settle::Drop];
    let logs = Logs::capture();
    let mut service = Service::on(&stand).await.outcomes(outcomes).start().await;
    let mut ids = Vec::new();
    for (payload, deliveries) in [(b"1", 1), (b"2", 2)] {
        service.publish("payments", payload).await.unwrap();
        for _ in 0..deliveries {
            ids.push(service.next().await.id().unwrap().to_owned());
            service.outcome().await;
        }
    }
    assert_eq!(service.stop().await, []);
    for (step, of) in ["ack", "retry", "discard"].into_iter().zip(&ids) {
        let ran = logs.lines(Level::INFO, &[&format!("the service's {step} of {of} ")]);
        assert_eq!(ran.len(), 1, "{step}");
    }
    let ran = logs.lines(Level::INFO, &["the service's recover of payments "]);
    assert_eq!(ran.len(), 1);
    let rows = stand.rows().await;
    let open: Vec<_> = rows.iter().filter(|row| row.open).collect();
    assert_eq!(open.len(), 2, "not sent again, and kept: {rows:?}");
    assert_eq!(open[1].id, ids[1]);
    assert_eq!(logs.complaints(), [""; 0]);
}

/// A name as a type.
struct Payments;

impl TrackedName for Payments {
    const NAME: &'static str = "payments";
}

/// Each name has the record type that it was registered with, whether it was registered as a type
/// or as a value.
pub async fn each_name_has_a_record_type_of_its_own<S>()
where
    S: Stand<Backend: Statements<Deciding<S::Record>>>,
{
    let stand = S::open().await;
    let outbox = Outbox::<S::Backend>::new(stand.pool(2).await)
        .track::<S::Record, Payments>()
        .register::<Deciding<S::Record>>("refunds");
    let (recording, start) = (Sink::accepting(), Sink::accepting());
    let wrapped = outbox.wrap(recording.clone());
    for name in ["refunds", "payments", "audit"] {
        let published = publish(&wrapped, name, name.as_bytes(), HeaderMap::new());
        published.await.unwrap();
    }
    let mut recorded: Vec<_> = stand.rows().await.into_iter().map(|row| row.name).collect();
    recorded.sort();
    assert_eq!(recorded, ["payments", "refunds"]);
    outbox.republish()(start.clone()).await.unwrap();
    assert_eq!(
        start.payloads(),
        [b"payments"],
        "refunds are never sent again"
    );
    let _payments: Handle<_, S::Record> = outbox.handle("payments");
    let _refunds: Handle<_, Deciding<S::Record>> = outbox.handle("refunds");
}

/// A retry takes no connection where the record type has no retry of its own.
pub async fn a_retry_takes_no_connection<S: Stand>() {
    let stand = S::open().await;
    let pool = stand.pool(1).await;
    let outbox = registry::<S>().acquire_timeout(Duration::from_millis(200));
    outbox.set_pool(pool.clone()).unwrap();
    let logs = Logs::capture();
    let held = Arc::new(Mutex::new(None));
    let mut service = Service::<S>::with(outbox)
        .handler(move |_, _| {
            let (pool, held) = (pool.clone(), Arc::clone(&held));
            Box::pin(async move {
                let only = S::Backend::acquire(&pool).await.unwrap();
                *held.lock().unwrap() = Some(only);
                HandlerOutcome::retry_after(Duration::from_hours(1))
            })
        })
        .start()
        .await;
    service.publish("payments", b"1").await.unwrap();
    service.outcome().await;
    service.stop().await;
    assert_eq!(logs.complaints(), [""; 0], "it asked for none");
}
