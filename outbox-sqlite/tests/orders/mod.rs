//! Inboxes of the peer, `ruststream-sqlx`: of orders, whose jobs are scripts of their handler, and
//! of the payments themselves.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use chrono::{DateTime, Utc};
use outbox_core::conformance::{Delivery, StandRecord};
use outbox_sqlite::outbox::{Node, Outbox, Statements};
use ruststream::OutgoingMessage;
use ruststream::memory::MemoryPublisher;
use ruststream::memory::prelude::*;
use ruststream::runtime::RunningApp;
use ruststream_sqlx::{
    HeaderColumn, Inbox, InboxQueue, InboxSettings, Repository, SqlxBroker, keys,
};
use serde::Serialize;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, FromRow, Sqlite, SqliteConnection};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::stand::{Driver, SqliteStand};
use outbox_core::conformance::shop::{Events, Payload, Step, next, ship, stop};

const POLL: Duration = Duration::from_millis(20);

/// The tables of the inboxes, and of what their handlers write.
pub const TABLES: &str = "
    CREATE TABLE order_jobs (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        attempt INTEGER NOT NULL DEFAULT 1,
        locked_until TEXT,
        payload BLOB NOT NULL
    );
    CREATE TABLE payment_jobs (
        id INTEGER PRIMARY KEY,
        locked_until TEXT,
        headers TEXT,
        payload BLOB NOT NULL
    );
    CREATE TABLE orders (attempt INTEGER);
";

/// A job of the inbox. Its payload is a script of its handler: attempts, with a `;` between two,
/// of steps, with a `,` between two. A step is SQL in the delivery's transaction, a tracked
/// `publish`, or the outcome `retry`.
#[derive(Inbox, FromRow)]
#[inbox(table = "order_jobs")]
struct OrderJob {
    #[field(id, generated)]
    id: i64,
    #[field(group)]
    name: String,
    #[field(attempt, generated)]
    attempt: i16,
    #[field(locked_until)]
    locked_until: Option<DateTime<Utc>>,
    #[field(payload)]
    payload: Vec<u8>,
}

fn script<'a>(job: &Payload<'a>, attempt: usize) -> impl Iterator<Item = &'a str> {
    let script = str::from_utf8(job.0).unwrap();
    script.split(';').nth(attempt - 1).unwrap().split(',')
}

pub async fn run(tx: &mut SqliteConnection, sql: &str) -> Step {
    let script = sqlx::raw_sql(AssertSqlSafe(sql));
    Ok(script.execute(tx).await.map(drop)?)
}

#[subscriber(InboxQueue::<OrderJob>::new("orders"))]
async fn take_order(
    job: &Payload<'_>,
    Ctx(mut tx): Ctx<keys::Tx<Sqlite>>,
    Ctx(attempt): Ctx<keys::Attempt>,
    State(steps): State<UnboundedSender<Step>>,
    Out(out): Out<impl Publisher>,
) -> HandlerOutcome {
    let attempt = usize::try_from(attempt.unwrap()).unwrap();
    for step in script(job, attempt) {
        let done = match step {
            "retry" => return HandlerOutcome::retry(),
            "publish" => {
                let payload = attempt.to_string();
                let msg = OutgoingMessage::new("payments", payload.as_bytes());
                out.publish(msg, None).await.map_err(Into::into)
            }
            sql => run(&mut tx, sql).await,
        };
        steps.send(done).ok();
    }
    HandlerOutcome::ack()
}

#[derive(Serialize, Outgoing)]
struct Answer(usize);

#[subscriber(InboxQueue::<OrderJob>::new("questions"), reply("payments"))]
async fn answer(
    job: &Payload<'_>,
    Ctx(mut tx): Ctx<keys::Tx<Sqlite>>,
    Ctx(attempt): Ctx<keys::Attempt>,
    State(steps): State<UnboundedSender<Step>>,
) -> Answer {
    let attempt = usize::try_from(attempt.unwrap()).unwrap();
    for step in script(job, attempt) {
        steps.send(run(&mut tx, step).await).ok();
    }
    Answer(attempt)
}

/// What a driver under test does: it runs the statements of the stand's record.
pub trait Tested: Driver + Statements<StandRecord> {}

impl<D: Driver + Statements<StandRecord>> Tested for D {}

/// The registry of a case: of `payments`.
pub type Ours<D> = Outbox<D, Node<StandRecord>>;

/// A service with an inbox, whose payments go over the in-memory broker.
pub struct Service {
    app: RunningApp,
    steps: UnboundedReceiver<Step>,
    shipped: UnboundedReceiver<Delivery>,
    /// A publisher past every layer.
    pub sender: MemoryPublisher,
}

impl Service {
    pub async fn open<D: Tested>(stand: &SqliteStand<D>, ours: &Ours<D>) -> Self {
        let (events, shipped, steps) = Events::new();
        let broker = MemoryBroker::new();
        let sender = broker.publisher();
        let broker = broker.bindable();
        let (out, reply) = (broker.bind(Publish), broker.bind(Publish));
        let inbox = SqlxBroker::new(stand.own_pool()).poll_interval(POLL);
        let app = RustStream::new(AppInfo::new("shop", "0.1.0"))
            .on_startup(async move |()| Ok::<_, Infallible>(events))
            .layer(ours.layer())
            .publish_layer(ours.publish_layer())
            .with_broker(inbox, |b| {
                let orders = take_order.transactional();
                b.include(orders).out(DefaultSlot, out).build();
                b.include(answer.transactional()).out_reply(reply);
            })
            .with_broker(broker, |b| {
                b.include(ship);
            });
        let app = app.start().await.unwrap();
        Self {
            app,
            steps,
            shipped,
            sender,
        }
    }

