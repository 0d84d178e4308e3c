//! The registry as a service holds it: names with their record types, a pool, and the settings.

use std::borrow::Cow;
use std::fmt::{self, Formatter};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ruststream::Publisher;

use crate::connection::Database;
use crate::error::OutboxError;
use crate::layer::deliver::OutboxLayer;
use crate::layer::publish::OutboxPublishLayer;
use crate::publisher::TrackedPublisher;
use crate::registry::{Names, Nil, Node, TrackedName, Walk, knows};
use crate::settings::Settings;
use crate::{Backend, Mark, Publish, Record, Statements, republish};

/// The names that a service tracks, each with its record type, on the pool of the driver `B`.
///
/// `outbox!` builds it. It is cheap to clone, and every clone sees a pool that is set later. The
/// settings are values: change them where the registry is built, before anything is taken from it.
///
/// Records hold what finally leaves, because a message that is sent again skips the publish
/// pipeline. So the outbox's [`publish_layer`](Self::publish_layer) is added before any other
/// publish layer, which makes it the innermost one, and its [`layer`](Self::layer) before any
/// other layer.
pub struct Outbox<B: Backend, L = Nil> {
    database: Arc<OnceLock<Database<B>>>,
    pub(crate) settings: Settings,
    pub(crate) names: L,
}

/// What a startup hook returns.
type StartFuture = Pin<Box<dyn Future<Output = Result<(), OutboxError>> + Send>>;

/// A registry of one name, whose type a service can write down: for a batch handler's state, or
/// to [`wrap`](Outbox::wrap) a publisher in an HTTP server's state.
pub type Handle<B, R> = Outbox<B, Node<R>>;

impl<B: Backend> Outbox<B> {
    /// A registry without names on a pool. Call it on the runtime that drives the pool.
    #[must_use]
    pub fn new(pool: B::Pool) -> Self {
        let outbox = Self::deferred();
        outbox.database.get_or_init(|| Database::new(pool));
        outbox
    }

    /// A registry without names that gets its pool later, by [`set_pool`](Self::set_pool):
    /// `#[ruststream::app]` builds the app before its runtime exists.
    #[must_use]
    pub fn deferred() -> Self {
        Self {
            database: Arc::default(),
            settings: Settings::default(),
            names: Nil,
        }
    }
}

impl<B: Backend, L> Outbox<B, L> {
    /// Gives the registry, and every clone of it, its pool. Call it on the runtime that drives the
    /// pool, as `on_startup` does.
    ///
    /// # Errors
    ///
    /// [`OutboxError::PoolAlreadySet`] if it has one. The first pool stays.
    pub fn set_pool(&self, pool: B::Pool) -> Result<(), OutboxError> {
        self.database
            .set(Database::new(pool))
            .map_err(|_| OutboxError::PoolAlreadySet)
    }

    /// How long a publish or a delivery waits for a free connection. 5 s unless set.
    #[must_use]
    pub fn acquire_timeout(mut self, wait: Duration) -> Self {
        self.settings.acquire_timeout = wait;
        self
    }

    /// How long a record or a mark waits for the database's write lock. 2 s unless set. A wait
    /// that is shorter than the way to the database and back refuses every record.
    #[must_use]
    pub fn lock_wait(mut self, wait: Duration) -> Self {
        self.settings.lock_wait = wait;
        self
    }

    /// When a message comes back whose record could not be read. 1 s unless set.
    #[must_use]
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.settings.retry_delay = delay;
        self
    }

    /// How many records the start sends ahead of this process's own handlers. 16 unless set;
    /// at least one.
    #[must_use]
    pub fn republish_window(mut self, records: usize) -> Self {
        self.settings.republish_window = records.max(1);
        self
    }

    /// How long the start waits for a record of its window to be taken up in this process, before
    /// it takes the receiver to be elsewhere and sends on. 1 s unless set.
    #[must_use]
    pub fn republish_patience(mut self, patience: Duration) -> Self {
        self.settings.republish_patience = patience;
        self
    }

    /// Whether the service starts although open records could not be sent again. The report is
    /// then an error line in the log. `false` unless set: the start fails with the report.
    #[must_use]
    pub fn start_after_failed_republish(mut self, start: bool) -> Self {
        self.settings.start_after_failed_republish = start;
        self
    }

    /// Whether operations that meet share a transaction. `true` unless set.
    ///
    /// A record, a read or a mark that finds none of its kind and name under way runs by itself, at
    /// once. Those that arrive meanwhile form the next transaction: nothing waits for a group to
    /// fill. A publish returns when its own record is committed, and what fails one record fails its
    /// caller alone. A service's own [`Publish`] takes part where the driver gains from it, and its own
    /// [`Mark`] does not.
    #[must_use]
    pub fn group_commit(mut self, share: bool) -> Self {
        self.settings.group_commit = share;
        self
    }

    pub(crate) fn shared_database(&self) -> Arc<OnceLock<Database<B>>> {
        Arc::clone(&self.database)
    }

    pub(crate) fn database(&self) -> Option<&Database<B>> {
        self.database.get()
    }

    fn with_names<M>(self, names: impl FnOnce(L) -> M) -> Outbox<B, M> {
        Outbox {
            database: self.database,
            settings: self.settings,
            names: names(self.names),
        }
    }
}

