//! Publishes that meet share a transaction, and each has an end of its own.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use ruststream::HeaderMap;
use tokio::runtime::Builder;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use tracing::Level;

use super::connections::poll_times;
use super::custom::{Own, With};
use super::logs::Logs;
use super::message::{headers, publish};
use super::service::{Registry, registry};
use super::sink::Sink;
use super::stand::Stand;
use crate::{Backend, PAGE_ROWS, Statements, TARGET, TrackedPublisher, decode_headers};

const PATIENCE: Duration = Duration::from_secs(20);

/// A registry on a pool of `size` connections that waits longer than any case lasts.
async fn sharing<S: Stand>(stand: &S, size: u32) -> Registry<S> {
    let outbox = registry::<S>().group_commit(true);
    outbox.set_pool(stand.pool(size).await).unwrap();
    outbox.acquire_timeout(PATIENCE).lock_wait(PATIENCE * 8)
}

/// Publishes that meet: each has begun before the first of them can be written.
async fn meet<S: Stand, T>(
    stand: &S,
    publishes: impl IntoIterator<Item = impl Future<Output = T>>,
) -> Vec<T> {
    let lock = stand.lock().await;
    let mut all = pin!(join_all(publishes));
    assert!((&mut all).now_or_never().is_none());
    S::unlock(lock).await;
    timeout(PATIENCE, all).await.expect("a publish hangs")
}

async fn payment<S: Stand>(
    tracked: &TrackedPublisher<Sink, Registry<S>>,
    payload: &str,
) -> Result<(), String> {
    publish(tracked, "payments", payload.as_bytes(), HeaderMap::new()).await
}

/// The payloads of the table, in the order of ids.
async fn recorded<S: Stand>(stand: &S) -> Vec<String> {
    let payloads = stand.rows().await.into_iter().map(|row| row.payload);
    let texts = payloads.map(|payload| String::from_utf8(payload.unwrap()));
    texts.collect::<Result<_, _>>().unwrap()
}

/// Asserts that publishes which meet are recorded in the order in which they began, each with its
/// own payload and headers, and sent with its own id.
async fn assert_recorded_in_order<S: Stand>(messages: usize, share: bool) {
    let stand = S::open().await;
    let sink = Sink::accepting();
    // One connection: nobody overtakes the first.
    let outbox = sharing(&stand, 1).await.group_commit(share);
    let tracked = outbox.wrap(sink.clone());
    let texts: Vec<_> = (0..messages).map(|message| message.to_string()).collect();
    let meeting = texts.iter().map(|text| {
        let text = text.as_bytes();
        publish(&tracked, "payments", text, headers(&[("copy", text)]))
    });
    let published = meet(&stand, meeting).await;
    assert_eq!(published, vec![Ok(()); messages]);
    assert_eq!(recorded(&stand).await, texts);
    let sent = sink.sent();
    assert_eq!(sent.len(), messages);
    for row in stand.rows().await {
        assert!(row.open && row.name == "payments");
        let of_row: Vec<_> = sent
            .iter()
            .filter(|sent| sent.id() == Some(&row.id))
            .collect();
        assert_eq!(of_row.len(), 1, "{row:?}");
        assert_eq!(Some(&of_row[0].payload), row.payload.as_ref());
        let stored = decode_headers(&row.headers.unwrap()).unwrap();
        for headers in [&stored, &of_row[0].headers] {
            assert_eq!(headers.get("copy"), Some(of_row[0].payload.as_slice()));
        }
    }
}

/// Publishes that meet, more than a statement takes, are recorded in the order in which they began,
/// each with its own payload, headers and id.
pub async fn publishes_that_meet_are_recorded_in_order<S: Stand>() {
    assert_recorded_in_order::<S>(PAGE_ROWS + 44, true).await;
}

/// The same with group commit off.
pub async fn publishes_that_share_nothing_are_recorded_in_order<S: Stand>() {
    assert_recorded_in_order::<S>(20, false).await;
}

