//! What a start reports: the records that it could not read or send, after the others went out.

use std::sync::Arc;
use std::time::Duration;

use ruststream::runtime::RustStreamError;
use tracing::Level;

use super::logs::Logs;
use super::service::{Registry, Service, registry, registry_on};
use super::sink::Sink;
use super::stand::Stand;
use crate::{Backend, OutboxError, RepublishReport};

/// Runs a start that must fail, and returns its report.
async fn failed<S: Stand>(outbox: &Registry<S>, sink: &Sink) -> RepublishReport {
    match outbox.republish()(sink.clone()).await {
        Err(OutboxError::NotRepublished(report)) => report,
        started => panic!("{started:?}"),
    }
}

/// The ids of a report's failures.
fn ids(report: &RepublishReport) -> Vec<&str> {
    let failures = report.failures().iter();
    failures.filter_map(|failure| failure.id()).collect()
}

/// Records that the broker refuses, wherever they are, are named after the others went out.
pub async fn a_record_that_cannot_be_sent_starves_no_other<S: Stand>() {
    for refused in [vec![0], vec![2], vec![5], vec![2, 3, 4]] {
        let stand = S::open().await;
        for at in 0..6 {
            let payload: &[u8] = if refused.contains(&at) {
                b"bad"
            } else {
                b"good"
            };
            stand.store("payments", Some(payload), None).await;
        }
        let rows = stand.rows().await;
        let bad = rows
            .iter()
            .filter(|row| row.payload.as_deref() == Some(b"bad"));
        let bad: Vec<_> = bad.map(|row| row.id.as_str()).collect();
        let sink = Sink::refusing(|delivery| delivery.payload == b"bad");
        let logs = Logs::capture();
        let report = failed::<S>(&registry_on(&stand, 2).await, &sink).await;
        assert_eq!(ids(&report), bad);
        assert_eq!(sink.payloads(), vec![b"good"; 6 - bad.len()]);
        assert_eq!(report.failed(), bad.len() as u64);
        assert_eq!(report.sent(), 6 - report.failed());
        assert!(!report.given_up());
        for failure in report.failures() {
            assert_eq!(failure.name(), "payments");
            assert!(failure.cause().contains("the broker refused"), "{failure}");
            let said = [failure.name(), failure.id().unwrap(), failure.cause()];
            assert_eq!(logs.lines(Level::ERROR, &said).len(), 1);
        }
        assert_eq!(stand.rows().await, rows, "all stay open");
    }
}

/// Rows that cannot be read are named after the others went out.
pub async fn a_row_that_cannot_be_read_starves_no_other<S: Stand>() {
    let stand = S::open().await;
    let mut broken = Vec::new();
    for text in [
        "{not json",
        "[1]",
        r#"{"tenant":5}"#,
        r#"{"tenant":[256]}"#,
        "",
    ] {
        broken.push(stand.store("payments", Some(b"bad"), Some(text)).await);
        stand.store("payments", Some(b"good"), Some("{}")).await;
    }
    for name in ["payments", "refunds"] {
        broken.push(stand.store(name, None, None).await);
        stand.store(name, Some(b"good"), None).await;
    }
    let (outbox, sink) = (registry_on(&stand, 2).await, Sink::accepting());
    let report = failed::<S>(&outbox, &sink).await;
    let mut named = ids(&report);
    named.sort_unstable();
    broken.sort();
    assert_eq!(named, broken);
    assert_eq!((report.failed(), report.sent()), (7, 7));
    assert_eq!(sink.payloads(), [b"good"; 7]);
    let text = report.to_string();
    for id in &broken {
        assert!(text.contains(&format!("record {id} of `")), "{text}");
    }
    for cause in ["its headers cannot be read", "its row cannot be read"] {
        assert!(text.contains(cause), "{text}");
    }
}

/// A report names the first hundred failures and counts the others.
pub async fn a_report_names_a_hundred_failures_and_counts_the_rest<S: Stand>() {
    let stand = S::open().await;
    for _ in 0..150 {
        stand.store("payments", None, None).await;
    }
    stand.store("refunds", Some(b"good"), None).await;
    let sink = Sink::accepting();
    let report = failed::<S>(&registry_on(&stand, 2).await, &sink).await;
    assert_eq!((report.failed(), report.sent()), (150, 1));
    let rows = stand.rows().await;
    let bad = rows.iter().filter(|row| row.name == "payments").take(100);
    let bad: Vec<_> = bad.map(|row| row.id.as_str()).collect();
    assert_eq!(ids(&report), bad);
    let text = report.to_string();
    assert!(text.starts_with("150 open records"), "{text}");
    assert!(text.ends_with("; and 50 more"), "{text}");
}

