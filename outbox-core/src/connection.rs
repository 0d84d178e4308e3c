//! A connection of the outbox's own: taken on the main runtime, and given back or discarded there.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use scopeguard::ScopeGuard;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::Backend;
use crate::failure::Failure;
use crate::settings::Settings;

/// How long a driver that reports a held lock at once is left alone before it is asked again.
const LOCK_POLL: Duration = Duration::from_millis(5);

/// The service's pool, and the runtime that drives its connections.
///
/// A subscription on a thread of its own has a runtime of its own. A connection that were opened,
/// or given back, there would wait for that thread while a handler computes on it.
pub(crate) struct Database<B: Backend> {
    pool: B::Pool,
    main: Option<Handle>,
    /// Of a database with one writer: whose turn it is among the outbox's own transactions, which
    /// would otherwise ask for the lock again and again.
    turn: Option<Arc<Semaphore>>,
}

impl<B: Backend> Clone for Database<B> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            main: self.main.clone(),
            turn: self.turn.clone(),
        }
    }
}

impl<B: Backend> Database<B> {
    /// Keeps the pool, and the runtime that this is called on.
    pub(crate) fn new(pool: B::Pool) -> Self {
        Self {
            pool,
            main: Handle::try_current().ok(),
            turn: B::ONE_WRITER.then(|| Arc::new(Semaphore::new(1))),
        }
    }

    /// The runtime that runs groups of operations, if this one `shares` a transaction: the runtime that
    /// drives the pool, where the pool was given on one.
    pub(crate) fn groups(&self, settings: &Settings, shares: bool) -> Option<&Handle> {
        let main = self.main.as_ref();
        main.filter(|_| shares && settings.group_commit)
    }

    /// Takes a connection, for a statement of its own.
    pub(crate) async fn acquire(&self, settings: &Settings) -> Result<Connection<B>, Failure> {
        let wait = settings.acquire_timeout;
        let acquired = timeout(wait, self.acquire_on_main())
            .await
            .map_err(|_| Failure::PoolTimedOut(B::NAME, wait))??;
        let leased = Leased {
            acquired,
            main: self.main.clone(),
            lock_wait: settings.lock_wait,
        };
        Ok(Connection(scopeguard::guard(leased, Leased::discard)))
    }

    async fn acquire_on_main(&self) -> Result<B::Acquired, Failure> {
        let Some(main) = self.foreign_main() else {
            let acquired = B::acquire(&self.pool).await;
            return acquired.map_err(|error| Failure::Acquire(B::NAME, error.into()));
        };
        let pool = self.pool.clone();
        let acquiring = main.spawn(async move { B::acquire(&pool).await });
        let _abort = scopeguard::guard(acquiring.abort_handle(), |task| task.abort());
        let acquired = acquiring.await;
        let acquired = acquired.map_err(|error| Failure::Acquire(B::NAME, error.into()))?;
        acquired.map_err(|error| Failure::Acquire(B::NAME, error.into()))
    }

    /// The main runtime, where this task does not run on it.
    fn foreign_main(&self) -> Option<&Handle> {
        let main = self.main.as_ref()?;
        let here = Handle::try_current().ok()?;
        (here.id() != main.id()).then_some(main)
    }

    /// Takes a connection and begins a transaction on it, waiting for the write lock until
    /// `lock_wait` is over. A connection that cannot begin one, because it is dead or came with
    /// somebody's open transaction, is discarded and another one is tried.
    pub(crate) async fn begin(&self, settings: &Settings) -> Result<Transaction<B>, Failure> {
        self.begin_waiting(settings, settings.lock_wait).await
    }

    /// [`begin`](Self::begin) for a group. Where it is a statement that waits for a lock, and not the
    /// begin, it gives up early: whoever needs that lock then waits for it alone.
    pub(crate) async fn begin_group(&self, settings: &Settings) -> Result<Transaction<B>, Failure> {
        let share = if B::ONE_WRITER { 1 } else { 8 };
        self.begin_waiting(settings, settings.lock_wait / share)
            .await
    }

