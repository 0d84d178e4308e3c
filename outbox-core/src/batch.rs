//! Batch handlers, which no layer wraps: they take their records, and settle them, by themselves.

mod headers;

use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};

use ruststream::runtime::{HandlerOutcome, Message};
use tokio::time::timeout_at;

use crate::connection::{Database, Failure, read};
use crate::crash::{Point, point};
use crate::handlers::Mount;
use crate::outbox::Handle;
use crate::taken::{Delivery, Settled, Taken};
use crate::taking::{Found, Taking, log_comes_again, unread};
use crate::{
    Backend, Consumer, Mark, Outbox, PAGE_ROWS, Publish, Record, Statements, Stored, TARGET, is_on,
};

pub use headers::OutboxHeaders;

/// A batch whose records were read: which of its messages are to be handled.
///
/// Dropped before it is [settled](Self::settle), it leaves the records open, and logs each.
#[must_use = "a batch that is not settled leaves its records open"]
pub struct TakenBatch<'a, B: Backend, R, M> {
    handle: &'a Handle<B, R>,
    batch: &'a [M],
    elements: Vec<Element<'a>>,
}

/// What becomes of a message of a batch.
#[derive(Debug)]
enum Element<'a> {
    /// The handler gets it. Untracked, nothing is marked.
    Open(Option<Taken<'a>>),
    /// It is acknowledged without the handler.
    Done,
    /// It comes back later.
    Unread,
}

impl<B, R> Handle<B, R>
where
    B: Statements<R>,
    R: Publish<B> + Mark<B>,
{
    /// Reads the records of a batch, in one statement for each 256 messages: which of them are to
    /// be handled, and which are done. `handler` is the batch handler: it tells the handlers of one
    /// name apart, and which of its consumers this is.
    ///
    /// It does not fail: a message whose record cannot be read comes back later, as with the layer.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// #[subscriber("payments")]
    /// async fn ship(
    ///     batch: &[Message<OutboxHeaders, Payment>],
    ///     ctx: &mut Context<'_, (), Service>,
    /// ) -> Vec<HandlerOutcome> {
    ///     let taken = ctx.state().payments.take(&ship, batch).await;
    ///     let shipped: Vec<_> = taken.open().map(|payment| dispatch(&payment.body)).collect();
    ///     taken.settle(shipped).await
    /// }
    /// ```
    pub async fn take<'a, C: 'static, H: AsRef<OutboxHeaders>, T>(
        &'a self,
        handler: &C,
        batch: &'a [Message<H, T>],
    ) -> TakenBatch<'a, B, R, Message<H, T>> {
        let _ = handler;
        let mount = Mount::of_batch::<C>();
        let registered = self.names.registered();
        let deliveries = batch.iter().map(|message| {
            let OutboxHeaders { id, retries } = message.headers.as_ref();
            let delivery = || Delivery::of(registered, mount, id.clone(), *retries);
            is_on().then(delivery).flatten()
        });
        let deliveries: Vec<_> = deliveries.collect();
        let keys = deliveries
            .iter()
            .map(|delivery| delivery.as_ref().and_then(key::<R>));
        let keys: Vec<_> = keys.collect();
        let records = self.records(&keys).await;
        let mut elements = Vec::with_capacity(deliveries.len());
        for (delivery, key) in deliveries.into_iter().zip(keys) {
            elements.push(match delivery {
                None => Element::Open(None),
                Some(delivery) => self.element(delivery, key, &records).await,
            });
        }
        TakenBatch {
            handle: self,
            batch,
            elements,
        }
    }

    async fn records(&self, keys: &[Option<String>]) -> Result<Records, Failure<B>> {
        let database = self.database().ok_or(Failure::NoPool)?;
        let keys: Vec<&str> = keys.iter().flatten().map(String::as_str).collect();
        let mut records = Records::new();
        for page in keys.chunks(PAGE_ROWS) {
            self.read::<R>(database, page, &mut records).await?;
        }
        Ok(records)
    }

    async fn element<'a>(
        &self,
        delivery: Delivery<'a>,
        key: Option<String>,
        records: &Result<Records, Failure<B>>,
    ) -> Element<'a> {
        if delivery.comes_again {
            log_comes_again(&delivery);
            return Element::Done;
        }
        let found = match (key, records) {
            (None, _) => Found::NotAnId(std::any::type_name::<R::Id>()),
            (Some(key), Ok(records)) => Found::of::<B, R>(records.get(&key).cloned()),
            (Some(_), Err(failure)) => {
                unread(&delivery, failure, &self.settings);
                return Element::Unread;
            }
        };
        let (taking, complete) = found.decide(delivery);
        if let Some(complete) = complete {
            self.close(complete).await;
        }
        match taking {
            Taking::Untracked => Element::Open(None),
            Taking::Taken(taken) => Element::Open(Some(taken)),
            Taking::Done => Element::Done,
            Taking::Unread => Element::Unread,
        }
    }
}

