//! How a message is recorded, for the publish layer and for a wrapped publisher.

use std::io::Write;

use bytes::Bytes;
use ruststream::{HeaderMap, OutgoingMessage, Str};
use smallvec::SmallVec;
use tokio::time::timeout_at;

use crate::connection::{Database, Failure};
use crate::crash::{Point, point};
use crate::error::OutboxError;
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
    type Output = Result<IdText, Failure<B>>;

    async fn visit<R>(self) -> Self::Output
    where
        R: Publish<B> + Mark<B>,
        B: Statements<R>,
    {
        let mut transaction = self.database.begin(self.settings).await?;
        let inserted = R::publish(&mut transaction.connection, self.msg);
        let inserted = timeout_at(transaction.deadline, inserted).await;
        let id = transaction.finish(inserted).await?;
        point(Point::AfterCommit);
        let mut text = IdText::new();
        // Writing to memory does not fail; an id whose `Display` does would carry no text.
        let _ = write!(text, "{id}");
        Ok(text)
    }
}
