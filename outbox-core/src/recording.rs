//! How a message is recorded, for the publish layer and for a wrapped publisher.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use ruststream::{HeaderMap, OutgoingMessage, Str};
use smallvec::SmallVec;
use tokio::time::timeout_at;

use crate::connection::{Database, Transaction};
use crate::crash::{Point, point};
use crate::error::OutboxError;
use crate::failure::Failure;
use crate::group_commit::{Lane, Scope, Work, run};
use crate::registry::{Names, Registered, Visit, Walk};
use crate::settings::Settings;
use crate::{Backend, Mark, OUTBOX_ID_HEADER, Outbox, Publish, Statements, is_on};

/// A record's id as the header carries it. The usual ids fit without an allocation.
pub(crate) type IdText = SmallVec<[u8; 36]>;

impl<B: Backend, L: Names> Outbox<B, L> {
    /// What is registered under the name of a message to be sent, where the outbox is on.
    pub(crate) fn published(&self, name: &str) -> Option<&Registered> {
        self.delivered(name).filter(|found| found.is_name())
    }

    /// What is registered under the name of a subscription, where the outbox is on.
    pub(crate) fn delivered(&self, name: &str) -> Option<&Registered> {
        let registered = self.names.find(name)?;
        is_on().then_some(registered)
    }
}

impl<B: Backend, L: Walk<B>> Outbox<B, L> {
    /// Commits a record of the message and returns its headers with the record's id among them.
    pub(crate) async fn record(
        &self,
        registered: &Registered,
        payload: &[u8],
        mut headers: HeaderMap,
    ) -> Result<(HeaderMap, IdText), OutboxError> {
        let name = registered.name();
        let Some(database) = self.database() else {
            return Err(OutboxError::NoPool {
                name: name.to_owned(),
            });
        };
        headers.remove(OUTBOX_ID_HEADER);
        let msg = OutgoingMessage::new(name, payload).with_headers(headers);
        let record = Record {
            database,
            settings: &self.settings,
            msg: &msg,
        };
        let Some(recorded) = self.names.walk(name, record).await else {
            unreachable!("`{name}` was found in this list");
        };
        let id = recorded.map_err(|failure| failure.of_record(name))?;
        let (_, _, mut headers) = msg.into_parts();
        headers.insert(
            Str::from_static(OUTBOX_ID_HEADER),
            Bytes::copy_from_slice(&id),
        );
        Ok((headers, id))
    }
}

struct Record<'a, B: Backend> {
    database: &'a Database<B>,
    settings: &'a Settings,
    msg: &'a OutgoingMessage<'a>,
}

impl<B: Backend> Visit<B> for Record<'_, B> {
    type Output = Result<IdText, Failure>;

    async fn visit<R>(self, registered: &Arc<Registered>) -> Self::Output
    where
        R: Publish<B> + Mark<B>,
        B: Statements<R>,
    {
        let Self {
            database,
            settings,
            msg,
        } = self;
        let alone = record::<B, R>(database, settings, msg);
        let shares = <R as Publish<B>>::BATCHED || B::SHARES_OWN_PUBLISH;
        let queued = || {
            let scope = Scope::new(registered, database, settings);
            (Records::<B, R>(scope), Recording::of(msg))
        };
        let lane = &registered.records;
        run(lane, database.groups(settings, shares), alone, queued).await
    }
}

/// A message that is to be recorded with others.
#[derive(Debug)]
pub(crate) struct Recording {
    payload: Vec<u8>,
    headers: HeaderMap,
}

impl Recording {
    fn of(msg: &OutgoingMessage<'_>) -> Self {
        Self {
            payload: msg.payload().to_vec(),
            headers: msg.headers().clone(),
        }
    }
}

struct Records<B: Backend, R>(Scope<B, R>);

impl<B, R> Work for Records<B, R>
where
    B: Statements<R>,
    R: Publish<B>,
{
    type Operation = Recording;
    type Output = IdText;
    type Begun = Transaction<B>;

    fn lane(&self) -> &Lane<Recording, IdText> {
        &self.0.registered.records
    }

    fn bytes(Recording { payload, .. }: &Recording) -> u64 {
        payload.len() as u64
    }

    async fn begin(&self) -> Result<Transaction<B>, Failure> {
        self.0.begin().await
    }

    async fn together(
        &self,
        mut transaction: Transaction<B>,
        messages: &[Recording],
    ) -> Result<Vec<IdText>, Failure> {
        let name = self.0.registered.name();
        let messages = messages.iter().map(|Recording { payload, headers }| {
            OutgoingMessage::new(name, payload).with_headers(headers.clone())
        });
        let messages: Vec<_> = messages.collect();
        let inserted = publish_all::<B, R>(&mut transaction.connection, &messages);
        let inserted = timeout_at(transaction.deadline, inserted).await;
        if let Ok(Ok(ids)) = &inserted
            && ids.len() != messages.len()
        {
            transaction.roll_back().await;
            return Err(Failure::Database(
                "not every message of a group has a record".into(),
            ));
        }
        // Before the commit: an id's `Display` may panic.
        let texts = |ids: Vec<R::Id>| ids.iter().map(text::<R>).collect();
        let inserted = inserted.map(|inserted| inserted.map(texts));
        let ids = transaction.finish(inserted).await?;
        point(Point::AfterCommit);
        Ok(ids)
    }

    async fn alone(&self, message: &Recording) -> Result<IdText, Failure> {
        let Scope {
            registered,
            database,
            settings,
            ..
        } = &self.0;
        let msg = OutgoingMessage::new(registered.name(), &message.payload)
            .with_headers(message.headers.clone());
        record::<B, R>(database, settings, &msg).await
    }
}

async fn publish_all<B, R>(
    conn: &mut B::Connection,
    messages: &[OutgoingMessage<'_>],
) -> Result<Vec<R::Id>, B::Error>
where
    B: Statements<R>,
    R: Publish<B>,
{
    if R::BATCHED {
        return B::insert_batch(conn, messages).await;
    }
    let mut ids = Vec::with_capacity(messages.len());
    for msg in messages {
        ids.push(R::publish(conn, msg).await?);
    }
    Ok(ids)
}

/// Records a message in a transaction of its own.
async fn record<B, R>(
    database: &Database<B>,
    settings: &Settings,
    msg: &OutgoingMessage<'_>,
) -> Result<IdText, Failure>
where
    B: Backend,
    R: Publish<B>,
{
    let mut transaction = database.begin(settings).await?;
    let inserted = R::publish(&mut transaction.connection, msg);
    let inserted = timeout_at(transaction.deadline, inserted).await;
    let inserted = inserted.map(|inserted| inserted.map(|id| text::<R>(&id)));
    let id = transaction.finish(inserted).await?;
    point(Point::AfterCommit);
    Ok(id)
}

fn text<R: crate::Record>(id: &R::Id) -> IdText {
    let mut text = IdText::new();
    // Writing to memory does not fail; an id whose `Display` does would carry no text.
    let _ = write!(text, "{id}");
    text
}