/// The records of a batch, by the text of their ids.
type Records = HashMap<String, Stored>;

/// The text of a delivery's id, as its type writes it. `None`: it is no id.
fn key<R: Record>(delivery: &Delivery<'_>) -> Option<String> {
    let id = delivery.id.parse::<R::Id>().ok()?;
    Some(id.to_string())
}

fn parsed<R: Record>(keys: &[&str]) -> Vec<R::Id> {
    let ids = keys.iter().map(|key| key.parse().ok());
    ids.flatten().collect()
}

impl<B: Backend, L> Outbox<B, L> {
    /// Reads a page of a batch. What is absent is looked for twice, the second time inside a
    /// transaction of the outbox's own: the first connection may have come with somebody's open
    /// transaction, whose snapshot is older than the record.
    async fn read<R>(
        &self,
        database: &Database<B>,
        page: &[&str],
        records: &mut Records,
    ) -> Result<(), Failure<B>>
    where
        B: Statements<R>,
        R: Mark<B>,
    {
        let by_key = |(id, stored): (R::Id, Stored)| (id.to_string(), stored);
        let ids = parsed::<R>(page);
        let bound = self.settings.acquire_timeout;
        let read = read!(database, &self.settings, bound, |conn| R::fetch_batch(
            &mut conn, &ids
        ))
        .await?;
        records.extend(read.into_iter().map(by_key));
        let absent = page.iter().filter(|key| !records.contains_key(**key));
        let absent: Vec<&str> = absent.copied().collect();
        if absent.is_empty() {
            return Ok(());
        }
        let ids = parsed::<R>(&absent);
        let mut transaction = database.begin(&self.settings).await?;
        let fetch = R::fetch_batch(&mut transaction.connection, &ids);
        let read = timeout_at(transaction.deadline, fetch).await;
        let read = transaction.finish(read).await?;
        records.extend(read.into_iter().map(by_key));
        Ok(())
    }
}

impl<B: Backend, R, M> Debug for TakenBatch<'_, B, R, M> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakenBatch")
            .field("elements", &self.elements)
            .finish_non_exhaustive()
    }
}

