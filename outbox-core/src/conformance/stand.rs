//! What the suite needs of a database: to look at it from outside, and to break it.

use std::marker::PhantomData;

use crate::conformance::memory::{Memory, MemoryConnection, MemoryPool, MemoryRow};
use crate::{Backend, Mark, OutboxSpec, Publish, Record, Statements};
use ruststream::OutgoingMessage;

/// A database for one test: a table of its own that nobody else uses.
pub trait Stand: Sized + Send + Sync + 'static {
    /// The driver under test.
    type Backend: Statements<Self::Record>;

    /// The record of the stand's table: usually a [`StandRecord`].
    type Record: Publish<Self::Backend> + Mark<Self::Backend>;

    /// Whatever holds the table's write lock; see [`lock`](Self::lock).
    type Lock: Send;

    /// An empty table of the columns of [`StandRecord`], where every column but the id may be
    /// `NULL`.
    fn open() -> impl Future<Output = Self> + Send;

    /// A pool of at most `size` connections, with the driver's defaults otherwise.
    fn pool(&self, size: u32) -> impl Future<Output = <Self::Backend as Backend>::Pool> + Send;

    /// The table's rows by id, read through a connection of the stand's own.
    fn rows(&self) -> impl Future<Output = Vec<Row>> + Send;

    /// Writes an open row, as an earlier instance of the service left it. Returns its id.
    fn store(
        &self,
        name: &str,
        payload: Option<&[u8]>,
        headers: Option<&str>,
    ) -> impl Future<Output = String> + Send;

    /// Closes a row by hand: sets its time, or deletes it where the table has none.
    fn close(&self, id: &str) -> impl Future<Output = ()> + Send;

    /// Renames the table away, or back.
    fn hide_table(&self, hidden: bool) -> impl Future<Output = ()> + Send;

    /// Makes every commit after an insert fail, or lets it pass again.
    fn refuse_commits(&self, refuse: bool) -> impl Future<Output = ()> + Send;

    /// Makes the insert of every record with this payload, a word, fail.
    fn refuse(&self, payload: &str) -> impl Future<Output = ()> + Send;

    /// Takes the lock that an insert needs, in a transaction of somebody else.
    fn lock(&self) -> impl Future<Output = Self::Lock> + Send;

    /// Ends that transaction.
    fn unlock(lock: Self::Lock) -> impl Future<Output = ()> + Send;

    /// Begins a transaction by hand, outside the driver's own notion of one.
    fn begin_by_hand(
        conn: &mut <Self::Backend as Backend>::Connection,
    ) -> impl Future<Output = ()> + Send;
}

/// A row of a stand's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The id's text.
    pub id: String,
    /// The name.
    pub name: String,
    /// The payload.
    pub payload: Option<Vec<u8>>,
    /// The headers column.
    pub headers: Option<String>,
    /// Whether the record is open.
    pub open: bool,
}

/// Whether a processed record of the stand is deleted.
#[must_use]
pub fn deletes<S: Stand>() -> bool {
    S::Record::SPEC.processed_at_column().is_none()
}

/// Asserts that all records that were written are processed, and how many they are.
pub async fn assert_closed<S: Stand>(stand: &S, written: usize) {
    let rows = stand.rows().await;
    assert!(rows.iter().all(|row| !row.open), "closed: {rows:?}");
    let left = if deletes::<S>() { 0 } else { written };
    assert_eq!(rows.len(), left, "{rows:?}");
}

/// The record of a stand: a table `outbox` of the columns `id`, `name`, `payload`, `headers`,
/// unless `DELETES`, `processed_at`, and with `MARKS`, `marks`.
#[derive(Debug)]
pub struct StandRecord<Id = i64, const DELETES: bool = false, const MARKS: bool = false>(
    PhantomData<Id>,
);

