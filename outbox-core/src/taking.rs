//! What becomes of a delivery before its handler: the record's state is read, and decides.

use std::sync::Arc;

use ruststream::Str;
use tokio::time::timeout_at;

use crate::batch::{fetch_all, parsed};
use crate::connection::{Database, read};
use crate::failure::Failure;
use crate::group_commit::{Lane, Scope, Work, run};
use crate::handlers::Part;
use crate::registry::{Registered, Visit, Walk};
use crate::retry::Expected;
use crate::settings::Settings;
use crate::taken::{Delivery, Taken};
use crate::{Backend, Consumer, Mark, Outbox, Publish, Statements, Stored, TARGET};

/// What becomes of a delivery before its handler.
#[derive(Debug)]
pub(crate) enum Taking<'a> {
    /// It has no record here, so the handler runs and nothing is marked.
    Untracked,
    /// The handler had it before, or is about to get a copy of it: it is acknowledged without the
    /// handler.
    Done,
    /// Its record could not be read, so it comes back later.
    Unread,
    /// The handler gets it.
    Taken(Taken<'a>),
}

impl<B: Backend, L: Walk<B>> Outbox<B, L> {
    pub(crate) async fn read_record<'a>(&self, delivery: Delivery<'a>) -> Taking<'a> {
        if delivery.comes_again {
            log_comes_again(&delivery);
            return Taking::Done;
        }
        let Some(database) = self.database() else {
            unread(&delivery, &Failure::NoPool, &self.settings);
            return Taking::Unread;
        };
        let subscription = delivery.registered.name();
        let fetch = Fetch {
            database,
            settings: &self.settings,
            id: &delivery.id,
        };
        let found = match self.names.walk(subscription, fetch).await {
            None => return Taking::Untracked,
            Some(Err(failure)) => {
                unread(&delivery, &failure, &self.settings);
                return Taking::Unread;
            }
            Some(Ok(found)) => found,
        };
        let (taking, complete) = found.decide(delivery);
        if let Some(complete) = complete {
            self.close(complete).await;
        }
        taking
    }
}

/// The record could not be read: the message comes back later, and the runtime may make a copy of it.
pub(crate) fn unread(delivery: &Delivery<'_>, failure: &Failure, settings: &Settings) {
    tracing::error!(
        target: TARGET,
        name = delivery.registered.name(),
        id = %delivery.id,
        error = %failure,
        retry_after = ?settings.retry_delay,
        "the record could not be read, so its handler did not run: the message comes back later, \
         and the record stays as it is",
    );
    delivery.expect_copy(&Expected::unread(settings.retry_delay));
}

/// What the table says about the id of a delivery.
#[derive(Debug)]
pub(crate) enum Found {
    Record(Stored),
    Absent,
    /// Absent, in a table that deletes what is processed.
    Deleted,
    NotAnId(&'static str),
}

/// An open record whose marks are complete: a consumer that is declared no longer kept it open.
#[derive(Debug)]
pub(crate) struct Complete<'a> {
    pub(crate) subscription: &'a str,
    pub(crate) name: &'a str,
    pub(crate) id: Str,
    pub(crate) consumer: Consumer,
}

impl Found {
    /// What was found of a record that `R` is the type of.
    pub(crate) fn of<B: Statements<R>, R: Mark<B>>(stored: Option<Stored>) -> Self {
        match stored {
            Some(stored) => Self::Record(stored),
            None if R::SPEC.processed_at_column().is_none() => Self::Deleted,
            None => Self::Absent,
        }
    }

    pub(crate) fn decide(self, delivery: Delivery<'_>) -> (Taking<'_>, Option<Complete<'_>>) {
        let Delivery {
            registered,
            mount,
            ref id,
            ..
        } = delivery;
        let subscription = registered.name();
        match self {
            Self::Record(stored) => {
                if let Some(name) = registered.of_record(&stored.name) {
                    if !registered.is_name() {
                        name.pace.take(id);
                    }
                    let part = name.meet(mount);
                    return decide(delivery, name, part, &stored);
                }
                tracing::warn!(
                    target: TARGET,
                    name = subscription,
                    id = %id,
                    recorded = stored.name,
                    "the record with the id of this message belongs to another name, so the \
                     handler runs untracked and that record stays as it is: the header was \
                     forwarded or forged",
                );
            }
            Self::Deleted => {
                if registered.is_name() {
                    registered.meet(mount);
                }
                let taking = if registered.may_have_met_beside(mount) {
                    Taking::Taken(Taken::new(delivery, subscription, None))
                } else {
                    log_done(subscription, id);
                    Taking::Done
                };
                return (taking, None);
            }
            Self::Absent => tracing::warn!(
                target: TARGET,
                name = subscription,
                id = %id,
                "the table has no record with the id of this message, so its handler runs \
                 untracked: is this the database that the publisher records in?",
            ),
            Self::NotAnId(expected) => tracing::warn!(
                target: TARGET,
                name = subscription,
                id = %id,
                expected,
                "the id of this message is not one of the record's type, so its handler runs \
                 untracked and nothing is marked",
            ),
        }
        (Taking::Untracked, None)
    }
}

