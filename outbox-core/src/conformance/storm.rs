//! A storm: thousands of publishes on several threads, of which some are dropped and some refused.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ruststream::HeaderMap;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use super::connections::poll_times;
use super::message::publish;
use super::service::{Registry, registry};
use super::sink::Sink;
use super::stand::Stand;
use crate::TrackedPublisher;

const TASKS: u64 = 2_000;
const PUBLISHES: usize = 2;
const SEED: u64 = 0x005e_ed0f_a510_4322;
const PATIENCE: Duration = Duration::from_mins(2);

/// How a publish ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Sent,
    Refused,
    Dropped,
}

/// Numbers that look random, the same for the same seed (`SplitMix64`).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Publishes one after the other, and returns how each ended, by its payload.
async fn publish_some<S: Stand>(
    tracked: Arc<TrackedPublisher<Sink, Registry<S>>>,
    task: u64,
) -> Vec<(String, End)> {
    let mut random = Random(SEED ^ (task << 32));
    let mut ends = Vec::with_capacity(PUBLISHES);
    for at in 0..PUBLISHES {
        let name = ["payments", "refunds"][usize::from(random.below(2) == 0)];
        let refused = random.below(400) == 0;
        let polls = match random.below(5) {
            0 if !refused => 1 + random.below(3),
            _ => u64::MAX,
        };
        let text = format!("{task} {at}");
        let payload = if refused { "refused" } else { &text };
        let mut published = None;
        let publishing = async {
            let published = &mut published;
            *published = Some(publish(&*tracked, name, payload.as_bytes(), HeaderMap::new()).await);
        };
        poll_times(publishing, usize::try_from(polls).unwrap_or(usize::MAX)).await;
        let end = match published {
            None => End::Dropped,
            Some(Ok(())) => End::Sent,
            Some(Err(_)) => End::Refused,
        };
        assert_eq!(end == End::Refused, refused, "{text}: {published:?}");
        ends.push((text, end));
    }
    ends
}

/// Every publish that came back with `Ok` has one record, with the payload and the id that were sent;
/// one that failed has none, and one that was dropped has at most one. The ids of a task's publishes
/// ascend, and nothing hangs.
pub async fn each_publish_of_a_storm_has_the_record_that_it_was_told_of<S: Stand>() {
    println!("seed {SEED:#x}");
    let stand = Arc::new(S::open().await);
    stand.refuse("refused").await;
    let sink = Sink::accepting();
    let (of_pool, broker) = (Arc::clone(&stand), sink.clone());
    let storm = spawn_blocking(move || {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(4).enable_all().build().unwrap();
        runtime.block_on(async {
            let outbox = registry::<S>()
                .lock_wait(PATIENCE * 8)
                .acquire_timeout(PATIENCE);
            outbox.set_pool(of_pool.pool(8).await).unwrap();
            let tracked = Arc::new(outbox.wrap(broker));
            let tasks = (0..TASKS).map(|task| publish_some::<S>(Arc::clone(&tracked), task));
            let tasks: JoinSet<_> = tasks.collect();
            timeout(PATIENCE, tasks.join_all())
                .await
                .expect("a task hangs")
        })
    });
    let tasks = storm.await.unwrap();

    let mut rows = HashMap::new();
    for row in stand.rows().await {
        let payload = String::from_utf8(row.payload.unwrap()).unwrap();
        let twice = rows.insert(payload, row.id.parse::<i64>().unwrap());
        assert_eq!(twice, None, "recorded twice");
    }
    let mut sent = HashMap::new();
    for delivery in sink.sent() {
        let payload = String::from_utf8(delivery.payload.clone()).unwrap();
        let id = delivery.id().unwrap().parse::<i64>().unwrap();
        assert_eq!(sent.insert(payload, id), None, "sent twice");
    }
    let mut ends = HashMap::new();
    for task in tasks {
        let mut last = 0;
        for (text, end) in task {
            let (row, sent) = (rows.remove(&text), sent.remove(&text));
            match end {
                End::Sent => {
                    assert!(row.is_some() && row == sent, "{text}: {row:?} {sent:?}");
                    assert!(row > Some(last), "{text}: {row:?} after {last}");
                    last = row.unwrap();
                }
                End::Refused => assert_eq!((row, sent), (None, None), "{text}"),
                End::Dropped => assert!(sent.is_none() || row == sent, "{text}"),
            }
            *ends.entry(format!("{end:?}")).or_insert(0) += 1;
        }
    }
    println!("{ends:?}");
    assert_eq!(ends.len(), 3, "each kind of end was met: {ends:?}");
    assert!(
        rows.is_empty() && sent.is_empty(),
        "nobody asked for {rows:?}, {sent:?}"
    );
}