    async fn begin_waiting(
        &self,
        settings: &Settings,
        lock_wait: Duration,
    ) -> Result<Transaction<B>, Failure> {
        match self.begin_once(settings, lock_wait).await {
            Err(Failure::Database(_)) => self.begin_once(settings, lock_wait).await,
            begun => begun,
        }
    }

    /// `lock_wait` is how long a statement waits for a lock.
    async fn begin_once(
        &self,
        settings: &Settings,
        lock_wait: Duration,
    ) -> Result<Transaction<B>, Failure> {
        let mut connection = self.acquire(settings).await?.roll_back_when_dropped();
        let deadline = after(settings.lock_wait);
        let Ok(turn) = self.turn(deadline).await else {
            connection.give_back();
            return Err(Failure::WriteLockHeld(settings.lock_wait, None));
        };
        loop {
            match timeout_at(deadline, B::begin(&mut connection, lock_wait)).await {
                Ok(Ok(())) => {
                    let whole = lock_wait == settings.lock_wait;
                    return Ok(Transaction {
                        connection,
                        deadline: if whole { deadline } else { after(lock_wait) },
                        lock_wait,
                        _turn: turn,
                    });
                }
                Ok(Err(error)) if !B::write_lock_held(&error) => {
                    connection.discard();
                    return Err(Failure::Database(error.into()));
                }
                Ok(Err(_)) if Instant::now() + LOCK_POLL < deadline => sleep(LOCK_POLL).await,
                Ok(Err(error)) => {
                    connection.give_back();
                    return Err(Failure::WriteLockHeld(
                        settings.lock_wait,
                        Some(error.into()),
                    ));
                }
                Err(_) => {
                    connection.discard();
                    return Err(Failure::WriteLockHeld(settings.lock_wait, None));
                }
            }
        }
    }

    async fn turn(&self, deadline: Instant) -> Result<Option<OwnedSemaphorePermit>, Elapsed> {
        let Some(turn) = self.turn.clone() else {
            return Ok(None);
        };
        // The semaphore is never closed.
        let turn = timeout_at(deadline, turn.acquire_owned()).await?;
        Ok(turn.ok())
    }
}

/// The end of a wait. One that has none ends in a year.
fn after(wait: Duration) -> Instant {
    const YEAR: Duration = Duration::from_hours(24 * 365);
    Instant::now() + wait.min(YEAR)
}

/// How long a read of the start, or a commit, may take before the database is taken for gone.
pub(crate) const NO_ANSWER: Duration = Duration::from_mins(1);

/// Reads through a connection of its own, within a bound. A read that fails is tried once more on
/// another connection: the first one may be dead, or may have come with somebody's open
/// transaction.
macro_rules! read {
    ($database:expr, $settings:expr, $bound:expr, |$connection:ident| $read:expr) => {
        async {
            let mut tried = false;
            loop {
                let mut $connection = $database.acquire($settings).await?;
                match ::tokio::time::timeout($bound, $read).await {
                    Ok(Ok(read)) => {
                        $connection.give_back();
                        break Ok(read);
                    }
                    Ok(Err(error)) if tried => {
                        break Err($crate::failure::Failure::Database(error.into()));
                    }
                    Ok(Err(_)) => tried = true,
                    Err(_) => break Err($crate::failure::Failure::NoAnswer($bound)),
                }
            }
        }
    };
}
pub(crate) use read;

struct Leased<B: Backend> {
    acquired: B::Acquired,
    main: Option<Handle>,
    lock_wait: Duration,
}

impl<B: Backend> Leased<B> {
    fn give_back(self) {
        let _main = self.main.as_ref().map(Handle::enter);
        drop(self.acquired);
    }

    fn discard(self) {
        let _main = self.main.as_ref().map(Handle::enter);
        B::discard(self.acquired);
    }

