//! A backend of a third party, on a map: it needs nothing of the crate that is not public.
#![allow(
    clippy::unwrap_used,
    reason = "these are tests: a panic is their report"
)]

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outbox_core::conformance::{Sink, on, publish};
use outbox_core::{
    Backend, ColumnRole, Consumer, OpenIds, OpenRecord, OpenRecords, Outbox, Record, Statements,
    Stored, StoredMessage, TableDescription,
};
use outbox_macros::SqliteOutbox;
use ruststream::memory::prelude::*;
use ruststream::{HeaderMap, OutgoingMessage};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

type Rows = HashMap<u64, (String, Vec<u8>)>;

#[derive(Debug, Clone, Copy)]
struct Map;

#[derive(Clone, Default)]
struct Pool(Arc<Mutex<Rows>>);

struct Connection {
    rows: Arc<Mutex<Rows>>,
    uncommitted: Option<Rows>,
}

struct Acquired(Connection);

impl Deref for Acquired {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl DerefMut for Acquired {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.0
    }
}

impl Backend for Map {
    const NAME: &'static str = "Map";
    const ONE_WRITER: bool = false;
    const SHARES_OWN_PUBLISH: bool = true;

    type Pool = Pool;
    type Connection = Connection;
    type Acquired = Acquired;
    type Error = Infallible;

    async fn acquire(pool: &Pool) -> Result<Acquired, Infallible> {
        let rows = Arc::clone(&pool.0);
        Ok(Acquired(Connection {
            rows,
            uncommitted: None,
        }))
    }

    async fn begin(conn: &mut Connection, _lock_wait: Duration) -> Result<(), Infallible> {
        conn.uncommitted = Some(conn.rows.lock().unwrap().clone());
        Ok(())
    }

    async fn commit(conn: &mut Connection) -> Result<(), Infallible> {
        *conn.rows.lock().unwrap() = conn.uncommitted.take().unwrap();
        Ok(())
    }

    async fn rollback(conn: &mut Connection) -> Result<(), Infallible> {
        conn.uncommitted = None;
        Ok(())
    }

    fn discard(acquired: Acquired) {
        drop(acquired);
    }

    fn write_lock_held(_error: &Infallible) -> bool {
        false
    }
}

/// For records that are deleted, whose ids are numbers.
impl<R: Record<Id = u64>> Statements<R> for Map {
    async fn insert(conn: &mut Connection, msg: &OutgoingMessage<'_>) -> Result<u64, Infallible> {
        let rows = conn.uncommitted.as_mut().unwrap();
        let id = rows.keys().max().copied().unwrap_or(0) + 1;
        rows.insert(id, (msg.name().to_owned(), msg.payload().to_vec()));
        Ok(id)
    }

    async fn fetch(conn: &mut Connection, id: &u64) -> Result<Option<Stored>, Infallible> {
        let rows = conn.rows.lock().unwrap();
        Ok(rows.get(id).map(|(name, _)| Stored {
            name: name.clone(),
            processed: false,
            marks: 0,
        }))
    }

    async fn mark(
        conn: &mut Connection,
        id: &u64,
        _consumer: Consumer,
    ) -> Result<bool, Infallible> {
        Ok(conn.uncommitted.as_mut().unwrap().remove(id).is_some())
    }

    async fn open_ids(
        conn: &mut Connection,
        name: &str,
    ) -> Result<OpenIds<u64, Infallible>, Infallible> {
        let mut open = OpenIds::new();
        let rows = conn.rows.lock().unwrap();
        for (id, _) in rows.iter().filter(|(_, (of, _))| of == name) {
            open.push(Ok(*id));
        }
        open.ids.sort_unstable();
        Ok(open)
    }

    async fn open_sizes(conn: &mut Connection, ids: &[u64]) -> Result<Vec<(u64, u64)>, Infallible> {
        let rows = conn.rows.lock().unwrap();
        let size = |id: &u64| rows.get(id).map(|(_, payload)| (*id, payload.len() as u64));
        Ok(ids.iter().filter_map(size).collect())
    }

    async fn open_records(
        conn: &mut Connection,
        ids: &[u64],
    ) -> Result<OpenRecords<u64, Infallible>, Infallible> {
        let rows = conn.rows.lock().unwrap();
        let record = |id: &u64| {
            let (_, payload) = rows.get(id)?;
            let message = StoredMessage {
                payload: payload.clone(),
                headers: None,
            };
            Some(OpenRecord {
                id: *id,
                message: Ok(message),
            })
        };
        Ok(ids.iter().filter_map(record).collect())
    }

    async fn describe(_conn: &mut Connection) -> Result<Option<TableDescription>, Infallible> {
        Ok(None)
    }

    fn fits(_role: ColumnRole, _data_type: &str) -> Result<(), &'static str> {
        Ok(())
    }
}

#[derive(SqliteOutbox)]
#[outbox(table = "outbox", publish, crate = "outbox_core")]
struct PaymentOutbox {
    #[field(id)]
    _id: u64,
    #[field(name)]
    _name: String,
    #[field(payload)]
    _payload: Vec<u8>,
}

#[derive(Deserialized)]
struct Payment<'a>(&'a [u8]);

#[subscriber("payments")]
async fn ship(
    payment: &Payment<'_>,
    ctx: &mut Context<'_, (), UnboundedSender<Vec<u8>>>,
) -> HandlerOutcome {
    ctx.state().send(payment.0.to_vec()).ok();
    HandlerOutcome::ack()
}

#[tokio::test]
async fn a_service_on_it_records_marks_and_sends_again() {
    on(async {
        let pool = Pool::default();
        let outbox = Outbox::<Map>::new(pool.clone()).register::<PaymentOutbox>("payments");
        let nobody = outbox.wrap(Sink::accepting());
        publish(&nobody, "payments", b"left open", HeaderMap::new())
            .await
            .unwrap();
        assert_eq!(pool.0.lock().unwrap().len(), 1);

        let (shipped, mut ships) = unbounded_channel();
        let broker = MemoryBroker::new();
        let tracked = outbox.wrap(broker.publisher());
        let app = RustStream::new(AppInfo::new("third party", "0.1.0"))
            .on_startup(async move |()| Ok::<_, Infallible>(shipped))
            .layer(outbox.layer())
            .publish_layer(outbox.publish_layer())
            .with_broker(broker, |b| {
                b.include(ship);
                b.after_startup(Publish, outbox.republish());
            });
        let running = app.start().await.unwrap();
        assert_eq!(ships.recv().await.unwrap(), b"left open");
        publish(&tracked, "payments", b"new", HeaderMap::new())
            .await
            .unwrap();
        assert_eq!(ships.recv().await.unwrap(), b"new");
        running.shutdown().await.unwrap();
        assert!(pool.0.lock().unwrap().is_empty(), "both were marked");
    })
    .await;
}
