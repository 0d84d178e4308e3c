//! The delivery side: read the record, run the handler, mark the record by the outcome.

use ruststream::Str;
use ruststream::runtime::{BlanketLayer, Context, Handler, HandlerOutcome, Layer};
use tokio::time::timeout_at;

use crate::connection::{Database, Failure, read};
use crate::crash::{Point, point};
use crate::handlers::Mount;
use crate::registry::{Names, Registered, Visit, Walk};
use crate::retry::retry_count;
use crate::settings::Settings;
use crate::{Backend, Mark, OUTBOX_ID_HEADER, Outbox, Publish, Statements, Stored, TARGET};

/// The subscription layer of an [`Outbox`]: see [`Outbox::layer`].
#[derive(Debug, Clone)]
pub struct OutboxLayer<B: Backend, L: Names> {
    outbox: Outbox<B, L>,
}

impl<B: Backend, L: Names> OutboxLayer<B, L> {
    pub(crate) fn new(outbox: Outbox<B, L>) -> Self {
        Self { outbox }
    }
}

impl<H, B: Backend, L: Names> Layer<H> for OutboxLayer<B, L> {
    type Handler = OutboxHandler<H, B, L>;

    fn layer(&self, inner: H) -> Self::Handler {
        OutboxHandler {
            inner,
            mount: Mount::of::<H>(),
            outbox: self.outbox.clone(),
        }
    }
}

impl<B: Backend, L: Walk<B>> BlanketLayer for OutboxLayer<B, L> {
    fn apply<M, C, S, H>(&self, handler: H) -> impl Handler<M, C, S> + 'static
    where
        M: Send + Sync + 'static,
        C: Send + 'static,
        S: Send + Sync + 'static,
        H: Handler<M, C, S> + 'static,
    {
        self.layer(handler)
    }
}

/// A handler whose tracked deliveries are read before it runs and marked after it.
#[derive(Debug, Clone)]
pub struct OutboxHandler<H, B: Backend, L: Names> {
    inner: H,
    mount: Mount,
    outbox: Outbox<B, L>,
}

impl<M, C, S, H, B, L> Handler<M, C, S> for OutboxHandler<H, B, L>
where
    M: Send + Sync,
    C: Send,
    S: Send + Sync,
    H: Handler<M, C, S>,
    B: Backend,
    L: Walk<B>,
{
    async fn handle(&self, msg: &M, ctx: &mut Context<'_, C, S>) -> HandlerOutcome {
        let Some(registered) = self.outbox.tracked(ctx.name()) else {
            return self.inner.handle(msg, ctx).await;
        };
        registered.handlers.meet(registered.name(), self.mount);
        let headers = ctx.headers();
        let (id, retries) = (headers.get_shared(OUTBOX_ID_HEADER), retry_count(headers));
        let (id, open) = match self
            .outbox
            .take(registered, id, retries, self.mount.number)
            .await
        {
            Taken::Untracked => return self.inner.handle(msg, ctx).await,
            Taken::Open(id) => (id, true),
            Taken::Processed(id) if registered.handlers.several() => (id, false),
            Taken::Processed(_) => return HandlerOutcome::ack(),
            Taken::Unread(id) => {
                registered.retries.expect(self.mount.number, &id, retries);
                return HandlerOutcome::retry_after(self.outbox.settings.retry_delay);
            }
        };
        let unsettled = Unsettled {
            registered,
            id: &id,
            retries,
            mount: self.mount.number,
            open,
        };
        point(Point::AfterFetch);
        let outcome = self.inner.handle(msg, ctx).await;
        point(Point::AfterHandler);
        if outcome.is_retry() {
            registered.retries.expect(self.mount.number, &id, retries);
        }
        std::mem::forget(unsettled);
        if open {
            let settled = Settled::by(&outcome);
            self.outbox.settle(registered, &id, settled).await;
        }
        outcome
    }
}

/// What becomes of a delivery before its handler.
enum Taken {
    /// It has no record here, so the handler runs and nothing is marked.
    Untracked,
    /// Its record is open.
    Open(Str),
    /// Its record is closed, so it is acknowledged without the handler, unless there are several.
    Processed(Str),
    /// Its record could not be read, so it comes back later.
    Unread(Str),
}