    /// Ends the transaction that a dropped future left behind, in a task of the main runtime, and
    /// gives the connection back once that is known to be done.
    fn roll_back(self) {
        match self.main.clone() {
            Some(main) => {
                let connection = Connection::<B>(scopeguard::guard(self, Self::discard));
                drop(main.spawn(connection.roll_back()));
            }
            None => self.discard(),
        }
    }
}

/// A connection that leaves the pool when it is dropped, unless it was given back: whoever drops
/// the future of a statement leaves it in a state that nobody knows.
pub(crate) struct Connection<B: Backend>(ScopeGuard<Leased<B>, fn(Leased<B>)>);

impl<B: Backend> Connection<B> {
    /// Gives the connection back to its pool.
    pub(crate) fn give_back(self) {
        ScopeGuard::into_inner(self.0).give_back();
    }

    /// Takes the connection out of its pool.
    fn discard(self) {
        ScopeGuard::into_inner(self.0).discard();
    }

    /// The connection, rolled back when it is dropped: it is about to be in a transaction.
    fn roll_back_when_dropped(self) -> Self {
        let leased = ScopeGuard::into_inner(self.0);
        Self(scopeguard::guard(leased, Leased::roll_back))
    }

    /// Ends the connection's transaction and gives it back, or discards it. Returns whether the
    /// transaction is known to be undone.
    async fn roll_back(mut self) -> bool {
        let wait = self.0.lock_wait;
        let rolled_back = matches!(timeout(wait, B::rollback(&mut self)).await, Ok(Ok(())));
        if rolled_back {
            self.give_back();
        } else {
            self.discard();
        }
        rolled_back
    }
}

impl<B: Backend> Deref for Connection<B> {
    type Target = B::Connection;

    fn deref(&self) -> &B::Connection {
        &self.0.acquired
    }
}

impl<B: Backend> DerefMut for Connection<B> {
    fn deref_mut(&mut self) -> &mut B::Connection {
        &mut self.0.acquired
    }
}

/// A transaction of the outbox's own. Dropped, it is rolled back.
pub(crate) struct Transaction<B: Backend> {
    pub(crate) connection: Connection<B>,
    /// Until when a statement of the transaction may wait for a lock: it shares the wait with the
    /// begin, since on a database that locks rows it is the statement that waits.
    pub(crate) deadline: Instant,
    lock_wait: Duration,
    _turn: Option<OwnedSemaphorePermit>,
}

impl<B: Backend> Transaction<B> {
    /// Undoes what the transaction's statements did.
    pub(crate) async fn roll_back(self) {
        self.connection.roll_back().await;
    }

    /// Commits what the transaction's statements did, or rolls it back when one failed. `done` is
    /// what they came to before the deadline.
    pub(crate) async fn finish<T>(
        mut self,
        done: Result<Result<T, B::Error>, Elapsed>,
    ) -> Result<T, Failure> {
        match done {
            Ok(Ok(value)) => match timeout(NO_ANSWER, B::commit(&mut self.connection)).await {
                Ok(Ok(())) => {
                    self.connection.give_back();
                    Ok(value)
                }
                // Where a rollback goes through, the connection lives, so it was the database that
                // refused the commit.
                Ok(Err(error)) => Err(if self.connection.roll_back().await {
                    Failure::Database(error.into())
                } else {
                    Failure::Unconfirmed(error.into())
                }),
                Err(_) => {
                    self.connection.discard();
                    Err(Failure::NoAnswer(NO_ANSWER))
                }
            },
            Ok(Err(error)) => {
                self.connection.roll_back().await;
                Err(if B::write_lock_held(&error) {
                    Failure::WriteLockHeld(self.lock_wait, Some(error.into()))
                } else {
                    Failure::Database(error.into())
                })
            }
            Err(_) => {
                self.connection.discard();
                Err(Failure::WriteLockHeld(self.lock_wait, None))
            }
        }
    }
}
