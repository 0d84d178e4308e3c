//! Races and ends that need a record of their own, on the reference backend.

#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join;
use outbox_core::conformance::{
    Memory, MemoryAcquired, MemoryConnection, MemoryError, MemoryPool, MemoryStand, Row, Service,
    Settle, Sink, Stand, StandRecord, on, publish,
};
use outbox_core::{Backend, Mark, Outbox, OutboxSpec, Publish, Record, Statements, Stored};
use ruststream::{HeaderMap, OutgoingMessage};
use tokio::runtime::{Builder, Runtime};
use tokio::select;
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(10);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A record whose first fetch waits until it is let go.
struct SlowToFetch;

static FIRST: AtomicBool = AtomicBool::new(true);
static LET_GO: Semaphore = Semaphore::const_new(0);

impl Record for SlowToFetch {
    type Id = i64;
    const SPEC: OutboxSpec = StandRecord::<i64>::SPEC;
}

impl Publish<Memory> for SlowToFetch {
    async fn publish(
        conn: &mut MemoryConnection,
        msg: &OutgoingMessage<'_>,
    ) -> Result<i64, MemoryError> {
        <Memory as Statements<Self>>::insert(conn, msg).await
    }
}

impl Mark<Memory> for SlowToFetch {
    async fn fetch(conn: &mut MemoryConnection, id: &i64) -> Result<Option<Stored>, MemoryError> {
        if FIRST.swap(false, Ordering::Relaxed) {
            LET_GO.acquire().await.unwrap().forget();
        }
        <Memory as Statements<Self>>::fetch(conn, id).await
    }
}

struct SlowStand(MemoryStand);

impl Stand for SlowStand {
    type Backend = Memory;
    type Record = SlowToFetch;
    type Lock = MemoryAcquired;

    async fn open() -> Self {
        Self(MemoryStand::open().await)
    }

