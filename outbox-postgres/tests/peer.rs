//! One table with the peer, `ruststream-sqlx`: what one of the two recorded, the other one finishes.
#![cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

mod shipped;
mod stand;

use std::collections::BTreeMap;

use ::sqlx::postgres::{PgConnection, PgPool};
use ::sqlx::types::Json;
use ::sqlx::{FromRow, Postgres};
use chrono::{DateTime, Utc};
use outbox_core::conformance::shop::Shop;
use outbox_core::conformance::{
    Delivery, Sink, Stand, StandRecord, assert_closed, headers, publish,
};
use outbox_postgres::outbox::{Node, OUTBOX_ID_HEADER, Outbox, Statements, decode_headers, is_on};
use ruststream::memory::MemoryBroker;
use ruststream::runtime::{BlanketLayer, PublishLayer};
use ruststream::{HeaderMap, OutgoingMessage, Publisher};
use ruststream_sqlx::HeaderColumn;
use ruststream_sqlx::outbox as peer;
use stand::{Driver, PostgresStand, StandId, table};

/// A named test for each case, on each driver and with ids of each kind.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        #[cfg(feature = "sqlx")]
        mod sqlx {
            cases!(outbox_postgres::Postgres; $($case),*);
        }

        #[cfg(feature = "tokio-postgres")]
        mod tokio_postgres {
            cases!(outbox_postgres::TokioPostgres; $($case),*);
        }
    };
    ($driver:ty; $($case:ident),*) => {
        mod numbers {
            cases!($driver, i64; $($case),*);
        }

        mod uuids {
            cases!($driver, uuid::Uuid; $($case),*);
        }
    };
    ($driver:ty, $id:ty; $($case:ident),*) => {
        $(
            #[tokio::test]
            async fn $case() {
                crate::stand::run(crate::$case::<$driver, $id>()).await;
            }
        )*
    };
}

cases! {
    what_the_peer_sent_is_finished_here,
    what_was_sent_here_is_finished_by_the_peer,
    what_the_peer_left_open_is_sent_again_here,
    what_was_left_open_here_is_sent_again_by_the_peer,
    what_the_peer_finished_is_finished_here,
    what_was_finished_here_is_finished_for_the_peer,
    a_header_that_the_peer_kept_as_other_text_is_sent_again_as_it_kept_it,
    a_header_that_is_no_text_is_kept_in_a_form_that_the_peer_does_not_read,
}

/// The ids that the peer has records for.
trait PeerId: StandId {
    /// What keeps the headers: the peer needs JSON.
    const HEADERS: &'static str;

    type Records: peer::RecordList<Postgres> + Copy;

    fn peer(pool: PgPool) -> peer::Outbox<Postgres, Self::Records>;
}

/// The peer's record of the stand's table.
macro_rules! peer_record {
    ($record:ident, $id:ty, $headers:literal) => {
        #[derive(ruststream_sqlx::Outbox, FromRow)]
        #[outbox(table = "outbox")]
        struct $record {
            #[field(id)]
            id: $id,
            #[field(name)]
            name: String,
            #[field(payload)]
            payload: Vec<u8>,
            #[field(headers)]
            headers: Option<Json<BTreeMap<String, String>>>,
            #[field(processed_at)]
            processed_at: Option<DateTime<Utc>>,
        }

        impl peer::Publish<Postgres> for $record {
            async fn publish(
                conn: &mut PgConnection,
                msg: &OutgoingMessage<'_>,
            ) -> ::sqlx::Result<$id> {
                let headers = Option::<Json<BTreeMap<String, String>>>::from_headers(msg.headers());
                ::sqlx::query_scalar(
                    "INSERT INTO outbox (name, payload, headers) VALUES ($1, $2, $3) RETURNING id",
                )
                .bind(msg.name())
                .bind(msg.payload())
                .bind(headers)
                .fetch_one(conn)
                .await
            }
        }

        impl PeerId for $id {
            const HEADERS: &'static str = $headers;

            type Records = peer::Registered<$record, peer::Nil>;

            fn peer(pool: PgPool) -> peer::Outbox<Postgres, Self::Records> {
                peer::Outbox::new(pool).register::<$record>("payments")
            }
        }
    };
}

peer_record!(Numbered, i64, "jsonb");
peer_record!(Unique, uuid::Uuid, "json");

trait Tested<Id: StandId>: Driver + Statements<StandRecord<Id>> {}

impl<Id: StandId, D: Driver + Statements<StandRecord<Id>>> Tested<Id> for D {}

type Ours<D, Id> = Outbox<D, Node<StandRecord<Id>>>;

type Peers<Id> = peer::Outbox<Postgres, <Id as PeerId>::Records>;

