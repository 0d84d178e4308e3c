//! The in-memory reference backend: the suite's first stand, and what a backend author reads.

mod statements;

use std::collections::BTreeMap;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::{Backend, Consumer, Record, Stored};

/// The driver of a database in memory: one table, one writer at a time.
#[derive(Debug, Clone, Copy)]
pub struct Memory;

/// A pool of connections to a database in memory. A clone is the same pool.
#[derive(Debug, Clone)]
pub struct MemoryPool {
    database: Arc<Database>,
    free: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<MemoryConnection>>>,
}

impl MemoryPool {
    /// A pool of `size` connections to a database of its own.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self::on(Arc::default(), size)
    }

    /// Another pool of `size` connections to the same database.
    #[must_use]
    pub fn sibling(&self, size: usize) -> Self {
        Self::on(Arc::clone(&self.database), size)
    }

    fn on(database: Arc<Database>, size: usize) -> Self {
        Self {
            database,
            free: Arc::new(Semaphore::new(size)),
            idle: Arc::default(),
        }
    }

    /// The table, behind every transaction's back.
    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.database.table()
    }
}

/// What went wrong in a database in memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The pool is closed.
    #[error("the pool is closed")]
    Closed(#[from] AcquireError),
    /// The table is not there.
    #[error("no such table")]
    NoTable,
    /// The connection came with a transaction.
    #[error("cannot begin a transaction within a transaction")]
    InTransaction,
    /// The connection is in no transaction.
    #[error("no transaction is active")]
    NoTransaction,
    /// A value does not fit its column's type.
    #[error("the column `{0}` cannot be read")]
    Column(&'static str),
    /// The row was refused.
    #[error("the row was refused")]
    RowRefused,
    /// The commit was refused.
    #[error("the commit was refused")]
    CommitRefused,
}

#[derive(Debug)]
struct Database {
    table: Mutex<Table>,
    writer: Arc<Semaphore>,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            table: Mutex::default(),
            writer: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Database {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The table, and the faults that a test injects.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) rows: BTreeMap<u64, MemoryRow>,
    pub(super) last: u64,
    pub(super) hidden: bool,
    pub(super) refuse_commits: bool,
    pub(super) refused: Option<Vec<u8>>,
}

/// A row of the table.
#[derive(Debug, Clone, Default)]
pub(super) struct MemoryRow {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) payload: Option<Vec<u8>>,
    pub(super) headers: Option<String>,
    pub(super) processed: bool,
    pub(super) marks: i64,
}

impl MemoryRow {
    fn stored(&self) -> Stored {
        Stored {
            name: self.name.clone(),
            processed: self.processed,
            marks: self.marks,
        }
    }
}

impl Table {
    fn visible(&self) -> Result<&BTreeMap<u64, MemoryRow>, MemoryError> {
        if self.hidden {
            return Err(MemoryError::NoTable);
        }
        Ok(&self.rows)
    }

    /// An id of the type that the record has: a number, or the text of a UUID.
    pub(super) fn next_id<R: Record>(&mut self) -> Result<(u64, R::Id), MemoryError> {
        self.last += 1;
        let number = self.last;
        let parsed = number.to_string().parse().ok();
        let uuid = || {
            format!("00000000-0000-7000-8000-{number:012x}")
                .parse()
                .ok()
        };
        let id = parsed.or_else(uuid).ok_or(MemoryError::Column("id"))?;
        Ok((number, id))
    }
}

/// A connection to a database in memory.
#[derive(Debug)]
pub struct MemoryConnection {
    database: Arc<Database>,
    transaction: Option<Transaction>,
}

#[derive(Debug)]
struct Transaction {
    /// The write lock, of a transaction that may write.
    writer: Option<OwnedSemaphorePermit>,
    /// The rows as they were, for a transaction that was begun by hand.
    snapshot: Option<BTreeMap<u64, MemoryRow>>,
    writes: Vec<Write>,
}

#[derive(Debug)]
enum Write {
    Insert(u64, MemoryRow),
    Mark(u64, Consumer),
    Delete(u64),
}

impl MemoryConnection {
    /// Begins a transaction by hand, as a caller does who then forgets it.
    ///
    /// # Errors
    ///
    /// [`MemoryError::InTransaction`] if there is one.
    pub fn begin_by_hand(&mut self) -> Result<(), MemoryError> {
        self.outside()?;
        self.transaction = Some(Transaction {
            writer: None,
            snapshot: Some(self.database.table().rows.clone()),
            writes: Vec::new(),
        });
        Ok(())
    }

    fn outside(&self) -> Result<(), MemoryError> {
        match self.transaction {
            Some(_) => Err(MemoryError::InTransaction),
            None => Ok(()),
        }
    }