    /// What the next steps came to.
    pub async fn steps<const N: usize>(&mut self) -> [Step; N] {
        let mut steps = Vec::new();
        for _ in 0..N {
            steps.push(next(&mut self.steps).await);
        }
        steps.try_into().unwrap()
    }

    pub async fn assert_shipped(&mut self, payload: &[u8]) {
        assert_eq!(next(&mut self.shipped).await.payload, payload);
    }

    /// Stops once every delivery is settled.
    pub async fn close(mut self) {
        stop(self.app).await;
        let more = self.shipped.try_recv();
        assert!(more.is_err(), "it was shipped, too: {more:?}");
    }
}

pub async fn enqueue<D>(stand: &SqliteStand<D>, queue: &str, script: &str) {
    let job = format!("VALUES ('{queue}', CAST('{script}' AS BLOB))");
    let insert = format!("INSERT INTO order_jobs (name, payload) {job}");
    stand.execute(&insert).await;
}

/// Asserts that the inbox is done, and that these attempts of its handler were committed.
pub async fn assert_done<D>(stand: &SqliteStand<D>, committed: &[i64]) {
    let mut conn = stand.connect().await;
    let jobs = "SELECT (SELECT count(*) FROM order_jobs) + (SELECT count(*) FROM payment_jobs)";
    let jobs: i64 = sqlx::query_scalar(jobs).fetch_one(&mut conn).await.unwrap();
    assert_eq!(jobs, 0);
    let orders: Vec<i64> = sqlx::query_scalar("SELECT attempt FROM orders ORDER BY rowid")
        .fetch_all(&mut conn)
        .await
        .unwrap();
    assert_eq!(orders, committed);
}

/// A payment that comes through an inbox: its row keeps the headers, the record's id among them.
#[derive(Inbox, FromRow)]
#[inbox(table = "payment_jobs")]
struct PaymentJob {
    #[field(id, generated)]
    id: i64,
    #[field(locked_until)]
    locked_until: Option<DateTime<Utc>>,
    #[field(headers)]
    headers: Option<Json<BTreeMap<String, String>>>,
    #[field(payload)]
    payload: Vec<u8>,
}

impl ruststream_sqlx::Publish<Sqlite> for PaymentJob {
    async fn publish(conn: &mut SqliteConnection, msg: &OutgoingMessage<'_>) -> sqlx::Result<()> {
        let headers = Option::<Json<BTreeMap<String, String>>>::from_headers(msg.headers());
        let insert = "INSERT INTO payment_jobs (headers, payload) VALUES (?, ?)";
        let insert = sqlx::query(insert).bind(headers).bind(msg.payload());
        insert.execute(conn).await.map(drop)
    }
}

#[subscriber(InboxQueue::<PaymentJob>::new("payments"))]
async fn ship_job(
    payload: &Payload<'_>,
    State(steps): State<UnboundedSender<Step>>,
) -> HandlerOutcome {
    assert!(!payload.0.is_empty());
    steps.send(Ok(())).ok();
    HandlerOutcome::ack()
}

#[subscriber(InboxQueue::<PaymentJob>::new("payments"))]
async fn ship_in_transaction(
    payload: &Payload<'_>,
    Ctx(mut tx): Ctx<keys::Tx<Sqlite>>,
    State(steps): State<UnboundedSender<Step>>,
) -> HandlerOutcome {
    let sql = str::from_utf8(payload.0).unwrap();
    steps.send(run(&mut tx, sql).await).ok();
    HandlerOutcome::ack()
}

/// A service whose payments come through the inbox.
pub struct Through<P> {
    pub app: RunningApp,
    /// A publisher into the inbox.
    pub publisher: P,
    pub steps: UnboundedReceiver<Step>,
}

pub async fn through_inbox<D: Tested>(
    stand: &SqliteStand<D>,
    ours: &Ours<D>,
    transactional: bool,
) -> Through<impl Publisher> {
    let (events, _, steps) = Events::new();
    let broker = SqlxBroker::new(stand.own_pool())
        .poll_interval(POLL)
        .bindable();
    let sender = broker.bind(Repository::<PaymentJob>::default());
    let app = RustStream::new(AppInfo::new("shop", "0.1.0"))
        .on_startup(async move |()| Ok::<_, Infallible>(events))
        .layer(ours.layer())
        .publish_layer(ours.publish_layer())
        .with_broker(broker, |b| {
            if transactional {
                b.include(ship_in_transaction.transactional());
            } else {
                b.include(ship_job);
            }
            b.after_startup(Repository::<PaymentJob>::default(), ours.republish());
        });
    let app = app.start().await.unwrap();
    Through {
        publisher: ours.wrap(app.publisher(sender).await.unwrap()),
        app,
        steps,
    }
}