/// A table, and both outboxes on it. Both are on: the peer is built without a switch.
async fn one_table<D: Tested<Id>, Id: PeerId>() -> (PostgresStand<D, Id>, Ours<D, Id>, Peers<Id>) {
    assert!(is_on());
    assert_eq!(OUTBOX_ID_HEADER, peer::OUTBOX_ID_HEADER);
    let table = table(Id::COLUMN, false);
    let table = table.replace("headers text", &format!("headers {}", Id::HEADERS));
    let stand = PostgresStand::<D, Id>::with(&table).await;
    let ours = Outbox::new(stand.pool(4).await).register::<StandRecord<Id>>("payments");
    let pool = stand.own_pool();
    (stand, ours, Id::peer(pool))
}

/// Headers of text, with what JSON has to escape.
fn text() -> HeaderMap {
    headers(&[
        ("tenant", b"north"),
        ("note", "a \"quoted\" \\ {line}\nin ä, € and 🦀".as_bytes()),
        ("empty", b""),
    ])
}

/// Asserts that these are the deliveries of the table's records, and that all of them are closed.
async fn assert_finished<S: Stand>(stand: &S, deliveries: &[Delivery]) {
    for row in stand.rows().await {
        let of_row = |delivery: &&Delivery| delivery.id() == Some(&row.id);
        let delivery = deliveries.iter().find(of_row).unwrap();
        assert_eq!(row.name, "payments");
        assert_eq!(row.payload.as_ref(), Some(&delivery.payload));
        let kept = row.headers.as_deref().map(decode_headers);
        let mut kept = kept.transpose().unwrap().unwrap_or_default();
        kept.insert(OUTBOX_ID_HEADER, row.id);
        assert_eq!(kept, delivery.headers);
    }
    assert_closed(stand, deliveries.len()).await;
}

/// Asserts that these are the payments of the case: one with headers, and one without.
fn assert_sent(deliveries: &[Delivery]) {
    let mut sent: Vec<_> = deliveries
        .iter()
        .map(|delivery| {
            let mut headers = delivery.headers.clone();
            headers.remove(OUTBOX_ID_HEADER);
            (delivery.payload.as_slice(), headers)
        })
        .collect();
    sent.sort_by_key(|(payload, _)| *payload);
    assert_eq!(sent, [(&b"1"[..], text()), (b"2", HeaderMap::new())]);
}

/// One side records and sends, in a handler and outside; the layer of the other one is around the
/// handlers.
async fn finishes<S: Stand>(
    stand: &S,
    sender: impl PublishLayer + Clone + 'static,
    wrapped: impl AsyncFnOnce(MemoryBroker) -> Result<(), String>,
    receiver: impl BlanketLayer + Clone + 'static,
) {
    let broker = MemoryBroker::new();
    let mut shop = Shop::open(&broker, receiver, sender).await;
    shop.send("checkout", b"1", text()).await;
    wrapped(broker).await.unwrap();
    let shipped = [shop.shipped().await, shop.shipped().await];
    shop.close().await;
    assert_sent(&shipped);
    assert_finished(stand, &shipped).await;
}

async fn what_the_peer_sent_is_finished_here<D: Tested<Id>, Id: PeerId>() {
    let (stand, ours, peer) = one_table::<D, Id>().await;
    let wrapped = async |broker: MemoryBroker| {
        let publisher = peer.wrap(broker.publisher());
        publish(&publisher, "payments", b"2", HeaderMap::new()).await
    };
    finishes(&stand, peer.publish_layer(), wrapped, ours.layer()).await;
}

async fn what_was_sent_here_is_finished_by_the_peer<D: Tested<Id>, Id: PeerId>() {
    let (stand, ours, peer) = one_table::<D, Id>().await;
    let wrapped = async |broker: MemoryBroker| {
        let publisher = ours.wrap(broker.publisher());
        publish(&publisher, "payments", b"2", HeaderMap::new()).await
    };
    finishes(&stand, ours.publish_layer(), wrapped, peer.layer()).await;
}

/// One side records payments that nobody gets.
async fn leave_open<S: Stand>(stand: &S, publisher: impl Publisher) {
    for (payload, headers) in [(b"1", text()), (b"2", HeaderMap::new())] {
        let recorded = publish(&publisher, "payments", payload, headers).await;
        recorded.unwrap();
    }
    let rows = stand.rows().await;
    assert_eq!(rows.iter().filter(|row| row.open).count(), 2, "{rows:?}");
}

/// Asserts that the shop gets what was left open, as it was sent, and that it is marked.
async fn assert_sent_again<S: Stand>(stand: &S, mut shop: Shop) {
    let shipped = [shop.shipped().await, shop.shipped().await];
    shop.close().await;
    assert_sent(&shipped);
    assert_finished(stand, &shipped).await;
}

async fn what_the_peer_left_open_is_sent_again_here<D: Tested<Id>, Id: PeerId>() {
    let (stand, ours, peer) = one_table::<D, Id>().await;
    leave_open(&stand, peer.wrap(Sink::accepting())).await;
    let broker = MemoryBroker::new();
    let shop = Shop::open(&broker, ours.layer(), ours.publish_layer()).await;
    ours.republish()(broker.publisher()).await.unwrap();
    assert_sent_again(&stand, shop).await;
}

