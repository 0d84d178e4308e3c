//! What becomes of a record after its handler: it is marked by the outcome.

use tokio::time::timeout_at;

use crate::connection::{Database, Failure};
use crate::crash::{Point, point};
use crate::registry::{Visit, Walk};
use crate::settings::Settings;
use crate::taken::{Settled, Taken};
use crate::taking::Complete;
use crate::{Backend, Consumer, Mark as Marks, Outbox, Publish, Statements, TARGET};

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

    async fn write(&self, mark: &Mark<'_>) -> Result<(), Failure<B>> {
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
    fn give_up<B: Backend>(&self, failure: &Failure<B>) {
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

impl<B: Backend> Settle<'_, B> {
    async fn mark<R>(&self, id: &R::Id) -> Result<bool, Failure<B>>
    where
        R: Marks<B>,
        B: Statements<R>,
    {
        let mut transaction = self.database.begin(self.settings).await?;
        point(Point::BeforeMark);
        let conn = &mut transaction.connection;
        let step = step::<B, R>(conn, id, self.settled, self.consumer);
        let marked = timeout_at(transaction.deadline, step).await;
        let touched = transaction.finish(marked).await?;
        // A table that deletes has no row left where another copy was processed first.
        Ok(touched || R::SPEC.processed_at_column().is_none())
    }
}

impl<B: Backend> Visit<B> for Settle<'_, B> {
    type Output = Result<bool, Failure<B>>;

    async fn visit<R>(self) -> Self::Output
    where
        R: Publish<B> + Marks<B>,
        B: Statements<R>,
    {
        if self.settled == Settled::Retried && !R::RETRY {
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
