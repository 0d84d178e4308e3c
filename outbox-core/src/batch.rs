//! Batch handlers, which no layer wraps: they take their records, and settle them, by themselves.

mod headers;
mod marks;

use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};

use ruststream::runtime::{HandlerOutcome, Message};
use tokio::time::timeout_at;

use crate::connection::{Database, read};
use crate::failure::Failure;
use crate::handlers::Mount;
use crate::outbox::Handle;
use crate::taken::{Delivery, Taken};
use crate::taking::{Found, Taking, log_comes_again, unread};
use crate::{Backend, Mark, Outbox, PAGE_ROWS, Publish, Record, Statements, Stored, TARGET, is_on};

use marks::Marks;

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
    /// ```text
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
        registered.see(mount);
        let deliveries = batch.iter().map(|message| {
            let OutboxHeaders { id, retries } = message.headers.as_ref();
            is_on()
                .then(|| Delivery::of(registered, mount, id.clone(), *retries))
                .flatten()
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

    async fn records(&self, keys: &[Option<String>]) -> Result<Records, Failure> {
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
        records: &Result<Records, Failure>,
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

/// Ids that were parsed before.
pub(crate) fn parsed<'a, R: Record>(keys: impl IntoIterator<Item = &'a str>) -> Vec<R::Id> {
    let ids = keys.into_iter().map(|key| key.parse().ok());
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
    ) -> Result<(), Failure>
    where
        B: Statements<R>,
        R: Mark<B>,
    {
        let ids = parsed::<R>(page.iter().copied());
        let bound = self.settings.acquire_timeout;
        let found = read!(database, &self.settings, bound, |conn| fetch_all::<B, R>(
            &mut conn, &ids
        ))
        .await?;
        records.extend(found);
        let absent = page.iter().filter(|key| !records.contains_key(**key));
        let absent: Vec<&str> = absent.copied().collect();
        if absent.is_empty() {
            return Ok(());
        }
        let ids = parsed::<R>(absent);
        let mut transaction = database.begin(&self.settings).await?;
        let found = fetch_all::<B, R>(&mut transaction.connection, &ids);
        let found = timeout_at(transaction.deadline, found).await;
        records.extend(transaction.finish(found).await?);
        Ok(())
    }
}

/// Reads records: in one statement, where each step is the backend's.
pub(crate) async fn fetch_all<B, R>(
    conn: &mut B::Connection,
    ids: &[R::Id],
) -> Result<Records, B::Error>
where
    B: Statements<R>,
    R: Mark<B>,
{
    let mut records = Records::new();
    if R::BATCHED {
        let found = B::fetch_batch(conn, ids).await?;
        records.extend(
            found
                .into_iter()
                .map(|(id, stored)| (id.to_string(), stored)),
        );
        return Ok(records);
    }
    for id in ids {
        if let Some(stored) = R::fetch(conn, id).await? {
            records.insert(id.to_string(), stored);
        }
    }
    Ok(records)
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
    /// messages, in their order; `std::iter::repeat_with(HandlerOutcome::ack)` is one for all.
    ///
    /// A message without an outcome comes back later. Where it is known beforehand that they are
    /// not as many as the open messages, none can be told from another: all come back, and an error
    /// is logged.
    ///
    /// It does not fail: records that could not be marked are logged and stay open, as with the
    /// layer.
    pub async fn settle(
        self,
        outcomes: impl IntoIterator<Item = HandlerOutcome>,
    ) -> Vec<HandlerOutcome> {
        let handle = self.handle;
        let (outcomes, marks) = self.outcomes(outcomes.into_iter());
        if let Some(database) = handle.database() {
            marks.write(handle, database).await;
        }
        outcomes
    }

    fn outcomes(
        self,
        outcomes: impl Iterator<Item = HandlerOutcome>,
    ) -> (Vec<HandlerOutcome>, Marks<R::Id>) {
        let later = || HandlerOutcome::retry_after(self.handle.settings.retry_delay);
        let open = self.open().count();
        let matched = match outcomes.size_hint() {
            (least, Some(most)) if least == most => least == open,
            _ => true,
        };
        if !matched {
            tracing::error!(
                target: TARGET,
                name = self.handle.names.registered().name(),
                open,
                outcomes = outcomes.size_hint().0,
                "a batch handler's outcomes are not as many as its open messages, so all of these \
                 come back later: give `settle` one for each message of `open()`, in that order",
            );
        }
        let mut outcomes = outcomes.take(if matched { open } else { 0 });
        let mut marks = Marks::default();
        let of_batch = self.elements.into_iter().map(|element| match element {
            Element::Done => HandlerOutcome::ack(),
            Element::Unread => later(),
            Element::Open(taken) => {
                let outcome = outcomes.next().unwrap_or_else(later);
                if let Some(taken) = taken {
                    marks.add(taken, &outcome);
                }
                outcome
            }
        });
        let of_batch = of_batch.collect();
        (of_batch, marks)
    }
}
