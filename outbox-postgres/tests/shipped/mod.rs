//! The peer on the table of `schema.sql`: each reads what the other wrote.

use outbox_core::conformance::shop::Shop;
use outbox_core::conformance::{Sink, Stand, StandRecord, assert_closed, publish};
use outbox_postgres::SCHEMA;
use outbox_postgres::outbox::{Outbox, Statements};
use ruststream::memory::MemoryBroker;
use ruststream_sqlx::outbox as peer;

use crate::stand::{Driver, PostgresStand, cases};
use crate::{Numbered, text};

cases! {
    the_shipped_table_is_one_for_both,
}

async fn the_shipped_table_is_one_for_both<D>()
where
    D: Driver + Statements<StandRecord>,
{
    let stand = PostgresStand::<D>::with(SCHEMA).await;
    let sink = Sink::accepting();
    let ours = Outbox::<D, _>::new(stand.pool(2).await).register::<StandRecord>("payments");
    let peer = peer::Outbox::new(stand.own_pool()).register::<Numbered>("payments");
    let published = publish(&ours.wrap(sink.clone()), "payments", b"1", text()).await;
    published.unwrap();
    let published = publish(&peer.wrap(sink.clone()), "payments", b"2", text()).await;
    published.unwrap();
    let sent = sink.sent();
    assert_eq!(sent.len(), 2, "{sent:?}");
    peer.republish()(sink.clone()).await.unwrap();
    let mut again = sink.sent().split_off(2);
    again.sort_by(|one, other| one.payload.cmp(&other.payload));
    assert_eq!(again, sent);

    let broker = MemoryBroker::new();
    let mut shop = Shop::open(&broker, ours.layer(), ours.publish_layer()).await;
    ours.republish()(broker.publisher()).await.unwrap();
    for sent in sent {
        assert_eq!(shop.shipped().await, sent);
    }
    shop.close().await;
    assert_closed(&stand, 2).await;
}