impl<B: Backend, L: Walk<B>> Outbox<B, L> {
    async fn take(
        &self,
        registered: &Registered,
        id: Option<bytes::Bytes>,
        retries: u64,
        mount: usize,
    ) -> Taken {
        let name = registered.name();
        let Some(id) = id else {
            if registered.first_without_id() {
                tracing::warn!(
                    target: TARGET,
                    name,
                    "a message arrived without the header {OUTBOX_ID_HEADER}, so its handler runs \
                     untracked: a publisher that bypasses the outbox's layers sends such messages; \
                     this is said once per name",
                );
            }
            return Taken::Untracked;
        };
        let Ok(id) = Str::try_from(id) else {
            tracing::warn!(
                target: TARGET,
                name,
                "a message arrived with an id that is not UTF-8, so its handler runs untracked and \
                 nothing is marked",
            );
            return Taken::Untracked;
        };
        registered.pace.take(&id);
        registered.retries.arrived(mount, &id, retries);
        let Some(database) = self.database() else {
            tracing::error!(
                target: TARGET,
                name,
                id = %id,
                retry_after = ?self.settings.retry_delay,
                "the outbox has no pool, so the record could not be read: the message comes back \
                 later; call `set_pool` in `on_startup`",
            );
            return Taken::Unread(id);
        };
        let fetch = Fetch {
            database,
            settings: &self.settings,
            name,
            id: &id,
        };
        match self.names.walk(name, fetch).await {
            None => Taken::Untracked,
            Some(Ok(found)) => found.taken(name, id),
            Some(Err(failure)) => {
                tracing::error!(
                    target: TARGET,
                    name,
                    id = %id,
                    error = %failure,
                    retry_after = ?self.settings.retry_delay,
                    "the record could not be read, so its handler did not run: the message comes \
                     back later, and the record stays as it is",
                );
                Taken::Unread(id)
            }
        }
    }

    async fn settle(&self, registered: &Registered, id: &str, settled: Settled) {
        let name = registered.name();
        let Some(database) = self.database() else {
            return;
        };
        let settle = Settle {
            database,
            settings: &self.settings,
            id,
            settled,
        };
        match self.names.walk(name, settle).await {
            None | Some(Ok(true)) => {}
            Some(Ok(false)) => tracing::warn!(
                target: TARGET,
                name,
                id,
                ?settled,
                "the mark found no open record: another copy of the message was processed \
                 meanwhile, or the row was changed by hand; the handler's outcome stands",
            ),
            Some(Err(failure)) => tracing::error!(
                target: TARGET,
                name,
                id,
                ?settled,
                error = %failure,
                "the record could not be marked: the handler's outcome stands, the record stays \
                 open, and the next start sends its message again",
            ),
        }
    }
}

/// What the table says about the id of a delivery.
enum Found {
    Open,
    Processed,
    Absent,
    OtherName(String),
    NotAnId(&'static str),
}

impl Found {
    fn taken(self, name: &str, id: Str) -> Taken {
        match self {
            Self::Open => return Taken::Open(id),
            Self::Processed => {
                tracing::debug!(
                    target: TARGET,
                    name,
                    id = %id,
                    "the record is processed already: the message is acknowledged without its \
                     handler, unless the name has several",
                );
                return Taken::Processed(id);
            }
            Self::Absent => tracing::warn!(
                target: TARGET,
                name,
                id = %id,
                "the table has no record with the id of this message, so its handler runs \
                 untracked: is this the database that the publisher records in?",
            ),
            Self::OtherName(recorded) => tracing::warn!(
                target: TARGET,
                name,
                id = %id,
                recorded,
                "the record with the id of this message belongs to another name, so the handler \
                 runs untracked and that record stays as it is: the header was forwarded or forged",
            ),
            Self::NotAnId(expected) => tracing::warn!(
                target: TARGET,
                name,
                id = %id,
                expected,
                "the id of this message is not one of the record's type, so its handler runs \
                 untracked and nothing is marked",
            ),
        }
        Taken::Untracked
    }
}

struct Fetch<'a, B: Backend> {
    database: &'a Database<B>,
    settings: &'a Settings,
    name: &'a str,
    id: &'a str,
}

