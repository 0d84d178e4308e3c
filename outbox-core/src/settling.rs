//! What becomes of a record after its handler: it is marked by the outcome.

use std::sync::Arc;

use ruststream::Str;
use tokio::time::timeout_at;

use crate::connection::{Database, Transaction};
use crate::crash::{Point, point};
use crate::failure::Failure;
use crate::group_commit::{Lane, Scope, Work, run};
use crate::registry::{Registered, Visit, Walk};
use crate::settings::Settings;
use crate::taken::{Settled, Taken};
use crate::taking::Complete;
use crate::{Backend, Consumer, Mark as Marks, Outbox, Publish, Record, Statements, TARGET};

/// What came of the first try of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marking {
    /// It is written, or was given up and logged.
    Over,
    /// Another transaction holds the lock that it needs: perhaps the delivery's own, which ends when
    /// the delivery is settled.
    LockHeld,
}

/// A mark that is to be written.
struct Mark<'a> {
    subscription: &'a str,
    name: &'a str,
    id: &'a str,
    settled: Settled,
    consumer: Consumer,
}

impl<B: Backend, L: Walk<B>> Outbox<B, L> {
    /// Marks the record of a delivery by how its handler settled it.
    pub(crate) async fn mark(&self, taken: &Taken<'_>, settled: Settled) -> Marking {
        let Some(consumer) = taken.consumer() else {
            return Marking::Over;
        };
        let mark = Mark {
            subscription: taken.registered().name(),
            name: taken.name(),
            id: taken.id(),
            settled,
            consumer,
        };
        match self.write(&mark).await {
            Ok(()) => {}
            Err(Failure::WriteLockHeld(..)) => return Marking::LockHeld,
            Err(failure) => mark.give_up(&failure),
        }
        Marking::Over
    }

    /// The same, for when the delivery is settled. `None`: nothing is marked.
    pub(crate) fn mark_later(
        &self,
        taken: &Taken<'_>,
        settled: Settled,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        let consumer = taken.consumer()?;
        let outbox = self.clone();
        let [subscription, name, id] =
            [taken.registered().name(), taken.name(), taken.id()].map(str::to_owned);
        Some(async move {
            let mark = Mark {
                subscription: &subscription,
                name: &name,
                id: &id,
                settled,
                consumer,
            };
            if let Err(failure) = outbox.write(&mark).await {
                mark.give_up(&failure);
            }
        })
    }

    /// Closes a record whose marks are complete.
    pub(crate) async fn close(&self, complete: Complete<'_>) {
        let mark = Mark {
            subscription: complete.subscription,
            name: complete.name,
            id: &complete.id,
            settled: Settled::Acked,
            consumer: complete.consumer,
        };
        if let Err(failure) = self.write(&mark).await {
            mark.give_up(&failure);
        }
    }

    async fn write(&self, mark: &Mark<'_>) -> Result<(), Failure> {
        let Some(database) = self.database() else {
            return Ok(());
        };
        let settle = Settle {
            database,
            settings: &self.settings,
            id: mark.id,
            settled: mark.settled,
            consumer: mark.consumer,
        };
        let marked = self.names.walk(mark.subscription, settle).await;
        if !marked.unwrap_or(Ok(true))? {
            tracing::warn!(
                target: TARGET,
                name = mark.name,
                id = mark.id,
                settled = ?mark.settled,
                "the mark found no open record: another copy of the message was processed \
                 meanwhile, or the row was changed by hand; the handler's outcome stands",
            );
        }
        Ok(())
    }
}

impl Mark<'_> {
    fn give_up(&self, failure: &Failure) {
        tracing::error!(
            target: TARGET,
            name = self.name,
            id = self.id,
            settled = ?self.settled,
            error = %failure,
            "the record could not be marked: the handler's outcome stands, the record stays open, \
             and the next start sends its message again",
        );
    }
}

/// Runs the step of a record that answers how its delivery was settled. Returns whether the record
/// was open.
pub(crate) async fn step<B, R>(
    conn: &mut B::Connection,
    id: &R::Id,
    settled: Settled,
    consumer: Consumer,
) -> Result<bool, B::Error>
where
    B: Statements<R>,
    R: Marks<B>,
{
    match (settled, consumer) {
        (Settled::Acked, Consumer::SOLE) => R::ack(conn, id).await,
        (Settled::Dropped, Consumer::SOLE) => R::discard(conn, id).await,
        (Settled::Acked | Settled::Dropped, consumer) => R::consume(conn, id, consumer).await,
        (Settled::Retried, _) => R::retry(conn, id).await.map(|()| true),
    }
}