/// Publishes that wait for the first one are committed by one commit: when the first of them is sent,
/// the records of all are there.
pub async fn publishes_that_meet_are_committed_together<S: Stand>() {
    const MESSAGES: usize = 10;
    let stand = Arc::new(S::open().await);
    let looking = Arc::clone(&stand);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let seeing = Arc::clone(&seen);
    let sink = Sink::new(move |delivery| {
        let (looking, seeing) = (Arc::clone(&looking), Arc::clone(&seeing));
        Box::pin(async move {
            if delivery.payload != b"0" {
                let records = looking.rows().await.len();
                seeing.lock().unwrap().push(records);
            }
            Ok(())
        })
    });
    let tracked = sharing(&*stand, 1).await.wrap(sink);
    let texts: Vec<_> = (0..MESSAGES).map(|message| message.to_string()).collect();
    let meeting = texts.iter().map(|text| payment::<S>(&tracked, text));
    let published = meet(&*stand, meeting).await;
    assert_eq!(published, vec![Ok(()); MESSAGES]);
    assert_eq!(*seen.lock().unwrap(), [MESSAGES; MESSAGES - 1]);
}

/// A row that the database refuses fails its publish alone, whichever of them it is; the others are
/// recorded once.
pub async fn a_refused_row_fails_its_publish_alone<S: Stand>() {
    let stand = S::open().await;
    stand.refuse("refused").await;
    let sink = Sink::accepting();
    let tracked = sharing(&stand, 2).await.wrap(sink.clone());
    for texts in [
        ["refused", "1", "2", "3"],
        ["4", "refused", "5", "6"],
        ["7", "8", "9", "refused"],
        ["10", "refused", "refused", "11"],
    ] {
        let meeting = texts.map(|text| payment::<S>(&tracked, text));
        for (text, published) in texts.iter().zip(meet(&stand, meeting).await) {
            if *text == "refused" {
                let error = published.unwrap_err();
                assert!(error.contains("was not saved"), "{error}");
            } else {
                assert_eq!(published, Ok(()), "{text}");
            }
        }
    }
    let mut good: Vec<u32> = Vec::new();
    for text in recorded(&stand).await {
        good.push(text.parse().unwrap());
    }
    good.sort_unstable();
    assert_eq!(good, (1..=11).collect::<Vec<_>>());
    assert_eq!(sink.sent().len(), 11, "nothing that was refused is sent");
}

/// A commit that is refused fails the publishes that meet, none of which is recorded or sent.
pub async fn a_refused_commit_fails_the_publishes_that_meet<S: Stand>() {
    let stand = S::open().await;
    let sink = Sink::accepting();
    let tracked = sharing(&stand, 2).await.wrap(sink.clone());
    stand.refuse_commits(true).await;
    let meeting = ["1", "2", "3"].map(|text| payment::<S>(&tracked, text));
    for published in meet(&stand, meeting).await {
        let error = published.unwrap_err();
        assert!(error.contains("was not saved"), "{error}");
    }
    assert_eq!(recorded(&stand).await, [""; 0]);
    stand.refuse_commits(false).await;
    let meeting = ["4", "5", "6"].map(|text| payment::<S>(&tracked, text));
    assert_eq!(meet(&stand, meeting).await, [const { Ok(()) }; 3]);
    assert_eq!(recorded(&stand).await.len(), 3);
    assert_eq!(sink.sent().len(), 3);
}

/// A publish that is dropped before its statement began leaves no record.
pub async fn a_publish_that_is_dropped_in_the_queue_is_not_recorded<S: Stand>() {
    let stand = S::open().await;
    let tracked = sharing(&stand, 1).await.wrap(Sink::accepting());
    let lock = stand.lock().await;
    let [mut first, mut dropped, mut last] =
        ["first", "dropped", "last"].map(|text| Box::pin(payment::<S>(&tracked, text)));
    for publish in [&mut first, &mut dropped, &mut last] {
        assert!(publish.now_or_never().is_none());
    }
    drop(dropped);
    S::unlock(lock).await;
    for published in timeout(PATIENCE, join_all([first, last])).await.unwrap() {
        published.unwrap();
    }
    assert_eq!(recorded(&stand).await, ["first", "last"]);
}

