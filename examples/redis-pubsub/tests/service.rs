//! The service on a real Redis and a real Postgres.

mod stand;

use std::path::Path;
use std::pin::pin;

use futures_util::StreamExt;
use outbox_postgres::outbox::OUTBOX_ID_HEADER;
use redis_pubsub::handlers::Payment;
use redis_pubsub::receiver;
use ruststream::runtime::RETRY_COUNT_HEADER;
use ruststream::{Broker, ConnectedBroker, IncomingMessage, OutgoingMessage, PublishPolicy};
use ruststream::{Subscriber, SubscriptionSource};
use ruststream_fred::pubsub::prelude::*;
use tokio::process::Command;
use tokio::time::timeout;

use self::stand::{PATIENCE, Result, Stand};

/// This package's binary.
const PROGRAM: &str = env!("CARGO_BIN_EXE_redis-pubsub");

fn payment(order: i64) -> Payment {
    Payment {
        order,
        amount: 1250,
    }
}

#[tokio::test]
async fn a_payment_is_recorded_shipped_and_marked_and_its_row_says_when_it_was_taken() -> Result {
    let stand = Stand::new().await?;
    let service = stand.service().await?;

    stand.till.take(payment(1)).await?;
    stand.until_processed(1).await?;

    assert_eq!(stand.outcomes().await?, [(1, "shipped".to_owned())]);
    let record = &stand.records().await?[0];
    assert_eq!(record.name, stand.name("payments"));
    assert_eq!(record.payload, serde_json::to_vec(&payment(1))?);
    assert!(record.taken_at.is_some() && record.taken_at <= record.processed_at);
    service.shutdown().await?;
    Ok(())
}

#[tokio::test]
async fn what_is_sold_out_is_paid_back_through_the_second_name() -> Result {
    let stand = Stand::new().await?;
    let service = stand.service().await?;

    stand.till.take(payment(10)).await?;
    stand.until_processed(2).await?;

    assert_eq!(stand.outcomes().await?, [(10, "paid back".to_owned())]);
    let records = stand.records().await?;
    let names = [&records[0], &records[1]].map(|record| record.name.as_str());
    assert_eq!(names, [stand.name("payments"), stand.name("refunds")]);
    assert!(records.iter().all(|record| record.taken_at.is_some()));
    service.shutdown().await?;
    Ok(())
}

#[tokio::test]
async fn what_a_killed_receiver_left_open_and_what_nobody_heard_is_shipped_after_the_next_start()
-> Result {
    let stand = Stand::new().await?;
    let mut receiver = receiver::start(Path::new(PROGRAM), &stand.settings).await?;
    let mut lock = stand.pool().begin().await?;
    let table = sqlx::raw_sql("LOCK TABLE orders");
    table.execute(&mut *lock).await?;

    stand.till.take(payment(1)).await?;
    stand.until_blocked(1).await?;
    receiver.kill().await?;
    lock.rollback().await?;
    stand.till.take(payment(2)).await?;
    let left = stand.records().await?;
    assert!(left.iter().all(|record| record.processed_at.is_none()));
    assert!(left[0].taken_at.is_some() && left[1].taken_at.is_none());

    let service = stand.service().await?;
    stand.until_processed(2).await?;

    let shipped = [1, 2].map(|order| (order, "shipped".to_owned()));
    assert_eq!(stand.outcomes().await?, shipped);
    let records = stand.records().await?;
    assert_eq!(
        records[0].taken_at, left[0].taken_at,
        "the first time stands"
    );
    assert!(records[1].taken_at.is_some());
    service.shutdown().await?;
    Ok(())
}

#[tokio::test]
async fn a_message_that_is_retried_keeps_its_record_and_each_copy_has_its_id() -> Result {
    let stand = Stand::new().await?;
    let broker = RedisBroker::standalone(stand.settings.redis.as_str());
    let broker = broker.connect().await?;
    let mut probe = RedisPubSub::new(stand.name("payments"))
        .subscribe(&broker)
        .await?;
    let mut deliveries = pin!(probe.stream());
    let service = stand.service().await?;

    stand
        .execute("ALTER TABLE orders RENAME TO elsewhere")
        .await?;
    stand.till.take(payment(1)).await?;
    for copy in [None, Some("1"), Some("2")] {
        let delivery = timeout(PATIENCE, deliveries.next()).await?;
        let delivery = delivery.ok_or("the subscription ended")??;
        assert_eq!(delivery.headers().get_str(OUTBOX_ID_HEADER), Some("1"));
        assert_eq!(delivery.headers().get_str(RETRY_COUNT_HEADER), copy);
    }
    stand
        .execute("ALTER TABLE elsewhere RENAME TO orders")
        .await?;

    stand.until_processed(1).await?;
    assert_eq!(stand.outcomes().await?, [(1, "shipped".to_owned())]);
    service.shutdown().await?;
    broker.shutdown().await?;
    Ok(())
}

#[tokio::test]
async fn both_of_two_instances_handle_what_both_took_before_the_mark() -> Result {
    let stand = Stand::new().await?;
    let services = [stand.service().await?, stand.service().await?];
    let mut lock = stand.pool().begin().await?;
    let table = sqlx::raw_sql("LOCK TABLE orders");
    table.execute(&mut *lock).await?;

    stand.till.take(payment(1)).await?;
    stand.until_blocked(2).await?;
    lock.rollback().await?;
    stand.until_processed(1).await?;

    assert_eq!(stand.outcomes().await?, [(1, "shipped".to_owned())]);
    for service in services {
        service.shutdown().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_copy_that_comes_after_the_mark_is_acknowledged_without_its_handler() -> Result {
    let stand = Stand::new().await?;
    let service = stand.service().await?;
    stand.till.take(payment(1)).await?;
    stand.until_processed(1).await?;
    stand.execute("DELETE FROM orders").await?;
    let broker = RedisBroker::standalone(stand.settings.redis.as_str());
    let broker = broker.connect().await?;
    let publisher = Publish::new().pair(&broker).await?;

    let (name, payload) = (stand.name("payments"), serde_json::to_vec(&payment(1))?);
    let mut headers = HeaderMap::new();
    headers.insert(OUTBOX_ID_HEADER, "1");
    let copy = OutgoingMessage::new(&name, payload.as_slice()).with_headers(headers);
    publisher.publish(copy, None).await?;
    // A channel's messages are handled one after the other, so this one comes behind the copy.
    stand.till.take(payment(2)).await?;
    stand.until_processed(2).await?;

    assert_eq!(stand.outcomes().await?, [(2, "shipped".to_owned())]);
    service.shutdown().await?;
    broker.shutdown().await?;
    Ok(())
}

#[tokio::test]
async fn the_demo_loses_nothing() -> Result {
    let stand = Stand::new().await?;
    let demo = Command::new(PROGRAM)
        .args(["demo", "--redis", &stand.settings.redis])
        .args(["--postgres", &stand.settings.postgres])
        .output()
        .await?;
    let (said, why) = (
        String::from_utf8_lossy(&demo.stdout),
        String::from_utf8_lossy(&demo.stderr),
    );
    assert!(demo.status.success(), "{said}\n{why}");
    let last = said.lines().last().unwrap_or_default();
    assert_eq!(last.split_whitespace().collect::<Vec<_>>(), ["lost", "0"]);
    Ok(())
}