fn decide<'a>(
    delivery: Delivery<'a>,
    name: &'a Registered,
    part: Part,
    stored: &Stored,
) -> (Taking<'a>, Option<Complete<'a>>) {
    if !part.is_done(stored, name.has_several_handlers()) {
        let taken = Taken::new(delivery, name.name(), part.of_open(stored));
        return (Taking::Taken(taken), None);
    }
    log_done(name.name(), &delivery.id);
    let consumer = part.of_open(stored);
    let complete = consumer.filter(|consumer| consumer.is_last_of(stored.marks));
    let complete = complete.map(|consumer| Complete {
        subscription: delivery.registered.name(),
        name: name.name(),
        id: delivery.id,
        consumer,
    });
    (Taking::Done, complete)
}

pub(crate) fn log_comes_again(delivery: &Delivery<'_>) {
    tracing::debug!(
        target: TARGET,
        name = delivery.registered.name(),
        id = %delivery.id,
        "the record could not be read a moment ago, and a copy is on its way: this one is \
         acknowledged without the handler",
    );
}

fn log_done(name: &str, id: &str) {
    tracing::debug!(
        target: TARGET,
        name,
        id,
        "the record is processed already: the message is acknowledged without its handler",
    );
}

struct Fetch<'a, B: Backend> {
    database: &'a Database<B>,
    settings: &'a Settings,
    id: &'a Str,
}

impl<B: Backend> Visit<B> for Fetch<'_, B> {
    type Output = Result<Found, Failure>;

    async fn visit<R>(self, registered: &Arc<Registered>) -> Self::Output
    where
        R: Publish<B> + Mark<B>,
        B: Statements<R>,
    {
        let Self {
            database,
            settings,
            id: text,
        } = self;
        let Ok(id) = text.parse::<R::Id>() else {
            return Ok(Found::NotAnId(std::any::type_name::<R::Id>()));
        };
        let alone = fetch::<B, R>(database, settings, &id);
        let queued = || {
            let scope = Scope::new(registered, database, settings);
            (Fetches::<B, R>(scope), text.clone())
        };
        let (shares, lane) = (<R as Mark<B>>::BATCHED, &registered.reads);
        let stored = run(lane, database.groups(settings, shares), alone, queued).await?;
        let stored = match stored {
            None => self.look_again::<R>(&id).await?,
            stored => stored,
        };
        Ok(Found::of::<B, R>(stored))
    }
}

impl<B: Backend> Fetch<'_, B> {
    /// Reads the record inside a transaction of the outbox's own. An absent record is looked for
    /// twice: the first connection may have come with somebody's open transaction, whose snapshot
    /// is older than the record.
    async fn look_again<R>(&self, id: &R::Id) -> Result<Option<Stored>, Failure>
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

async fn fetch<B, R>(
    database: &Database<B>,
    settings: &Settings,
    id: &R::Id,
) -> Result<Option<Stored>, Failure>
where
    B: Statements<R>,
    R: Mark<B>,
{
    read!(database, settings, settings.acquire_timeout, |conn| {
        R::fetch(&mut conn, id)
    })
    .await
}

/// Records that are read in one statement. A read needs no transaction.
struct Fetches<B: Backend, R>(Scope<B, R>);

impl<B, R> Work for Fetches<B, R>
where
    B: Statements<R>,
    R: Mark<B>,
{
    type Operation = Str;
    type Output = Option<Stored>;
    type Begun = ();

    fn lane(&self) -> &Lane<Str, Option<Stored>> {
        &self.0.registered.reads
    }

    async fn begin(&self) -> Result<(), Failure> {
        Ok(())
    }

    async fn together(&self, (): (), ids: &[Str]) -> Result<Vec<Option<Stored>>, Failure> {
        let Scope {
            database, settings, ..
        } = &self.0;
        let ids = parsed::<R>(ids.iter().map(|id| &**id));
        let found = read!(database, settings, settings.acquire_timeout, |conn| {
            fetch_all::<B, R>(&mut conn, &ids)
        })
        .await?;
        let stored = ids.iter().map(|id| found.get(&id.to_string()).cloned());
        Ok(stored.collect())
    }

    async fn alone(&self, id: &Str) -> Result<Option<Stored>, Failure> {
        let Scope {
            database, settings, ..
        } = &self.0;
        let Some(id) = id.parse().ok() else {
            return Ok(None);
        };
        fetch::<B, R>(database, settings, &id).await
    }
}