/// A publish that is dropped, whichever it is and after every number of polls that it takes, takes
/// nobody with it.
pub async fn a_dropped_publish_takes_nobody_with_it<S: Stand>() {
    let stand = S::open().await;
    let tracked = sharing(&stand, 2).await.wrap(Sink::accepting());
    for dropped in 0..3 {
        for polls in 1.. {
            let texts = [0, 1, 2].map(|at| format!("{dropped} {polls} {at}"));
            let meeting = texts.iter().enumerate().map(|(at, text)| {
                let polls = if at == dropped { polls } else { usize::MAX };
                poll_times(payment::<S>(&tracked, text).map(Result::unwrap), polls)
            });
            let finished = meet(&stand, meeting).await;
            let rows = recorded(&stand).await;
            for (at, text) in texts.iter().enumerate() {
                let records = rows.iter().filter(|row| *row == text).count();
                assert!(at == dropped || finished[at]);
                let least = usize::from(finished[at]);
                assert!((least..=1).contains(&records), "{text}: {rows:?}");
            }
            if finished[dropped] {
                break;
            }
        }
    }
}

/// A write lock that somebody holds fails all publishes that wait, within the bound; nothing is
/// written later, and the next ones go through.
pub async fn a_held_write_lock_fails_all_that_wait<S: Stand>() {
    let stand = S::open().await;
    let outbox = sharing(&stand, 4)
        .await
        .lock_wait(Duration::from_millis(300));
    let tracked = outbox.wrap(Sink::accepting());
    let lock = stand.lock().await;
    let began = Instant::now();
    let waiting = ["1", "2", "3", "4", "5"].map(|text| payment::<S>(&tracked, text));
    for published in join_all(waiting).await {
        let error = published.unwrap_err();
        assert!(error.contains("write lock"), "{error}");
    }
    assert!(began.elapsed() < Duration::from_secs(10), "bounded");
    S::unlock(lock).await;
    let outbox = outbox.lock_wait(PATIENCE);
    let tracked = outbox.wrap(Sink::accepting());
    let meeting = ["6", "7", "8"].map(|text| payment::<S>(&tracked, text));
    assert_eq!(meet(&stand, meeting).await, [const { Ok(()) }; 3]);
    let mut recorded = recorded(&stand).await;
    recorded.sort();
    assert_eq!(recorded, ["6", "7", "8"]);
}

/// A pool without a free connection fails all publishes that wait, within the timeout; nothing is
/// written later, and the next ones go through.
pub async fn an_exhausted_pool_fails_all_that_wait<S: Stand>() {
    let stand = S::open().await;
    let pool = stand.pool(1).await;
    let outbox = registry::<S>().group_commit(true);
    let outbox = outbox.acquire_timeout(Duration::from_millis(200));
    outbox.set_pool(pool.clone()).unwrap();
    let tracked = outbox.wrap(Sink::accepting());
    let held = S::Backend::acquire(&pool).await.unwrap();
    let began = Instant::now();
    let waiting = ["1", "2", "3", "4", "5"].map(|text| payment::<S>(&tracked, text));
    for published in join_all(waiting).await {
        let error = published.unwrap_err();
        assert!(error.contains("came free"), "{error}");
    }
    assert!(began.elapsed() < Duration::from_secs(5), "bounded");
    drop(held);
    payment::<S>(&tracked, "6").await.unwrap();
    assert_eq!(recorded(&stand).await, ["6"]);
}

/// Publishes of other threads, each with a runtime of its own, meet those of the main one.
pub async fn publishes_of_other_runtimes_meet<S: Stand>() {
    const THREADS: usize = 6;
    let stand = S::open().await;
    let outbox = sharing(&stand, 2).await;
    let sink = Sink::accepting();
    let lock = stand.lock().await;
    let (begun, mut all_begun) = unbounded_channel();
    let threads: Vec<_> = (0..THREADS)
        .map(|at| {
            let (tracked, begun) = (outbox.wrap(sink.clone()), begun.clone());
            thread::spawn(move || {
                let runtime = Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let text = at.to_string();
                    let mut published = pin!(payment::<S>(&tracked, &text));
                    assert!((&mut published).now_or_never().is_none());
                    begun.send(()).unwrap();
                    timeout(PATIENCE, published).await.expect("it hangs")
                })
            })
        })
        .collect();
    for _ in 0..THREADS {
        all_begun.recv().await.unwrap();
    }
    let tracked = outbox.wrap(sink.clone());
    let mut here = pin!(payment::<S>(&tracked, "here"));
    assert!((&mut here).now_or_never().is_none());
    S::unlock(lock).await;
    here.await.unwrap();
    for thread in threads {
        let published = spawn_blocking(move || thread.join()).await.unwrap();
        published.unwrap().unwrap();
    }
    let mut recorded = recorded(&stand).await;
    recorded.sort();
    assert_eq!(recorded, ["0", "1", "2", "3", "4", "5", "here"]);
    assert_eq!(sink.sent().len(), THREADS + 1);
}