/// A registry that may start after a failure starts, with the same report as an error line.
pub async fn a_start_that_may_fail_logs_its_report<S: Stand>() {
    let stand = S::open().await;
    let id = stand.store("payments", None, None).await;
    stand.store("payments", Some(b"good"), None).await;
    let logs = Logs::capture();
    let service = Service::on(&stand).await;
    let service = service.registry(|outbox| outbox.start_after_failed_republish(true));
    let mut service = service.start().await;
    assert_eq!(service.next().await.payload, b"good");
    service.stop().await;
    let report = format!("record {id} of `payments`");
    let said = logs.lines(Level::ERROR, &["the service starts", &report]);
    assert_eq!(said.len(), 1, "{:?}", logs.complaints());
}

/// Otherwise a failed start fails the service's.
pub async fn a_failed_start_fails_the_service<S: Stand>() {
    let stand = S::open().await;
    let id = stand.store("payments", None, None).await;
    let error = Service::on(&stand).await.try_start().await.unwrap_err();
    assert!(matches!(error, RustStreamError::Startup(_)), "{error}");
    let named = format!("record {id} of `payments`");
    assert!(error.to_string().contains(&named), "{error}");
}

/// A start without a pool fails, names the first name, and sends nothing.
pub async fn a_start_without_a_pool_fails<S: Stand>() {
    let (outbox, sink) = (registry::<S>(), Sink::accepting());
    match outbox.republish()(sink.clone()).await {
        Err(OutboxError::NoPool { name }) => assert_eq!(name, "payments"),
        started => panic!("{started:?}"),
    }
    assert_eq!(sink.asked(), []);
}

/// A start that cannot read its table fails and names the names, and the next one sends all.
pub async fn a_start_without_a_table_fails_and_names_the_names<S: Stand>() {
    let stand = S::open().await;
    stand.store("payments", Some(b"1"), None).await;
    let (outbox, sink) = (registry_on(&stand, 2).await, Sink::accepting());
    stand.hide_table(true).await;
    let report = failed::<S>(&outbox, &sink).await;
    stand.hide_table(false).await;
    let failures: Vec<_> = report.failures().iter().collect();
    let named: Vec<_> = failures.iter().map(|failure| failure.name()).collect();
    assert_eq!(named, ["payments", "refunds"]);
    assert!(failures.iter().all(|failure| failure.id().is_none()));
    assert!(failures[0].cause().contains("could not be read"));
    outbox.republish()(sink.clone()).await.unwrap();
    assert_eq!(sink.payloads(), [b"1"]);
}

/// A table that goes away half-way fails the start with what was not sent yet.
pub async fn a_table_that_goes_away_half_way_fails_the_start<S: Stand>() {
    let stand = Arc::new(S::open().await);
    for _ in 0..3 {
        stand
            .store("payments", Some(&vec![0; 3 * 1024 * 1024]), None)
            .await;
    }
    let broken = Arc::clone(&stand);
    let sink = Sink::new(move |_| {
        let broken = Arc::clone(&broken);
        Box::pin(async move {
            broken.hide_table(true).await;
            Ok(())
        })
    });
    let report = failed::<S>(&registry_on(&*stand, 2).await, &sink).await;
    stand.hide_table(false).await;
    assert_eq!(sink.sent().len(), 1);
    assert_eq!(report.sent(), 1);
    let text = report.to_string();
    assert!(
        text.contains("records of `payments`: they could not be read"),
        "{text}"
    );
    assert!(text.contains("those not sent yet stay open"), "{text}");
    assert_eq!(stand.rows().await.iter().filter(|row| row.open).count(), 3);
}

/// A start that gets no connection fails within the timeout.
pub async fn a_start_on_an_exhausted_pool_fails_within_the_timeout<S: Stand>() {
    let stand = S::open().await;
    stand.store("payments", Some(b"1"), None).await;
    let pool = stand.pool(1).await;
    let outbox = registry::<S>().acquire_timeout(Duration::from_millis(200));
    outbox.set_pool(pool.clone()).unwrap();
    let held = S::Backend::acquire(&pool).await.unwrap();
    let report = failed::<S>(&outbox, &Sink::accepting()).await;
    drop(held);
    let text = report.to_string();
    assert!(
        text.contains("came free") && text.contains(S::Backend::NAME),
        "{text}"
    );
}
