//! A start that waits: for a broker that is gone, or for a receiver that is elsewhere. The clock is
//! paused, so that no test does.

use std::future::{pending, ready};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outbox_core::conformance::{Logs, MemoryStand, Sink, Stand, registry_on};
use outbox_core::{OutboxError, RepublishReport};
use tokio::time::{Instant, sleep};
use tracing::Level;

async fn backlog(records: usize) -> MemoryStand {
    let stand = MemoryStand::open().await;
    for _ in 0..records {
        stand.store("payments", Some(b"1"), None).await;
    }
    stand.store("refunds", Some(b"1"), None).await;
    stand
}

/// Runs a start that must fail, and returns its report and how long it took.
async fn failed(stand: &MemoryStand, sink: &Sink) -> (RepublishReport, Duration) {
    let outbox = registry_on(stand, 2).await;
    let began = Instant::now();
    match outbox.republish()(sink.clone()).await {
        Err(OutboxError::NotRepublished(report)) => (report, began.elapsed()),
        started => panic!("{started:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_is_gone_is_asked_a_few_times_for_ten_seconds() {
    let stand = backlog(5_000).await;
    let sink = Sink::refusing(|_| true);
    let logs = Logs::capture();
    let (report, took) = failed(&stand, &sink).await;
    let asked = sink.asked().len();
    assert!((5..=40).contains(&asked), "asked {asked} times");
    assert_eq!(
        report.failed(),
        asked as u64,
        "what was not tried is no failure"
    );
    assert_eq!(report.failures().len(), asked);
    assert!(report.given_up());
    assert!(
        report.to_string().contains("the broker is gone"),
        "{report}"
    );
    assert!((10..12).contains(&took.as_secs()), "{took:?}");
    assert!(sink.asked().iter().all(|asked| asked.name == "payments"));
    let said = logs.lines(Level::ERROR, &["payments", "the publisher refused it"]);
    assert_eq!(said.len(), asked);
    assert!(stand.rows().await.iter().all(|row| row.open));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_answer_is_given_up_too() {
    let stand = backlog(5_000).await;
    let sink = Sink::new(|_| Box::pin(pending()));
    let (report, took) = failed(&stand, &sink).await;
    assert!(report.given_up());
    assert!(report.to_string().contains("did not answer"), "{report}");
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_takes_one_now_and_then_is_not_given_up() {
    let stand = backlog(200).await;
    let (asked, last) = (Arc::new(AtomicUsize::new(0)), 200);
    // Nine of ten are refused, for many times ten seconds in all.
    let sink = Sink::new(move |_| {
        let asked = asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            if asked % 10 == 9 || asked == last {
                return Ok(());
            }
            // tidy: sleep: the broker takes its time to refuse, on a clock that is paused
            sleep(Duration::from_millis(500)).await;
            Err(io::Error::other("not now"))
        })
    });
    let (report, took) = failed(&stand, &sink).await;
    assert!(!report.given_up(), "{report}");
    assert_eq!(sink.asked().len(), 201, "every record was tried");
    assert_eq!((report.sent(), report.failed()), (21, 180));
    assert!(took > Duration::from_mins(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_comes_back_in_time_gets_the_rest() {
    let stand = backlog(30).await;
    let began = Instant::now();
    let sink = Sink::new(move |_| {
        let away = began.elapsed() < Duration::from_secs(8);
        Box::pin(ready(if away {
            Err(io::Error::other("away"))
        } else {
            Ok(())
        }))
    });
    let (report, _) = failed(&stand, &sink).await;
    assert!(!report.given_up(), "{report}");
    assert_eq!(
        report.sent() + report.failed(),
        31,
        "every record was tried"
    );
    assert!(report.failed() < 20, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_receiver_elsewhere_is_waited_for_once_for_each_window() {
    let stand = backlog(7).await;
    let outbox = registry_on(&stand, 2).await.republish_window(2);
    let (began, times) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let sent = Arc::clone(&times);
    let sink = Sink::new(move |_| {
        sent.lock().unwrap().push(began.elapsed().as_secs());
        Box::pin(ready(Ok(())))
    });
    outbox.republish()(sink).await.unwrap();
    // A second's pause after each window of two payments; the one refund waits for nothing.
    assert_eq!(*times.lock().unwrap(), [0, 0, 1, 1, 2, 2, 3, 3]);
}