impl<B: Backend> Visit<B> for Fetch<'_, B> {
    type Output = Result<Found, Failure<B>>;

    async fn visit<R>(self) -> Self::Output
    where
        R: Publish<B> + Mark<B>,
        B: Statements<R>,
    {
        let Ok(id) = self.id.parse::<R::Id>() else {
            return Ok(Found::NotAnId(std::any::type_name::<R::Id>()));
        };
        let stored = read!(
            self.database,
            self.settings,
            self.settings.acquire_timeout,
            |conn| R::fetch(&mut conn, &id)
        )
        .await?;
        let stored = match stored {
            None => self.look_again::<R>(&id).await?,
            stored => stored,
        };
        let deletes = R::SPEC.processed_at_column().is_none();
        Ok(match stored {
            Some(stored) if stored.name != self.name => Found::OtherName(stored.name),
            Some(stored) if stored.processed => Found::Processed,
            Some(_) => Found::Open,
            None if deletes => Found::Processed,
            None => Found::Absent,
        })
    }
}

impl<B: Backend> Fetch<'_, B> {
    /// Reads the record inside a transaction of the outbox's own. An absent record is looked for
    /// twice: the first connection may have come with somebody's open transaction, whose snapshot
    /// is older than the record.
    async fn look_again<R>(&self, id: &R::Id) -> Result<Option<Stored>, Failure<B>>
    where
        R: Mark<B>,
        B: Statements<R>,
    {
        let mut transaction = self.database.begin(self.settings).await?;
        let deadline = transaction.deadline;
        let stored = timeout_at(deadline, R::fetch(&mut transaction.connection, id)).await;
        transaction.finish(stored).await
    }
}

/// How a handler settled its delivery.
#[derive(Debug, Clone, Copy)]
enum Settled {
    Acked,
    Dropped,
    Retried,
}

impl Settled {
    fn by(outcome: &HandlerOutcome) -> Self {
        if outcome.is_ack() {
            Self::Acked
        } else if outcome.is_drop() {
            Self::Dropped
        } else {
            Self::Retried
        }
    }
}

struct Settle<'a, B: Backend> {
    database: &'a Database<B>,
    settings: &'a Settings,
    id: &'a str,
    settled: Settled,
}

impl<B: Backend> Settle<'_, B> {
    async fn mark<R>(&self, id: &R::Id) -> Result<bool, Failure<B>>
    where
        R: Mark<B>,
        B: Statements<R>,
    {
        let mut transaction = self.database.begin(self.settings).await?;
        point(Point::BeforeMark);
        let conn = &mut transaction.connection;
        let deadline = transaction.deadline;
        let marked = match self.settled {
            Settled::Acked => timeout_at(deadline, R::ack(conn, id)).await,
            Settled::Dropped => timeout_at(deadline, R::discard(conn, id)).await,
            Settled::Retried => timeout_at(deadline, R::retry(conn, id))
                .await
                .map(|retried| retried.map(|()| true)),
        };
        let touched = transaction.finish(marked).await?;
        // A table that deletes has no row left where another copy was processed first.
        Ok(touched || R::SPEC.processed_at_column().is_none())
    }
}

impl<B: Backend> Visit<B> for Settle<'_, B> {
    type Output = Result<bool, Failure<B>>;

    async fn visit<R>(self) -> Self::Output
    where
        R: Publish<B> + Mark<B>,
        B: Statements<R>,
    {
        if matches!(self.settled, Settled::Retried) && !R::RETRY {
            return Ok(true);
        }
        // The id was parsed when the record was taken.
        let Ok(id) = self.id.parse::<R::Id>() else {
            return Ok(true);
        };
        // A mark is the same twice, so one that met a dead connection is tried on another one.
        match self.mark::<R>(&id).await {
            Err(Failure::Database(_)) => self.mark::<R>(&id).await,
            marked => marked,
        }
    }
}

/// A delivery whose record is not settled yet. Dropped by a panic or with its task, it says which
/// record stays open: the runtime's own line names none. The runtime may answer a panic with a copy.
struct Unsettled<'a> {
    registered: &'a Registered,
    id: &'a str,
    retries: u64,
    mount: usize,
    open: bool,
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        self.registered
            .retries
            .expect(self.mount, self.id, self.retries);
        if !self.open {
            return;
        }
        tracing::error!(
            target: TARGET,
            name = self.registered.name(),
            id = self.id,
            panicked = std::thread::panicking(),
            "the handler did not come to an outcome: the record stays open, and the next start \
             sends its message again",
        );
    }
}
