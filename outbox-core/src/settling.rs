//! What becomes of a record after its handler: it is marked by the outcome.

use tokio::time::timeout_at;

use crate::connection::{Database, Failure};
use crate::crash::{Point, point};
use crate::registry::{Visit, Walk};
use crate::settings::Settings;
use crate::taken::{Settled, Taken};
use crate::taking::Complete;
use crate::{Backend, Consumer, Mark as Marks, Outbox, Publish, Statements, TARGET};

/// Whether a mark is tried once more if it meets a held lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Try {
    First,
    Last,
}

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
        self.write(&mark, Try::First).await
    }

    /// The same, for when the delivery is settled.
    pub(crate) fn mark_later(
        &self,
        taken: &Taken<'_>,
        settled: Settled,
    ) -> impl Future<Output = ()> + Send + 'static {
        let outbox = self.clone();
        let [subscription, name, id] =
            [taken.registered().name(), taken.name(), taken.id()].map(str::to_owned);
        let consumer = taken.consumer();
        async move {
            let Some(consumer) = consumer else {
                return;
            };
            let mark = Mark {
                subscription: &subscription,
                name: &name,
                id: &id,
                settled,
                consumer,
            };
            outbox.write(&mark, Try::Last).await;
        }
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
        self.write(&mark, Try::Last).await;
    }

    async fn write(&self, mark: &Mark<'_>, attempt: Try) -> Marking {
        let Mark {
            name, id, settled, ..
        } = *mark;
        let Some(database) = self.database() else {
            return Marking::Over;
        };
        let settle = Settle {
            database,
            settings: &self.settings,
            id,
            settled,
            consumer: mark.consumer,
        };
        match self.names.walk(mark.subscription, settle).await {
            None | Some(Ok(true)) => {}
            Some(Ok(false)) => tracing::warn!(
                target: TARGET,
                name,
                id,
                ?settled,
                "the mark found no open record: another copy of the message was processed \
                 meanwhile, or the row was changed by hand; the handler's outcome stands",
            ),
            Some(Err(Failure::WriteLockHeld(..))) if attempt == Try::First => {
                return Marking::LockHeld;
            }
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
        Marking::Over
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
        let deadline = transaction.deadline;
        let marked = match (self.settled, self.consumer) {
            (Settled::Acked, Consumer::SOLE) => timeout_at(deadline, R::ack(conn, id)).await,
            (Settled::Dropped, Consumer::SOLE) => timeout_at(deadline, R::discard(conn, id)).await,
            (Settled::Acked | Settled::Dropped, consumer) => {
                timeout_at(deadline, R::consume(conn, id, consumer)).await
            }
            (Settled::Retried, _) => timeout_at(deadline, R::retry(conn, id))
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
