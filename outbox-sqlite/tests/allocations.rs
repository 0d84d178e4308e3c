//! What a message costs in allocations, on the thread that publishes and handles it.
#![cfg(feature = "sqlx")]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

mod stand;

use std::convert::Infallible;

use allocation_counter::measure;
use outbox_core::conformance::{Stand, registry, skip};
use outbox_sqlite::Sqlite;
use outbox_sqlite::outbox::{encode_headers, is_on};
use ruststream::memory::prelude::*;
use ruststream::{Lend, OutgoingMessage};
use sqlx::Row as _;
use sqlx::sqlite::SqlitePool;
use stand::SqliteStand;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const MESSAGES: u64 = 50;
const ROUNDS: u64 = 100;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The allocations of a future on this thread: the fewest of some rounds, since a wait that another
/// thread ends earlier or later costs more or less.
fn allocations(runtime: &Runtime, mut work: impl AsyncFnMut()) -> u64 {
    let rounds = (0..ROUNDS).map(|_| measure(|| runtime.block_on(work())).count_total);
    rounds.min().unwrap()
}

#[derive(Deserialized)]
struct Payload<'a>(&'a [u8]);

/// Not bytes that are serialized already: those bypass the publish layers.
#[derive(Outgoing, serde::Serialize)]
struct Reply(usize);

#[subscriber("requests", reply("replies"))]
async fn answer(payload: &Payload<'_>) -> Reply {
    Reply(payload.0.len())
}

#[subscriber("replies")]
async fn take(payload: &Payload<'_>, ctx: &mut Context<'_, (), Taken>) -> HandlerOutcome {
    ctx.state().send(payload.0.len()).ok();
    HandlerOutcome::ack()
}

type Taken = UnboundedSender<usize>;

/// The allocations of messages that no name is registered for: published, answered by a handler,
/// and handled.
macro_rules! untracked {
    ($app:ident => $layered:expr) => {{
        let runtime = runtime();
        let (taken, mut replies) = unbounded_channel();
        let broker = MemoryBroker::new();
        let publisher = broker.publisher();
        let $app = RustStream::new(AppInfo::new("allocations", "0.1.0"))
            .on_startup(async move |()| Ok::<_, Infallible>(taken));
        let app = $layered.with_broker(broker, |b| {
            b.include(answer);
            b.include(take);
        });
        let app = runtime.block_on(app.start()).unwrap();
        let count = allocations(&runtime, async || {
            for _ in 0..MESSAGES {
                let msg = OutgoingMessage::new("requests", b"0123456789");
                publisher.publish(msg, None).await.unwrap();
                assert_eq!(replies.recv().await, Some(2));
            }
        });
        runtime.block_on(app.shutdown()).unwrap();
        count
    }};
}

#[test]
fn an_untracked_message_allocates_nothing_more_than_without_the_layers() {
    let outbox = registry::<SqliteStand<Sqlite>>();
    let bare = untracked!(app => app);
    let layered =
        untracked!(app => app.layer(outbox.layer()).publish_layer(outbox.publish_layer()));
    assert!(bare > MESSAGES, "the counter counts: {bare}");
    assert_eq!(layered, bare);
}

/// A publisher that costs nothing itself.
struct Nowhere;

impl Publisher for Nowhere {
    type Payload = Lend;
    type Error = Infallible;
    type Options = ();

    async fn publish(
        &self,
        msg: OutgoingMessage<'_, &[u8]>,
        _options: Option<&()>,
    ) -> Result<(), Infallible> {
        assert_eq!(msg.payload().len(), 10);
        Ok(())
    }
}

#[test]
fn a_wrapped_publisher_allocates_nothing_for_an_untracked_message() {
    let runtime = runtime();
    let wrapped = registry::<SqliteStand<Sqlite>>().wrap(Nowhere);
    let [few, many] = [1, MESSAGES].map(|messages| {
        allocations(&runtime, async || {
            for _ in 0..messages {
                let msg = OutgoingMessage::new("requests", b"0123456789");
                wrapped.publish(msg, None).await.unwrap();
            }
        })
    });
    assert_eq!(few, many, "what there is belongs to the runtime");
}

/// The same statements with the same safety, written by hand.
async fn publish_by_hand(pool: &SqlitePool, publisher: &impl Publisher) {
    let mut conn = pool.acquire().await.unwrap();
    let begin = sqlx::query("BEGIN IMMEDIATE; PRAGMA journal_mode");
    let journal = begin.fetch_all(&mut *conn).await.unwrap();
    assert_eq!(journal[0].get::<&str, _>(0), "wal");
    let msg = OutgoingMessage::new("payments", b"0123456789");
    let insert = "INSERT INTO outbox (name, payload, headers) VALUES (?1, ?2, ?3) RETURNING id";
    let row = sqlx::query(insert)
        .bind(msg.name())
        .bind(msg.payload())
        .bind(encode_headers(msg.headers()))
        .fetch_one(&mut *conn)
        .await
        .unwrap();
    assert!(row.get::<i64, _>(0) > 0);
    sqlx::query("COMMIT").execute(&mut *conn).await.unwrap();
    drop(conn);
    publisher.publish(msg, None).await.unwrap();
}

#[test]
fn a_tracked_publish_allocates_two_more_than_the_same_statements_by_hand() {
    if !is_on() {
        return skip("the outbox is off");
    }
    let runtime = runtime();
    let stand = runtime.block_on(SqliteStand::<Sqlite>::open());
    let pool = runtime.block_on(stand.pool(1));
    let publisher = MemoryBroker::new().publisher();
    let by_hand = allocations(&runtime, async || {
        publish_by_hand(&pool, &publisher).await;
    });
    let outbox = registry::<SqliteStand<Sqlite>>();
    runtime.block_on(async { outbox.set_pool(pool.clone()).unwrap() });
    let tracked = outbox.wrap(MemoryBroker::new().publisher());
    let tracked = allocations(&runtime, async || {
        let msg = OutgoingMessage::new("payments", b"0123456789");
        tracked.publish(msg, None).await.unwrap();
    });
    println!("by hand {by_hand}, tracked {tracked}");
    assert!(by_hand > 1, "the counter counts: {by_hand}");
    assert!(
        tracked <= by_hand + 2,
        "by hand {by_hand}, tracked {tracked}"
    );
}
