//! Consumers, deliveries and batches as a service writes them, through `outbox!`.
#![cfg(feature = "sqlx")]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

use std::convert::Infallible;

use outbox_core::conformance::{on, publish};
use outbox_sqlite::outbox::{Handle, OutboxHeaders};
use outbox_sqlite::{Outbox, SCHEMA, Sqlite, outbox};
use ruststream::HeaderMap;
use ruststream::memory::prelude::*;
use sqlx::sqlite::{SqlitePool, SqlitePoolOptions};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

#[derive(Outbox)]
#[outbox(table = "outbox", publish)]
struct PaymentOutbox {
    #[field(id)]
    id: i64,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
    #[field(processed_at)]
    processed_at: Option<String>,
    #[field(marks)]
    marks: i64,
}

#[derive(Clone)]
struct Service {
    payments: Handle<Sqlite, PaymentOutbox>,
    ran: UnboundedSender<String>,
}

mod handlers {
    use super::*;

    #[subscriber("payments.card")]
    pub(super) async fn ship(card: &u32, ctx: &mut Context<'_, (), Service>) {
        ctx.state().ran.send(format!("ship {card}")).unwrap();
    }

    #[subscriber(MemoryPattern::new("payments.*"))]
    pub(super) async fn mail(payment: &u32, ctx: &mut Context<'_, (), Service>) {
        ctx.state().ran.send(format!("mail {payment}")).unwrap();
    }
}

#[subscriber("payments.card")]
async fn archive(
    batch: &[Message<OutboxHeaders, u32>],
    ctx: &mut Context<'_, (), Service>,
) -> Vec<HandlerOutcome> {
    let taken = ctx.state().payments.take(&archive, batch).await;
    for card in taken.open() {
        let ran = format!("archive {}", card.body);
        ctx.state().ran.send(ran).unwrap();
    }
    taken
        .settle(std::iter::repeat_with(HandlerOutcome::ack))
        .await
}

async fn pool(folder: &tempfile::TempDir) -> SqlitePool {
    let file = folder.path().join("test.db");
    let url = format!("sqlite://{}?mode=rwc", file.display());
    let options = SqlitePoolOptions::new().max_connections(4);
    let pool = options.connect(&url).await.unwrap();
    sqlx::raw_sql(SCHEMA).execute(&pool).await.unwrap();
    let marks = "ALTER TABLE outbox ADD marks INTEGER NOT NULL DEFAULT 0";
    sqlx::raw_sql(marks).execute(&pool).await.unwrap();
    pool
}

#[tokio::test]
async fn each_consumer_marks_whatever_way_it_is_subscribed() {
    on(async {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(&folder).await;
        let tracking = outbox! {
            pool: pool.clone(),
            "payments.card" => PaymentOutbox,
            consumers: { 0 => handlers::ship, 2 => handlers::mail, 5 => archive },
            "payments.sepa" => PaymentOutbox,
            deliveries: ["payments.*" => PaymentOutbox],
        };
        let (ran, mut runs) = unbounded_channel();
        let service = Service {
            payments: tracking.handle::<PaymentOutbox>("payments.card"),
            ran,
        };
        let broker = MemoryBroker::new();
        let checkout = tracking.wrap(broker.publisher());
        let app = RustStream::new(AppInfo::new("fan-out", "0.1.0"))
            .on_startup(async move |()| Ok::<_, Infallible>(service))
            .layer(tracking.layer())
            .publish_layer(tracking.publish_layer())
            .with_broker(broker, |b| {
                b.include(handlers::ship);
                b.include(handlers::mail);
                b.include(archive.batch(nonzero!(8)));
                b.after_startup(Publish, tracking.republish());
            });
        let app = app.start().await.unwrap();
        publish(&checkout, "payments.card", b"1", HeaderMap::new())
            .await
            .unwrap();
        publish(&checkout, "payments.sepa", b"2", HeaderMap::new())
            .await
            .unwrap();
        let mut ran = Vec::new();
        while ran.len() < 4 {
            ran.push(runs.recv().await.unwrap());
        }
        ran.sort();
        assert_eq!(ran, ["archive 1", "mail 1", "mail 2", "ship 1"]);
        app.shutdown().await.unwrap();
        let rows = "SELECT marks, processed_at IS NULL FROM outbox ORDER BY id";
        let rows: Vec<(i64, bool)> = sqlx::query_as(rows).fetch_all(&pool).await.unwrap();
        assert_eq!(rows, [(0b10_0101, false), (0, false)]);
    })
    .await;
}