    async fn pool(&self, size: u32) -> MemoryPool {
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

    async fn lock(&self) -> MemoryAcquired {
        self.0.lock().await
    }

    async fn unlock(lock: MemoryAcquired) {
        <MemoryStand as Stand>::unlock(lock).await;
    }

    async fn begin_by_hand(conn: &mut MemoryConnection) {
        <MemoryStand as Stand>::begin_by_hand(conn).await;
    }
}

#[tokio::test]
async fn the_first_message_of_two_handlers_reaches_the_slower_one() {
    on(async {
        let stand = SlowStand::open().await;
        let service = Service::on(&stand).await.with_a_second_handler();
        let mut service = service.start().await;
        service.publish("payments", b"1").await.unwrap();
        let faster = service.next().await.name;
        assert_eq!(service.outcome().await, Settle::Ack, "it closes the record");
        LET_GO.add_permits(1);
        let slower = service.next().await.name;
        assert_ne!(faster, slower);
        service.stop().await;
    })
    .await;
}

/// A record whose insert hangs in its transaction, of the test of this number.
struct Hanging<const TEST: usize>;

static HANGS: [Semaphore; 2] = [Semaphore::const_new(0), Semaphore::const_new(0)];

impl<const TEST: usize> Record for Hanging<TEST> {
    type Id = i64;
    const SPEC: OutboxSpec = StandRecord::<i64>::SPEC;
}

impl<const TEST: usize> Publish<Memory> for Hanging<TEST> {
    async fn publish(
        conn: &mut MemoryConnection,
        msg: &OutgoingMessage<'_>,
    ) -> Result<i64, MemoryError> {
        <Memory as Statements<Self>>::insert(conn, msg).await?;
        HANGS[TEST].add_permits(1);
        pending().await
    }
}

impl<const TEST: usize> Mark<Memory> for Hanging<TEST> {}

#[test]
fn a_runtime_that_ends_during_a_publish_gives_back_no_open_transaction() {
    let pool = MemoryPool::new(1);
    let main = runtime();
    main.block_on(on(async {
        let outbox = Outbox::<Memory>::new(pool.clone()).register::<Hanging<0>>("payments");
        let tracked = outbox.lock_wait(Duration::MAX).wrap(Sink::accepting());
        tokio::spawn(async move {
            publish(&tracked, "payments", b"1", HeaderMap::new())
                .await
                .unwrap();
        });
        HANGS[0].acquire().await.unwrap().forget();
    }));
    drop(main);
    runtime().block_on(async {
        let begun = async {
            let mut conn = Memory::acquire(&pool).await.unwrap();
            Memory::begin(&mut conn, Duration::MAX).await.unwrap();
        };
        timeout(PATIENCE, begun).await.unwrap();
    });
}

#[test]
fn publishes_that_meet_end_with_the_main_runtime() {
    let mut main = Builder::new_multi_thread();
    let mut main = Some(main.worker_threads(1).enable_all().build().unwrap());
    let outbox = main.as_ref().unwrap().block_on(async {
        Outbox::<Memory>::new(MemoryPool::new(2)).register::<Hanging<1>>("payments")
    });
    let tracked = outbox.lock_wait(Duration::MAX).wrap(Sink::accepting());
    let next = || publish(&tracked, "payments", b"1", HeaderMap::new());
    runtime().block_on(on(async {
        let mut first = pin!(next());
        select! {
            _ = &mut first => unreachable!("it hangs"),
            hangs = HANGS[1].acquire() => hangs.unwrap().forget(),
        }
        // It runs here, and those that meet it run on a runtime that ends.
        let mut second = pin!(next());
        assert!((&mut second).now_or_never().is_none());
        main.take().unwrap().shutdown_background();
        for met in [
            timeout(PATIENCE, second).await.unwrap(),
            timeout(PATIENCE, next()).await.unwrap(),
        ] {
            let error = met.unwrap_err();
            assert!(error.contains("was not saved"), "{error}");
        }
    }));
}

#[tokio::test]
async fn publishes_that_meet_outlive_the_connections_that_their_begin_met() {
    on(async {
        let pool = MemoryPool::new(2);
        let outbox = Outbox::<Memory>::new(pool.clone()).register::<StandRecord>("payments");
        let tracked = outbox.wrap(Sink::accepting());
        let next = || publish(&tracked, "payments", b"1", HeaderMap::new());
        let mut open = Vec::new();
        for _ in 0..2 {
            let mut connection = Memory::acquire(&pool).await.unwrap();
            connection.begin_by_hand().unwrap();
            open.push(connection);
        }
        let mut first = Box::pin(next());
        assert!((&mut first).now_or_never().is_none());
        let mut met = Box::pin(join(next(), next()));
        assert!((&mut met).now_or_never().is_none());
        // Once their begin waits for a connection, it is the next to get one: first the one, then the
        // other of those that come with somebody's transaction.
        for _ in 0..10 {
            yield_now().await;
        }
        drop(first);
        drop(open);
        let (second, third) = met.await;
        second.unwrap();
        third.unwrap();
    })
    .await;
}

#[test]
fn a_publish_that_gave_up_waiting_leaves_nobody_in_the_pools_queue() {
    let pool = MemoryPool::new(1);
    let mut main = Builder::new_multi_thread();
    let main = main.worker_threads(1).enable_all().build().unwrap();
    let (outbox, held) = main.block_on(async {
        let outbox = Outbox::<Memory>::new(pool.clone()).register::<StandRecord>("payments");
        (outbox, Memory::acquire(&pool).await.unwrap())
    });
    let tracked = outbox
        .acquire_timeout(Duration::from_millis(5))
        .wrap(Sink::accepting());
    runtime().block_on(on(async {
        for _ in 0..5 {
            publish(&tracked, "payments", b"1", HeaderMap::new())
                .await
                .unwrap_err();
        }
        let gone = async {
            while main.metrics().num_alive_tasks() > 0 {
                yield_now().await;
            }
        };
        timeout(PATIENCE, gone).await.unwrap();
    }));
    drop(held);
}

#[tokio::test]
async fn a_wait_without_end_is_a_wait() {
    on(async {
        let outbox = Outbox::<Memory>::new(MemoryPool::new(1)).register::<StandRecord>("payments");
        let tracked = outbox.lock_wait(Duration::MAX).wrap(Sink::accepting());
        publish(&tracked, "payments", b"1", HeaderMap::new())
            .await
            .unwrap();
    })
    .await;
}