    fn write(&mut self, write: Write) -> Result<(), MemoryError> {
        let transaction = self
            .transaction
            .as_mut()
            .ok_or(MemoryError::NoTransaction)?;
        transaction.writes.push(write);
        Ok(())
    }

    /// Those of `ids` that are in the table, as the connection sees it, and what reads them.
    fn read<R: Record, T>(
        &self,
        ids: &[R::Id],
        read: impl Fn(u64, &MemoryRow) -> T,
    ) -> Result<Vec<T>, MemoryError> {
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let table = self.database.table();
        let begun = self.transaction.as_ref();
        let snapshot = begun.and_then(|begun| begun.snapshot.as_ref());
        let rows = snapshot.map_or_else(|| table.visible(), Ok)?;
        let found = rows.iter().filter(|(_, row)| ids.contains(&row.id));
        Ok(found.map(|(number, row)| read(*number, row)).collect())
    }

    /// The rows of `ids` that are open, ascending.
    fn open<R: Record>(&self, ids: &[R::Id]) -> Result<Vec<MemoryRow>, MemoryError> {
        self.outside()?;
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let table = self.database.table();
        let open = table.visible()?.values();
        let of_page = |row: &&MemoryRow| !row.processed && ids.contains(&row.id);
        Ok(open.filter(of_page).cloned().collect())
    }
}

/// A connection that a pool lent.
#[derive(Debug)]
pub struct MemoryAcquired {
    connection: MemoryConnection,
    pool: MemoryPool,
    discarded: bool,
    _lent: OwnedSemaphorePermit,
}

impl Deref for MemoryAcquired {
    type Target = MemoryConnection;

    fn deref(&self) -> &MemoryConnection {
        &self.connection
    }
}

impl DerefMut for MemoryAcquired {
    fn deref_mut(&mut self) -> &mut MemoryConnection {
        &mut self.connection
    }
}

impl Drop for MemoryAcquired {
    fn drop(&mut self) {
        if self.discarded {
            return;
        }
        let fresh = MemoryConnection {
            database: Arc::clone(&self.pool.database),
            transaction: None,
        };
        let used = mem::replace(&mut self.connection, fresh);
        let idle = self.pool.idle.lock();
        idle.unwrap_or_else(PoisonError::into_inner).push(used);
    }
}

impl Backend for Memory {
    const NAME: &'static str = "Memory";
    const ONE_WRITER: bool = true;
    const SHARES_OWN_PUBLISH: bool = true;

    type Pool = MemoryPool;
    type Connection = MemoryConnection;
    type Acquired = MemoryAcquired;
    type Error = MemoryError;

    async fn acquire(pool: &MemoryPool) -> Result<MemoryAcquired, MemoryError> {
        let lent = Arc::clone(&pool.free).acquire_owned().await?;
        let idle = pool
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let connection = idle.unwrap_or_else(|| MemoryConnection {
            database: Arc::clone(&pool.database),
            transaction: None,
        });
        Ok(MemoryAcquired {
            connection,
            pool: pool.clone(),
            discarded: false,
            _lent: lent,
        })
    }

    async fn begin(conn: &mut MemoryConnection, _lock_wait: Duration) -> Result<(), MemoryError> {
        conn.outside()?;
        let writer = Arc::clone(&conn.database.writer).acquire_owned().await?;
        conn.transaction = Some(Transaction {
            writer: Some(writer),
            snapshot: None,
            writes: Vec::new(),
        });
        Ok(())
    }

    async fn commit(conn: &mut MemoryConnection) -> Result<(), MemoryError> {
        let transaction = conn.transaction.take().ok_or(MemoryError::NoTransaction)?;
        let mut table = conn.database.table();
        if table.refuse_commits {
            return Err(MemoryError::CommitRefused);
        }
        for write in transaction.writes {
            match write {
                Write::Insert(number, row) => {
                    table.rows.insert(number, row);
                }
                Write::Mark(number, consumer) => {
                    if let Some(row) = table.rows.get_mut(&number) {
                        row.marks |= consumer.mark();
                        row.processed = row.marks & consumer.all() == consumer.all();
                    }
                }
                Write::Delete(number) => {
                    table.rows.remove(&number);
                }
            }
        }
        drop(table);
        drop(transaction.writer);
        Ok(())
    }

    async fn rollback(conn: &mut MemoryConnection) -> Result<(), MemoryError> {
        conn.transaction = None;
        Ok(())
    }

    fn discard(mut acquired: MemoryAcquired) {
        acquired.discarded = true;
    }

    fn write_lock_held(_error: &MemoryError) -> bool {
        // A connection waits for the lock as long as its caller does.
        false
    }
}