/// A panic of the service's own insert is the end of its publish alone, whichever it is.
pub async fn a_panic_of_an_insert_fails_its_publish_alone<S>()
where
    S: Stand<Backend: Statements<Own<S::Record>>>,
{
    let stand = With::<S, Own<S::Record>>::open().await;
    let sink = Sink::accepting();
    let tracked = sharing(&stand, 2).await.wrap(sink.clone());
    for texts in [
        ["panic", "1", "2"],
        ["3", "panic", "4"],
        ["5", "6", "panic"],
    ] {
        let meeting = texts.map(|text| {
            let published = payment::<With<S, Own<S::Record>>>(&tracked, text);
            AssertUnwindSafe(published).catch_unwind()
        });
        for (text, published) in texts.iter().zip(meet(&stand, meeting).await) {
            match published {
                Ok(published) if *text == "panic" => {
                    let error = published.unwrap_err();
                    assert!(error.contains("panicked"), "{error}");
                }
                published => assert_eq!(published.ok(), (*text != "panic").then_some(Ok(()))),
            }
        }
    }
    let mut recorded = recorded(&stand).await;
    recorded.sort();
    assert_eq!(recorded, ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(sink.sent().len(), 6);
}

/// What the service's own inserts and the broker did, in order, for publishes that meet.
async fn steps<S>(share: bool) -> Vec<String>
where
    S: Stand<Backend: Statements<Own<S::Record>>>,
{
    let stand = With::<S, Own<S::Record>>::open().await;
    let logs = Logs::capture();
    let sink = Sink::new(|delivery| {
        let text = String::from_utf8(delivery.payload).unwrap();
        tracing::info!(target: TARGET, "the service's send of {text}");
        Box::pin(std::future::ready(Ok(())))
    });
    let outbox = sharing(&stand, 1).await.group_commit(share);
    let tracked = outbox.wrap(sink);
    let meeting = ["0", "1", "2"].map(|text| payment::<With<S, Own<S::Record>>>(&tracked, text));
    assert_eq!(meet(&stand, meeting).await, [const { Ok(()) }; 3]);
    let lines = logs.lines(Level::INFO, &["the service's "]);
    let steps = lines
        .iter()
        .map(|line| line.split_once("service's ").unwrap().1.trim());
    steps.map(str::to_owned).collect()
}

const ONE_BY_ONE: [&str; 6] = [
    "insert of 0",
    "send of 0",
    "insert of 1",
    "send of 1",
    "insert of 2",
    "send of 2",
];

/// The service's own insert takes part where the driver says that it gains from it.
pub async fn the_services_own_insert_takes_part_where_the_driver_gains<S>()
where
    S: Stand<Backend: Statements<Own<S::Record>>>,
{
    let steps = steps::<S>(true).await;
    if S::Backend::SHARES_OWN_PUBLISH {
        let at = |step: &str| steps.iter().position(|of| of == step).unwrap();
        assert!(at("insert of 2") < at("send of 1"), "{steps:?}");
        assert_eq!(steps.len(), ONE_BY_ONE.len());
    } else {
        assert_eq!(steps, ONE_BY_ONE);
    }
}

/// With group commit off each publish is committed, and sent, before the next one is written.
pub async fn publishes_share_nothing_with_group_commit_off<S>()
where
    S: Stand<Backend: Statements<Own<S::Record>>>,
{
    assert_eq!(steps::<S>(false).await, ONE_BY_ONE);
}