async fn what_was_left_open_here_is_sent_again_by_the_peer<D: Tested<Id>, Id: PeerId>() {
    let (stand, ours, peer) = one_table::<D, Id>().await;
    leave_open(&stand, ours.wrap(Sink::accepting())).await;
    let broker = MemoryBroker::new();
    let shop = Shop::open(&broker, peer.layer(), peer.publish_layer()).await;
    peer.republish()(broker.publisher()).await.unwrap();
    assert_sent_again(&stand, shop).await;
}

/// One side finishes a record. The other side's layer does not run a copy of its message.
async fn finish_once<D: Tested<Id>, Id: PeerId>(
    stand: &PostgresStand<D, Id>,
    ours: &Ours<D, Id>,
    finisher: impl BlanketLayer + Clone + 'static,
    other: impl BlanketLayer + Clone + 'static,
) {
    let sink = Sink::accepting();
    let publisher = ours.wrap(sink.clone());
    let recorded = publish(&publisher, "payments", b"1", HeaderMap::new()).await;
    recorded.unwrap();
    let sent = sink.sent().remove(0);
    let broker = MemoryBroker::new();
    let mut shop = Shop::open(&broker, finisher, ours.publish_layer()).await;
    shop.send("payments", b"1", sent.headers.clone()).await;
    assert_eq!(shop.shipped().await, sent);
    shop.close().await;
    let at: DateTime<Utc> = ::sqlx::query_scalar("SELECT processed_at FROM outbox")
        .fetch_one(&mut stand.connect().await)
        .await
        .unwrap();
    assert!((Utc::now() - at).num_seconds().abs() < 60, "{at}");

    let broker = MemoryBroker::new();
    let mut shop = Shop::open(&broker, other, ours.publish_layer()).await;
    shop.send("payments", b"1", sent.headers).await;
    shop.assert_nothing_shipped().await;
    shop.close().await;
}

async fn what_the_peer_finished_is_finished_here<D: Tested<Id>, Id: PeerId>() {
    let (stand, ours, peer) = one_table::<D, Id>().await;
    finish_once(&stand, &ours, peer.layer(), ours.layer()).await;
    let sink = Sink::accepting();
    ours.republish()(sink.clone()).await.unwrap();
    assert_eq!(sink.sent(), []);
}

async fn what_was_finished_here_is_finished_for_the_peer<D: Tested<Id>, Id: PeerId>() {
    let (stand, ours, peer) = one_table::<D, Id>().await;
    finish_once(&stand, &ours, ours.layer(), peer.layer()).await;
    let sink = Sink::accepting();
    peer.republish()(sink.clone()).await.unwrap();
    assert_eq!(sink.sent(), []);
}

const BYTES: &[u8] = b"\xff\xfe";

/// The peer's column of strings replaces the bytes that are no text.
async fn a_header_that_the_peer_kept_as_other_text_is_sent_again_as_it_kept_it<D, Id>()
where
    D: Tested<Id>,
    Id: PeerId,
{
    let (_stand, ours, peer) = one_table::<D, Id>().await;
    let sink = Sink::accepting();
    let sum = headers(&[("sum", BYTES)]);
    let published = publish(&peer.wrap(sink.clone()), "payments", b"1", sum).await;
    published.unwrap();
    ours.republish()(sink.clone()).await.unwrap();
    let sent = sink.sent();
    let sums: Vec<_> = sent.iter().map(|sent| sent.headers.get("sum")).collect();
    let replaced = "\u{fffd}\u{fffd}".as_bytes();
    assert_eq!(sums, [Some(BYTES), Some(replaced)]);
}

/// The peer reads no such row: its start fails and its layer does not run the handler. Here every
/// byte comes back.
async fn a_header_that_is_no_text_is_kept_in_a_form_that_the_peer_does_not_read<D, Id>()
where
    D: Tested<Id>,
    Id: PeerId,
{
    let (stand, ours, peer) = one_table::<D, Id>().await;
    let sink = Sink::accepting();
    let sum = headers(&[("sum", BYTES)]);
    let published = publish(&ours.wrap(sink.clone()), "payments", b"1", sum).await;
    published.unwrap();
    let delivery = sink.sent().remove(0);

    let unread = peer.republish()(sink.clone()).await.unwrap_err();
    assert!(
        matches!(unread, peer::OutboxError::Recover { .. }),
        "{unread}"
    );
    assert_eq!(sink.sent().len(), 1, "it sent nothing");
    let mut shop = Shop::open(&MemoryBroker::new(), peer.layer(), peer.publish_layer()).await;
    shop.send("payments", b"1", delivery.headers.clone()).await;
    shop.assert_nothing_shipped().await;
    shop.close().await;
    assert!(stand.rows().await[0].open);

    let broker = MemoryBroker::new();
    let mut shop = Shop::open(&broker, ours.layer(), ours.publish_layer()).await;
    ours.republish()(broker.publisher()).await.unwrap();
    assert_eq!(shop.shipped().await, delivery);
    shop.close().await;
    assert_closed(&stand, 1).await;
}