impl<B: Backend, L: Names> Outbox<B, L> {
    /// Tracks what is published under `N`'s name as records of `R`.
    ///
    /// A name that is tracked twice does not compile.
    ///
    /// # Panics
    ///
    /// If [`register`](Self::register) was given the same name.
    #[must_use]
    #[track_caller]
    pub fn track<R, N>(self) -> Outbox<B, Node<R, L, N>>
    where
        R: Publish<B> + Mark<B>,
        B: Statements<R>,
        N: TrackedName,
    {
        const {
            assert!(
                !knows(L::KNOWN, N::NAME),
                "this name is tracked already: track each name once, with one record type"
            );
        }
        self.push(Cow::Borrowed(N::NAME))
    }

    /// Tracks what is published under `name` as records of `R`: for a name that is only known when
    /// the app is built.
    ///
    /// # Panics
    ///
    /// If the name is registered already.
    #[must_use]
    #[track_caller]
    pub fn register<R>(self, name: impl Into<Cow<'static, str>>) -> Outbox<B, Node<R, L>>
    where
        R: Publish<B> + Mark<B>,
        B: Statements<R>,
    {
        self.push(name.into())
    }

    #[track_caller]
    fn push<R: Record, N>(self, name: Cow<'static, str>) -> Outbox<B, Node<R, L, N>> {
        self.assert_new(&name);
        self.with_names(|before| Node::new(name, before))
    }

    #[track_caller]
    fn assert_new(&self, name: &str) {
        assert!(
            self.names.find(name).is_none(),
            "`{name}` is registered with the outbox already: register each name once, with one \
             record type"
        );
    }

    /// Tracks what the subscription `name` delivers, where that is not the name that messages are
    /// published under: a pattern, or a queue. It delivers records of `R`; a message whose record
    /// was written under a name that is not registered for `R` is handled untracked.
    ///
    /// Call it behind the names whose records it delivers.
    ///
    /// # Panics
    ///
    /// If the name is registered already, or no name is registered for `R`.
    #[must_use]
    #[track_caller]
    pub fn deliver<R>(self, name: impl Into<Cow<'static, str>>) -> Outbox<B, Node<R, L>>
    where
        R: Publish<B> + Mark<B>,
        B: Statements<R>,
    {
        let name = name.into();
        self.assert_new(&name);
        let Outbox {
            database,
            settings,
            names,
        } = self;
        let Some(names) = Node::subscription(name, names) else {
            panic!(
                "a subscription delivers records of `{}`, and no name is registered for it: \
                 register the names first",
                std::any::type_name::<R>()
            );
        };
        Outbox {
            database,
            settings,
            names,
        }
    }

    /// The registry of one of the names, with a type that a service can write down.
    ///
    /// # Panics
    ///
    /// If the name is not registered, or is registered with another record type.
    #[must_use]
    #[track_caller]
    pub fn handle<R: Record>(&self, name: &str) -> Handle<B, R> {
        let Some(registered) = self.names.find(name) else {
            panic!(
                "`{name}` is not registered with the outbox: register it before its handle is taken"
            );
        };
        let Some(node) = Node::share(registered) else {
            panic!(
                "`{name}` is registered with the outbox, but not for the record type `{}`",
                std::any::type_name::<R>()
            );
        };
        Outbox {
            database: Arc::clone(&self.database),
            settings: self.settings,
            names: node,
        }
    }

    /// The subscription layer: reads the record of a delivery before its handler runs, and marks
    /// it after the handler acknowledged or dropped.
    ///
    /// Add it before every other layer, so that it runs outermost. A mark that meets the lock of a
    /// transaction outside it, a layer's or an inbox's, gives up after
    /// [`lock_wait`](Self::lock_wait) and is written once the delivery is settled, as are the later
    /// marks of that handler.
    #[must_use]
    pub fn layer(&self) -> OutboxLayer<B, L> {
        OutboxLayer::new(self.clone())
    }

    /// The publish layer: records a tracked message and gives it its id before it is sent.
    ///
    /// Add it before every other publish layer, so that it runs innermost: the record then holds
    /// what finally leaves.
    #[must_use]
    pub fn publish_layer(&self) -> OutboxPublishLayer<B, L> {
        OutboxPublishLayer::new(self.clone())
    }

    /// A publisher for use outside handlers that records tracked messages before it sends them.
    /// Names that are not registered pass.
    ///
    /// `Ok` means that the record is committed and the message was handed to the broker's
    /// publisher. A publish whose future is dropped may leave a record that only the next start
    /// sends: where a client may hang up, as in an HTTP endpoint, publish in a task of its own.
    #[must_use]
    pub fn wrap<P: Publisher>(&self, publisher: P) -> TrackedPublisher<P, Self> {
        TrackedPublisher::new(publisher, self.clone())
    }

    /// The startup step for `b.after_startup(Publish, ..)`: sends every open record again, name
    /// by name in the order of registration, each name in the order of its ids.
    ///
    /// It takes the ids that are open when it begins, and reads their messages in pages; it holds
    /// no connection while it sends. It stays at most
    /// [`republish_window`](Self::republish_window) records ahead of this process's handlers.
    /// The service is up once the backlog is sent. What it sends is the stored payload, the stored headers and the id: publish options (a
    /// partition key, a delay) are not stored.
    ///
    /// The hook fails with [`OutboxError::NotRepublished`] after it has tried every record, or at
    /// once when every send failed for 10 s. The pause after a failed send grows with each further
    /// one, so some sixteen refused records in a row count as a broker that is gone.
    pub fn republish<P>(&self) -> impl FnOnce(P) -> StartFuture + Send + 'static
    where
        L: Walk<B>,
        P: Publisher + 'static,
    {
        let outbox = self.clone();
        move |publisher| Box::pin(async move { republish::run(&outbox, None, publisher).await })
    }

    /// [`republish`](Self::republish) for some of the names: those that one of the app's brokers
    /// carries.
    ///
    /// # Panics
    ///
    /// If a name is not registered.
    #[track_caller]
    pub fn republish_names<P: Publisher + 'static>(
        &self,
        names: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> impl FnOnce(P) -> StartFuture + Send + 'static
    where
        L: Walk<B>,
    {
        let names: Vec<String> = names
            .into_iter()
            .map(|name| name.as_ref().to_owned())
            .collect();
        for name in &names {
            assert!(
                self.names.find(name).is_some_and(|found| found.is_name()),
                "`{name}` is not registered with the outbox, so its records cannot be sent again: \
                 register it, or leave it out of `republish_names`"
            );
        }
        let outbox = self.clone();
        move |publisher| {
            Box::pin(async move { republish::run(&outbox, Some(&names), publisher).await })
        }
    }
}

impl<B: Backend, R: Record, L, N> Outbox<B, Node<R, L, N>> {
    /// Declares the handler `H` as a consumer of the name that was registered last, with a bit of
    /// its own in the record's `marks`. A name with declared consumers is processed once each of
    /// them has acknowledged or dropped its message; what one has marked is not given to it again.
    ///
    /// The bit is what the table remembers: it stays with its consumer, and one that was removed
    /// leaves its bit unused. A record whose marks are complete without it closes at its next
    /// delivery.
    ///
    /// Does not compile for a record without the columns `marks` and `processed_at`.
    ///
    /// # Panics
    ///
    /// If the bit is above 30, or the bit or the handler is declared already.
    #[must_use]
    #[track_caller]
    pub fn consumer<H>(self, bit: u32) -> Self {
        const {
            assert!(
                R::SPEC.marks_column().is_some(),
                "the record has no column for the marks of consumers: give it an integer field \
                 with `#[field(marks)]`, beside the one with `#[field(processed_at)]`"
            );
        }
        self.with_names(|names| names.consumer::<H>(bit))
    }
}

impl<B: Backend, L: Clone> Clone for Outbox<B, L> {
    fn clone(&self) -> Self {
        Self {
            database: Arc::clone(&self.database),
            settings: self.settings,
            names: self.names.clone(),
        }
    }
}

impl<B: Backend, L: Names> fmt::Debug for Outbox<B, L> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut names = Vec::new();
        self.names.all(&mut names);
        f.debug_struct("Outbox")
            .field("driver", &B::NAME)
            .field(
                "names",
                &names
                    .iter()
                    .map(|registered| registered.name())
                    .collect::<Vec<_>>(),
            )
            .field("pool", &self.database.get().is_some())
            .field("settings", &self.settings)
            .finish()
    }
}