impl<'a, B, R, M> TakenBatch<'a, B, R, M>
where
    B: Statements<R>,
    R: Publish<B> + Mark<B>,
{
    /// The messages that are to be handled, in their order.
    pub fn open(&self) -> impl Iterator<Item = &'a M> {
        let elements = self.batch.iter().zip(&self.elements);
        elements
            .filter_map(|(message, element)| matches!(element, Element::Open(_)).then_some(message))
    }

    /// Marks the records of what was acknowledged or dropped, in one statement for each 256, and
    /// returns the outcomes of the whole batch. `outcomes` are those of the [open](Self::open)
    /// messages, in their order; `std::iter::repeat_with(HandlerOutcome::ack)` is one for all. A
    /// message without an outcome comes back later.
    ///
    /// It does not fail: records that could not be marked are logged and stay open, as with the
    /// layer.
    pub async fn settle(
        self,
        outcomes: impl IntoIterator<Item = HandlerOutcome>,
    ) -> Vec<HandlerOutcome> {
        let handle = self.handle;
        let (outcomes, marks) = self.outcomes(outcomes.into_iter());
        if let Some(database) = handle.database()
            && !marks.is_empty()
        {
            marks.write(handle, database).await;
        }
        outcomes
    }

    fn outcomes(
        self,
        mut outcomes: impl Iterator<Item = HandlerOutcome>,
    ) -> (Vec<HandlerOutcome>, Marks<R::Id>) {
        let later = || HandlerOutcome::retry_after(self.handle.settings.retry_delay);
        let mut marks = Marks::default();
        let of_batch = self.elements.into_iter().map(|element| match element {
            Element::Done => HandlerOutcome::ack(),
            Element::Unread => later(),
            Element::Open(taken) => {
                let outcome = outcomes.next().unwrap_or_else(later);
                if let Some(taken) = taken {
                    marks.add(taken, &outcome, R::RETRY);
                }
                outcome
            }
        });
        let of_batch = of_batch.collect();
        (of_batch, marks)
    }
}

/// What is to be written of a batch's outcomes.
struct Marks<Id> {
    /// The records of each consumer. There are several where a subscription delivers several names.
    marked: Vec<(Consumer, Vec<Id>)>,
    retried: Vec<Id>,
}

impl<Id> Default for Marks<Id> {
    fn default() -> Self {
        Self {
            marked: Vec::new(),
            retried: Vec::new(),
        }
    }
}

impl<Id: std::str::FromStr> Marks<Id> {
    fn add(&mut self, mut taken: Taken<'_>, outcome: &HandlerOutcome, of_retries: bool) {
        let settled = taken.settle(outcome);
        let (Some(consumer), Ok(id)) = (taken.consumer(), taken.id().parse()) else {
            return;
        };
        if settled == Settled::Retried {
            if of_retries {
                self.retried.push(id);
            }
            return;
        }
        match self.marked.iter_mut().find(|(of, _)| *of == consumer) {
            Some((_, ids)) => ids.push(id),
            None => self.marked.push((consumer, vec![id])),
        }
    }

    fn is_empty(&self) -> bool {
        self.marked.is_empty() && self.retried.is_empty()
    }
}

impl<Id: fmt::Display> Marks<Id> {
    async fn write<B, R>(&self, handle: &Handle<B, R>, database: &Database<B>)
    where
        B: Statements<R>,
        R: Mark<B, Id = Id>,
    {
        let name = handle.names.registered().name();
        let ids = self.marked.iter().flat_map(|(_, ids)| ids);
        let asked = ids.clone().count();
        // Marks are the same twice, so those that met a dead connection are tried on another one.
        let written = match self.try_write::<B, R>(handle, database).await {
            Err(Failure::Database(_)) => self.try_write::<B, R>(handle, database).await,
            written => written,
        };
        match written {
            Ok(open) if open < asked as u64 && R::SPEC.processed_at_column().is_some() => {
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
                ids = ?ids.map(ToString::to_string).collect::<Vec<_>>(),
                error = %failure,
                "the records of a batch could not be marked: the handler's outcomes stand, the \
                 records stay open, and the next start sends their messages again",
            ),
        }
    }

    async fn try_write<B, R>(
        &self,
        handle: &Handle<B, R>,
        database: &Database<B>,
    ) -> Result<u64, Failure<B>>
    where
        B: Statements<R>,
        R: Mark<B, Id = Id>,
    {
        let mut transaction = database.begin(&handle.settings).await?;
        point(Point::BeforeMark);
        let conn = &mut transaction.connection;
        let write = async {
            let mut open = 0;
            for (consumer, ids) in &self.marked {
                for page in ids.chunks(PAGE_ROWS) {
                    open += R::mark_batch(conn, page, *consumer).await?;
                }
            }
            for id in &self.retried {
                R::retry(conn, id).await?;
            }
            Ok(open)
        };
        let written = timeout_at(transaction.deadline, write).await;
        transaction.finish(written).await
    }
}
