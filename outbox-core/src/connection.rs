//! A connection of the outbox's own: taken on the main runtime, and given back or discarded there.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use scopeguard::ScopeGuard;
use tokio::runtime::Handle;
use tokio::task::JoinError;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::Backend;
use crate::error::OutboxError;
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
}

impl<B: Backend> Database<B> {
    /// Keeps the pool, and the runtime that this is called on.
    pub(crate) fn new(pool: B::Pool) -> Self {
        Self {
            pool,
            main: Handle::try_current().ok(),
        }
    }

    /// Takes a connection, for a statement of its own.
    pub(crate) async fn acquire(&self, settings: &Settings) -> Result<Connection<B>, Failure<B>> {
        let wait = settings.acquire_timeout;
        let acquired = timeout(wait, self.acquire_on_main())
            .await
            .map_err(|_| Failure::PoolTimedOut(wait))??;
        let leased = Leased {
            acquired,
            main: self.main.clone(),
            lock_wait: settings.lock_wait,
        };
        Ok(Connection(scopeguard::guard(leased, Leased::discard)))
    }

    async fn acquire_on_main(&self) -> Result<B::Acquired, Failure<B>> {
        let Some(main) = self.foreign_main() else {
            return B::acquire(&self.pool).await.map_err(Failure::Acquire);
        };
        let pool = self.pool.clone();
        let acquiring = main.spawn(async move { B::acquire(&pool).await });
        let _abort = scopeguard::guard(acquiring.abort_handle(), |task| task.abort());
        acquiring
            .await
            .map_err(Failure::MainRuntime)?
            .map_err(Failure::Acquire)
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
    pub(crate) async fn begin(&self, settings: &Settings) -> Result<Transaction<B>, Failure<B>> {
        match self.begin_once(settings).await {
            Err(Failure::Database(_)) => self.begin_once(settings).await,
            begun => begun,
        }
    }

    async fn begin_once(&self, settings: &Settings) -> Result<Transaction<B>, Failure<B>> {
        let lock_wait = settings.lock_wait;
        let mut connection = self.acquire(settings).await?.roll_back_when_dropped();
        let deadline = after(lock_wait);
        loop {
            match timeout_at(deadline, B::begin(&mut connection, lock_wait)).await {
                Ok(Ok(())) => {
                    return Ok(Transaction {
                        connection,
                        deadline,
                        lock_wait,
                    });
                }
                Ok(Err(error)) if !B::write_lock_held(&error) => {
                    connection.discard();
                    return Err(Failure::Database(error));
                }
                Ok(Err(_)) if Instant::now() + LOCK_POLL < deadline => sleep(LOCK_POLL).await,
                Ok(Err(error)) => {
                    connection.give_back();
                    return Err(Failure::WriteLockHeld(lock_wait, Some(error)));
                }
                Err(_) => {
                    connection.discard();
                    return Err(Failure::WriteLockHeld(lock_wait, None));
                }
            }
        }
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
                        break Err($crate::connection::Failure::Database(error));
                    }
                    Ok(Err(_)) => tried = true,
                    Err(_) => break Err($crate::connection::Failure::NoAnswer($bound)),
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

    /// Ends the connection's transaction and gives it back, or discards it.
    async fn roll_back(mut self) {
        let wait = self.0.lock_wait;
        match timeout(wait, B::rollback(&mut self)).await {
            Ok(Ok(())) => self.give_back(),
            Ok(Err(_)) | Err(_) => self.discard(),
        }
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
}

impl<B: Backend> Transaction<B> {
    /// Commits what the transaction's statement did, or rolls it back when it failed. `done` is
    /// what it came to before the deadline.
    pub(crate) async fn finish<T>(
        mut self,
        done: Result<Result<T, B::Error>, Elapsed>,
    ) -> Result<T, Failure<B>> {
        match done {
            Ok(Ok(value)) => {
                let failure = match timeout(NO_ANSWER, B::commit(&mut self.connection)).await {
                    Ok(Ok(())) => {
                        self.connection.give_back();
                        return Ok(value);
                    }
                    Ok(Err(error)) => Failure::Database(error),
                    Err(_) => Failure::NoAnswer(NO_ANSWER),
                };
                self.connection.discard();
                Err(failure)
            }
            Ok(Err(error)) => {
                self.connection.roll_back().await;
                Err(if B::write_lock_held(&error) {
                    Failure::WriteLockHeld(self.lock_wait, Some(error))
                } else {
                    Failure::Database(error)
                })
            }
            Err(_) => {
                self.connection.discard();
                Err(Failure::WriteLockHeld(self.lock_wait, None))
            }
        }
    }
}

/// Why a statement was not run, or not committed.
pub(crate) enum Failure<B: Backend> {
    NoPool,
    PoolTimedOut(Duration),
    Acquire(B::Error),
    MainRuntime(JoinError),
    WriteLockHeld(Duration, Option<B::Error>),
    NoAnswer(Duration),
    Database(B::Error),
}

impl<B: Backend> Failure<B> {
    /// The failure as the publisher of a message for `name` gets it.
    pub(crate) fn of_record(self, name: &str) -> OutboxError {
        let name = name.to_owned();
        let backend = B::NAME;
        match self {
            Self::NoPool => OutboxError::NoPool { name },
            Self::PoolTimedOut(waited) => OutboxError::PoolTimedOut {
                name,
                backend,
                waited,
            },
            Self::Acquire(error) => OutboxError::Acquire {
                name,
                backend,
                source: error.into(),
            },
            Self::MainRuntime(error) => OutboxError::Acquire {
                name,
                backend,
                source: error.into(),
            },
            Self::WriteLockHeld(waited, error) => OutboxError::WriteLockHeld {
                name,
                waited,
                source: error.map(Into::into),
            },
            Self::NoAnswer(_) => OutboxError::NotRecorded {
                name,
                source: self.to_string().into(),
            },
            Self::Database(error) => OutboxError::NotRecorded {
                name,
                source: error.into(),
            },
        }
    }
}

impl<B: Backend> std::fmt::Display for Failure<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use crate::error::Chain;

        match self {
            Self::NoPool => f.write_str("the outbox has no pool: call `set_pool` in `on_startup`"),
            Self::PoolTimedOut(waited) => {
                write!(
                    f,
                    "no connection of the {} pool came free within {waited:?}",
                    B::NAME
                )
            }
            Self::Acquire(error) => {
                write!(
                    f,
                    "the {} pool gave no connection: {}",
                    B::NAME,
                    Chain(error)
                )
            }
            Self::MainRuntime(error) => {
                write!(
                    f,
                    "the {} pool gave no connection: {}",
                    B::NAME,
                    Chain(error)
                )
            }
            Self::WriteLockHeld(waited, _) => {
                write!(
                    f,
                    "another transaction kept the lock that it needs for {waited:?}"
                )
            }
            Self::NoAnswer(waited) => write!(f, "the database did not answer within {waited:?}"),
            Self::Database(error) => write!(f, "{}", Chain(error)),
        }
    }
}
