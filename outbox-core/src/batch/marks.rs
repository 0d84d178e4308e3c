//! What is written of a batch's outcomes.

use std::collections::HashSet;
use std::fmt::Display;
use std::str::FromStr;

use ruststream::runtime::HandlerOutcome;
use tokio::time::timeout_at;

use crate::connection::Database;
use crate::crash::{Point, point};
use crate::failure::Failure;
use crate::outbox::Handle;
use crate::settling::step;
use crate::taken::{Settled, Taken};
use crate::{Consumer, Mark, PAGE_ROWS, Statements, TARGET};

/// The records of each consumer, by how they were settled. There are several consumers where a
/// subscription delivers several names.
pub(super) struct Marks<Id> {
    groups: Vec<Group<Id>>,
    /// A copy in the same batch is marked with the first.
    seen: HashSet<String>,
}

struct Group<Id> {
    settled: Settled,
    consumer: Consumer,
    ids: Vec<Id>,
}

impl<Id> Default for Marks<Id> {
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            seen: HashSet::new(),
        }
    }
}

impl<Id: FromStr> Marks<Id> {
    pub(super) fn add(&mut self, mut taken: Taken<'_>, outcome: &HandlerOutcome) {
        let settled = taken.settle(outcome);
        let (Some(consumer), Ok(id)) = (taken.consumer(), taken.id().parse()) else {
            return;
        };
        if settled != Settled::Retried && !self.seen.insert(taken.id().to_owned()) {
            return;
        }
        let mut groups = self.groups.iter_mut();
        match groups.find(|group| group.settled == settled && group.consumer == consumer) {
            Some(group) => group.ids.push(id),
            None => self.groups.push(Group {
                settled,
                consumer,
                ids: vec![id],
            }),
        }
    }
}

impl<Id: Display> Marks<Id> {
    pub(super) async fn write<B, R>(mut self, handle: &Handle<B, R>, database: &Database<B>)
    where
        B: Statements<R>,
        R: Mark<B, Id = Id>,
    {
        if R::BATCHED {
            self.join_acked_and_dropped();
        }
        for Group {
            settled,
            consumer,
            ids,
        } in &self.groups
        {
            if *settled == Settled::Retried && !R::RETRY {
                continue;
            }
            for ids in ids.chunks(PAGE_ROWS) {
                let page = Page {
                    settled: *settled,
                    consumer: *consumer,
                    ids,
                };
                page.write(handle, database).await;
            }
        }
    }

    /// The backend does the same with both.
    fn join_acked_and_dropped(&mut self) {
        let dropped = |group: &mut Group<Id>| group.settled == Settled::Dropped;
        let dropped: Vec<_> = self.groups.extract_if(.., dropped).collect();
        for group in dropped {
            let mut acked = self.groups.iter_mut();
            let acked = acked
                .find(|acked| acked.settled == Settled::Acked && acked.consumer == group.consumer);
            match acked {
                Some(acked) => acked.ids.extend(group.ids),
                None => self.groups.push(group),
            }
        }
    }
}

/// Records that one transaction marks.
struct Page<'a, Id> {
    settled: Settled,
    consumer: Consumer,
    ids: &'a [Id],
}

impl<Id: Display> Page<'_, Id> {
    async fn write<B, R>(&self, handle: &Handle<B, R>, database: &Database<B>)
    where
        B: Statements<R>,
        R: Mark<B, Id = Id>,
    {
        let name = handle.names.registered().name();
        let asked = self.ids.len() as u64;
        // Marks are the same twice, so those that met a dead connection are tried on another one.
        let written = match self.try_write::<B, R>(handle, database).await {
            Err(Failure::Database(_) | Failure::Unconfirmed(_)) => {
                self.try_write::<B, R>(handle, database).await
            }
            written => written,
        };
        match written {
            Ok(open) if open < asked && R::SPEC.processed_at_column().is_some() => {
                tracing::warn!(
                    target: TARGET,
                    name,
                    open,
                    asked,
                    "the marks of a batch did not find all of their records open: copies of the \
                     messages were processed meanwhile, or rows were changed by hand; the \
                     handler's outcomes stand",
                );
            }
            Ok(_) => {}
            Err(failure) => tracing::error!(
                target: TARGET,
                name,
                ids = ?self.ids.iter().map(ToString::to_string).collect::<Vec<_>>(),
                settled = ?self.settled,
                error = %failure,
                "the records of a batch could not be marked: the handler's outcomes stand, the \
                 records stay open, and the next start sends their messages again",
            ),
        }
    }

    /// How many of the records were open.
    async fn try_write<B, R>(
        &self,
        handle: &Handle<B, R>,
        database: &Database<B>,
    ) -> Result<u64, Failure>
    where
        B: Statements<R>,
        R: Mark<B, Id = Id>,
    {
        let mut transaction = database.begin(&handle.settings).await?;
        point(Point::BeforeMark);
        let mark = self.mark::<B, R>(&mut transaction.connection);
        let marked = timeout_at(transaction.deadline, mark).await;
        transaction.finish(marked).await
    }

    async fn mark<B, R>(&self, conn: &mut B::Connection) -> Result<u64, B::Error>
    where
        B: Statements<R>,
        R: Mark<B, Id = Id>,
    {
        if R::BATCHED && self.settled != Settled::Retried {
            return B::mark_batch(conn, self.ids, self.consumer).await;
        }
        let mut open = 0;
        for id in self.ids {
            let marked = step::<B, R>(conn, id, self.settled, self.consumer).await?;
            open += u64::from(marked);
        }
        Ok(open)
    }
}
