//! The peer on the table of `schema.sql`, whose headers are text: its JSON goes in there, but does
//! not come out as JSON.

use std::collections::BTreeMap;

use ::sqlx::{FromRow, PgConnection, Postgres};
use chrono::{DateTime, Utc};
use outbox_core::conformance::{Sink, Stand, StandRecord, assert_closed, publish};
use outbox_postgres::SCHEMA;
use outbox_postgres::outbox::{Outbox, Statements};
use ruststream::memory::MemoryBroker;
use ruststream::{HeaderMap, OutgoingMessage};
use ruststream_sqlx::HeaderColumn;
use ruststream_sqlx::outbox as peer;

use crate::shop::Shop;
use crate::stand::{Driver, PostgresStand, cases};
use crate::{Numbered, pool, text};

cases! {
    the_shipped_table_keeps_the_headers_of_both_and_the_peer_reads_them_as_text,
}

/// JSON in a column of text: a service's own, by the peer's trait.
#[derive(::sqlx::Type)]
#[sqlx(transparent)]
struct Text(String);

type Headers = BTreeMap<String, String>;

impl HeaderColumn for Text {
    fn take_headers(&mut self) -> HeaderMap {
        let headers: Headers = serde_json::from_str(&self.0).unwrap();
        headers.into_iter().collect()
    }

    fn from_headers(headers: &HeaderMap) -> Self {
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        let headers = headers.iter();
        let headers: Headers = headers
            .map(|(name, value)| (name.to_owned(), text(value)))
            .collect();
        Self(serde_json::to_string(&headers).unwrap())
    }

    fn unfit(_headers: &HeaderMap) -> Option<&str> {
        None
    }
}

#[derive(ruststream_sqlx::Outbox, FromRow)]
#[outbox(table = "outbox")]
struct Shipped {
    #[field(id)]
    id: i64,
    #[field(name)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
    #[field(headers)]
    headers: Text,
    #[field(processed_at)]
    processed_at: Option<DateTime<Utc>>,
}

impl peer::Publish<Postgres> for Shipped {
    async fn publish(conn: &mut PgConnection, msg: &OutgoingMessage<'_>) -> ::sqlx::Result<i64> {
        ::sqlx::query_scalar(
            "INSERT INTO outbox (name, payload, headers) VALUES ($1, $2, $3) RETURNING id",
        )
        .bind(msg.name())
        .bind(msg.payload())
        .bind(Text::from_headers(msg.headers()))
        .fetch_one(conn)
        .await
    }
}

async fn the_shipped_table_keeps_the_headers_of_both_and_the_peer_reads_them_as_text<D>()
where
    D: Driver + Statements<StandRecord>,
{
    let stand = PostgresStand::<D>::with(SCHEMA).await;
    let sink = Sink::accepting();
    let json = peer::Outbox::new(pool(&stand)).register::<Numbered>("payments");
    let published = publish(&json.wrap(sink.clone()), "payments", b"0", text()).await;
    published.unwrap();
    let unread = json.republish()(sink.clone()).await.unwrap_err();
    assert!(
        matches!(unread, peer::OutboxError::Recover { .. }),
        "{unread}"
    );

    let ours = Outbox::<D, _>::new(stand.pool(2).await).register::<StandRecord>("payments");
    let peer = peer::Outbox::new(pool(&stand)).register::<Shipped>("payments");
    let published = publish(&ours.wrap(sink.clone()), "payments", b"1", text()).await;
    published.unwrap();
    let published = publish(&peer.wrap(sink.clone()), "payments", b"2", text()).await;
    published.unwrap();
    let sent = sink.sent();
    assert_eq!(sent.len(), 3, "{sent:?}");
    peer.republish()(sink.clone()).await.unwrap();
    let mut again = sink.sent().split_off(3);
    again.sort_by(|one, other| one.payload.cmp(&other.payload));
    assert_eq!(again, sent);

    let broker = MemoryBroker::new();
    let mut shop = Shop::open(&broker, ours.layer(), ours.publish_layer()).await;
    ours.republish()(broker.publisher()).await.unwrap();
    for sent in sent {
        assert_eq!(shop.shipped().await, sent);
    }
    shop.close().await;
    assert_closed(&stand, 3).await;
}