impl<Id, const DELETES: bool, const MARKS: bool> Record for StandRecord<Id, DELETES, MARKS>
where
    Id: std::fmt::Display + std::str::FromStr + Send + Sync + 'static,
{
    type Id = Id;

    const SPEC: OutboxSpec = {
        let spec = OutboxSpec::new("outbox", "id", "name", "payload").headers("headers");
        match (DELETES, MARKS) {
            (true, _) => spec,
            (false, false) => spec.processed_at("processed_at"),
            (false, true) => spec.processed_at("processed_at").marks("marks"),
        }
    };
}

impl<B: Statements<Self>, Id, const DELETES: bool, const MARKS: bool> Publish<B>
    for StandRecord<Id, DELETES, MARKS>
where
    Self: Record,
{
    const BATCHED: bool = true;

    fn publish(
        conn: &mut B::Connection,
        msg: &OutgoingMessage<'_>,
    ) -> impl Future<Output = Result<Self::Id, B::Error>> + Send {
        B::insert(conn, msg)
    }
}

impl<B: Statements<Self>, Id, const DELETES: bool, const MARKS: bool> Mark<B>
    for StandRecord<Id, DELETES, MARKS>
where
    Self: Record,
{
    const BATCHED: bool = true;
}

/// The reference backend's stand.
#[derive(Debug)]
pub struct MemoryStand<Id = i64, const DELETES: bool = false, const MARKS: bool = false> {
    pool: MemoryPool,
    id: PhantomData<fn() -> Id>,
}

impl<Id, const DELETES: bool, const MARKS: bool> Stand for MemoryStand<Id, DELETES, MARKS>
where
    Id: std::fmt::Display + std::str::FromStr + Send + Sync + 'static,
{
    type Backend = Memory;
    type Record = StandRecord<Id, DELETES, MARKS>;
    type Lock = super::MemoryAcquired;

    async fn open() -> Self {
        Self {
            pool: MemoryPool::new(8),
            id: PhantomData,
        }
    }

    async fn pool(&self, size: u32) -> MemoryPool {
        self.pool.sibling(size as usize)
    }

    async fn rows(&self) -> Vec<Row> {
        let table = self.pool.table();
        let rows = table.rows.values().cloned();
        rows.map(|row| Row {
            id: row.id,
            name: row.name,
            payload: row.payload,
            headers: row.headers,
            open: !row.processed,
        })
        .collect()
    }

    async fn store(&self, name: &str, payload: Option<&[u8]>, headers: Option<&str>) -> String {
        let mut table = self.pool.table();
        let (number, id) = table.next_id::<Self::Record>().unwrap();
        let row = MemoryRow {
            id: id.to_string(),
            name: name.to_owned(),
            payload: payload.map(<[u8]>::to_vec),
            headers: headers.map(str::to_owned),
            ..MemoryRow::default()
        };
        table.rows.insert(number, row);
        id.to_string()
    }

    async fn close(&self, id: &str) {
        let mut table = self.pool.table();
        if DELETES {
            table.rows.retain(|_, row| row.id != id);
        } else {
            let mut rows = table.rows.values_mut();
            rows.find(|row| row.id == id).unwrap().processed = true;
        }
    }

    async fn hide_table(&self, hidden: bool) {
        self.pool.table().hidden = hidden;
    }

    async fn refuse_commits(&self, refuse: bool) {
        self.pool.table().refuse_commits = refuse;
    }

    async fn refuse(&self, payload: &str) {
        self.pool.table().refused = Some(payload.as_bytes().to_vec());
    }

    async fn lock(&self) -> Self::Lock {
        let mut conn = Memory::acquire(&self.pool).await.unwrap();
        Memory::begin(&mut conn, std::time::Duration::MAX)
            .await
            .unwrap();
        conn
    }

    async fn unlock(mut lock: Self::Lock) {
        Memory::rollback(&mut lock).await.unwrap();
    }

    async fn begin_by_hand(conn: &mut MemoryConnection) {
        conn.begin_by_hand().unwrap();
    }
}