struct Settle<'a, B: Backend> {
    database: &'a Database<B>,
    settings: &'a Settings,
    id: &'a str,
    settled: Settled,
    consumer: Consumer,
}

impl<B: Backend> Visit<B> for Settle<'_, B> {
    type Output = Result<bool, Failure>;

    async fn visit<R>(self, registered: &Arc<Registered>) -> Self::Output
    where
        R: Publish<B> + Marks<B>,
        B: Statements<R>,
    {
        let Self {
            database,
            settings,
            id: text,
            settled,
            consumer,
        } = self;
        if settled == Settled::Retried && !R::RETRY {
            return Ok(true);
        }
        // The id was parsed when the record was taken.
        let Ok(id) = text.parse::<R::Id>() else {
            return Ok(true);
        };
        let alone = settle::<B, R>(database, settings, &id, settled, consumer);
        // The backend marks what was dropped as what was acknowledged.
        let shares = <R as Marks<B>>::BATCHED;
        let queued = || {
            let scope = Scope::new(registered, database, settings);
            let id = Str::from(text);
            (Settlings::<B, R>(scope), Settling { id, consumer })
        };
        let lane = &registered.marks;
        let touched = run(lane, database.groups(settings, shares), alone, queued).await?;
        // A table that deletes has no row left where another copy was processed first.
        Ok(touched || R::SPEC.processed_at_column().is_none())
    }
}

async fn settle<B, R>(
    database: &Database<B>,
    settings: &Settings,
    id: &R::Id,
    settled: Settled,
    consumer: Consumer,
) -> Result<bool, Failure>
where
    B: Statements<R>,
    R: Marks<B>,
{
    let once = async || {
        let mut transaction = database.begin(settings).await?;
        point(Point::BeforeMark);
        let step = step::<B, R>(&mut transaction.connection, id, settled, consumer);
        let marked = timeout_at(transaction.deadline, step).await;
        transaction.finish(marked).await
    };
    // A mark is the same twice, so one that met a dead connection is tried on another one.
    match once().await {
        Err(Failure::Database(_) | Failure::Unconfirmed(_)) => once().await,
        marked => marked,
    }
}

/// A mark that is written with others.
#[derive(Debug)]
pub(crate) struct Settling {
    id: Str,
    consumer: Consumer,
}

struct Settlings<B: Backend, R>(Scope<B, R>);

impl<B, R> Work for Settlings<B, R>
where
    B: Statements<R>,
    R: Marks<B>,
{
    type Operation = Settling;
    type Output = bool;
    type Begun = Transaction<B>;

    fn lane(&self) -> &Lane<Settling, bool> {
        &self.0.registered.marks
    }

    async fn begin(&self) -> Result<Transaction<B>, Failure> {
        self.0.begin().await
    }

    async fn together(
        &self,
        mut transaction: Transaction<B>,
        marks: &[Settling],
    ) -> Result<Vec<bool>, Failure> {
        point(Point::BeforeMark);
        let marked = mark_all::<B, R>(&mut transaction.connection, marks);
        let marked = timeout_at(transaction.deadline, marked).await;
        if let Ok(Ok(open)) = marked
            && open < marks.len() as u64
            && R::SPEC.processed_at_column().is_some()
        {
            // Each of them then learns whether it was open.
            transaction.roll_back().await;
            return Err(Failure::Database(
                "not all records of a group were open".into(),
            ));
        }
        match transaction.finish(marked).await {
            Ok(_) => Ok(vec![true; marks.len()]),
            // A mark is the same twice: each of them has another try.
            Err(Failure::Unconfirmed(error)) => Err(Failure::Database(error)),
            Err(failure) => Err(failure),
        }
    }

    async fn alone(&self, Settling { id, consumer }: &Settling) -> Result<bool, Failure> {
        let Scope {
            database, settings, ..
        } = &self.0;
        let Some(id) = id.parse().ok() else {
            return Ok(true);
        };
        settle::<B, R>(database, settings, &id, Settled::Acked, *consumer).await
    }
}

/// Marks the records of each consumer in one statement. Returns how many were open.
async fn mark_all<B, R>(conn: &mut B::Connection, marks: &[Settling]) -> Result<u64, B::Error>
where
    B: Statements<R>,
    R: Record,
{
    let mut open = 0;
    let mut rest: Vec<&Settling> = marks.iter().collect();
    while let Some(&Settling { consumer, .. }) = rest.first().copied() {
        let of_consumer = rest.extract_if(.., |mark| mark.consumer == consumer);
        let ids = of_consumer.map(|mark| mark.id.parse().ok());
        let ids: Vec<R::Id> = ids.flatten().collect();
        open += B::mark_batch(conn, &ids, consumer).await?;
    }
    Ok(open)
}
