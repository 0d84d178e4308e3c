//! The service on a real NATS server, with a SQLite file of each test's own.

mod stand;

use std::path::Path;
use std::pin::pin;

use futures_util::StreamExt;
use nats_core::handlers::{Checkout, Payment, Receipt};
use nats_core::instance;
use nats_core::record::PaymentOutbox;
use outbox_sqlite::Sqlite;
use outbox_sqlite::outbox::{Handle, OUTBOX_ID_HEADER, Outbox, TrackedPublisher};
use ruststream::runtime::RETRY_COUNT_HEADER;
use ruststream::{Broker, Connected, ConnectedBroker, IncomingMessage, OutgoingMessage};
use ruststream::{Subscriber, SubscriptionSource};
use ruststream_nats::NatsPublisher;
use ruststream_nats::prelude::*;
use tokio::process::Command;
use tokio::time::timeout;

use self::stand::{PATIENCE, Result, Stand};

/// This package's binary.
const PROGRAM: &str = env!("CARGO_BIN_EXE_nats-core");

const CHECKOUT: Checkout = Checkout {
    order: 1,
    amount: 1250,
};

const PAYMENT: Payment = Payment {
    order: 1,
    amount: 1250,
};

type Payments = TrackedPublisher<NatsPublisher, Handle<Sqlite, PaymentOutbox>>;

async fn connect(stand: &Stand) -> Result<Connected<NatsBroker>> {
    let broker = NatsBroker::new(stand.settings.nats.as_str());
    Ok(broker.connect().await?)
}

/// A publisher beside the service, which goes on when the service is away.
fn publisher(stand: &Stand, broker: &Connected<NatsBroker>) -> Payments {
    let tracking = Outbox::<Sqlite>::new(stand.pool.clone());
    let tracking = tracking.register::<PaymentOutbox>(stand.payments());
    tracking.wrap(broker.publisher(Publish))
}

#[tokio::test]
async fn a_receipt_means_that_the_payment_is_recorded_and_its_order_is_shipped() -> Result {
    let stand = Stand::new().await?;
    let service = stand.service().await?;

    let receipt = stand.customer.checkout(CHECKOUT).await?;
    assert_eq!(receipt, Receipt { order: 1 });
    let record = &stand.records().await?[0];
    assert_eq!(record.name, stand.payments());
    assert_eq!(record.payload, serde_json::to_vec(&PAYMENT)?);

    stand.until_processed(1).await?;
    assert_eq!(stand.shipped().await?, [1]);
    service.shutdown().await?;
    Ok(())
}

#[tokio::test]
async fn what_a_killed_service_left_open_and_what_nobody_heard_is_shipped_after_the_next_start()
-> Result {
    let stand = Stand::new().await?;
    let mut service = instance::start(Path::new(PROGRAM), &stand.settings).await?;
    stand
        .execute("ALTER TABLE shipped RENAME TO elsewhere")
        .await?;
    stand.customer.checkout(CHECKOUT).await?;
    service.kill().await?;
    stand
        .execute("ALTER TABLE elsewhere RENAME TO shipped")
        .await?;

    let broker = connect(&stand).await?;
    let payments = publisher(&stand, &broker);
    let unheard = Payment {
        order: 2,
        amount: 1250,
    };
    let unheard = payments.message(&unheard).to().shop(&*stand.settings.shop);
    unheard.publish().await?;
    let left = stand.records().await?;
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|record| record.processed_at.is_none()));

    let service = stand.service().await?;
    stand.until_processed(2).await?;
    assert_eq!(stand.shipped().await?, [1, 2]);
    service.shutdown().await?;
    broker.shutdown().await?;
    Ok(())
}

#[tokio::test]
async fn of_two_instances_one_gets_each_copy_of_a_retried_message_with_its_one_id() -> Result {
    let stand = Stand::new().await?;
    let broker = connect(&stand).await?;
    // In no group, so it gets what the group gets, once.
    let mut probe = CoreSubject::new(stand.payments())
        .subscribe(&broker)
        .await?;
    let mut deliveries = pin!(probe.stream());
    let services = [stand.service().await?, stand.service().await?];

    stand
        .execute("ALTER TABLE shipped RENAME TO elsewhere")
        .await?;
    stand.customer.checkout(CHECKOUT).await?;
    for copy in [None, Some("1"), Some("2")] {
        let delivery = timeout(PATIENCE, deliveries.next()).await?;
        let delivery = delivery.ok_or("the subscription ended")??;
        assert_eq!(delivery.headers().get_str(OUTBOX_ID_HEADER), Some("1"));
        assert_eq!(delivery.headers().get_str(RETRY_COUNT_HEADER), copy);
    }
    stand
        .execute("ALTER TABLE elsewhere RENAME TO shipped")
        .await?;

    stand.until_processed(1).await?;
    assert_eq!(stand.shipped().await?, [1]);
    for service in services {
        service.shutdown().await?;
    }
    broker.shutdown().await?;
    Ok(())
}

#[tokio::test]
async fn a_header_that_nats_cannot_carry_is_told_by_each_start_until_it_is_taken_out() -> Result {
    let stand = Stand::new().await?;
    let broker = connect(&stand).await?;
    let payments = publisher(&stand, &broker);
    let payment = serde_json::to_vec(&PAYMENT)?;
    let name = stand.payments();
    let mut headers = HeaderMap::new();
    headers.insert("x-note", "two\nlines");

    let message = OutgoingMessage::new(&name, payment.as_slice()).with_headers(headers);
    let refused = payments.publish(message, None).await;
    let refused = refused.expect_err("NATS has no form for it").to_string();
    assert!(refused.starts_with("record 1 "), "{refused}");
    assert!(
        refused.contains("was saved but its message was not sent"),
        "{refused}"
    );

    let refused = stand.service().await.expect_err("the record is still open");
    let refused = format!("{refused:?}");
    assert!(refused.contains("x-note"), "{refused}");
    assert!(stand.records().await?[0].processed_at.is_none());

    stand.execute("UPDATE outbox SET headers = '{}'").await?;
    let service = stand.service().await?;
    stand.until_processed(1).await?;
    assert_eq!(stand.shipped().await?, [1]);
    service.shutdown().await?;
    broker.shutdown().await?;
    Ok(())
}

#[tokio::test]
async fn the_demo_loses_nothing() -> Result {
    let stand = Stand::new().await?;
    let demo = Command::new(PROGRAM)
        .args(["demo", "--nats", &stand.settings.nats])
        .args(["--database", &stand.settings.database])
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
