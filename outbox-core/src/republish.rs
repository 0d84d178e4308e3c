//! The start: every record that is still open is sent again, at the pace of this process's handlers.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt::Display;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ruststream::{HeaderMap, OutgoingMessage, Publisher, Str};
use tokio::time::{Instant, sleep, timeout};

use crate::connection::{Database, NO_ANSWER, read};
use crate::coverage::Window;
use crate::error::{Chain, OutboxError, RepublishFailure, RepublishReport};
use crate::failure::Failure;
use crate::header::decode_headers;
use crate::pace::Pacing;
use crate::registry::{Registered, Visit, Walk};
use crate::settings::Settings;
use crate::{
    Backend, Mark, OUTBOX_ID_HEADER, OpenIds, OpenRecord, Outbox, PAGE_BYTES, PAGE_ROWS, Publish,
    Statements, StoredMessage, TARGET, is_on,
};

/// How long every send may fail before the broker is taken for gone.
const GIVE_UP: Duration = Duration::from_secs(10);

/// The pause after a failed send. It doubles with each further one, up to a second, so that a
/// broker that is gone is not asked once per record.
const PAUSE: Duration = Duration::from_millis(10);

/// How many records of a name are sent between two lines of progress.
const PROGRESS: usize = 10_000;

/// Sends the open records of the registry's names, or of `only` some of them.
pub(crate) async fn run<B: Backend, L: Walk<B>, P: Publisher + 'static>(
    outbox: &Outbox<B, L>,
    only: Option<&[String]>,
    publisher: P,
) -> Result<(), OutboxError> {
    let mut names = Vec::new();
    outbox.names.all(&mut names);
    names.retain(|name| name.is_name());
    names.retain(|name| only.is_none_or(|only| only.iter().any(|only| only == name.name())));
    let (Some(first), true) = (names.first(), is_on()) else {
        return Ok(());
    };
    let Some(database) = outbox.database() else {
        return Err(OutboxError::NoPool {
            name: first.name().to_owned(),
        });
    };
    let means = Means {
        database: outbox.shared_database(),
        settings: outbox.settings,
        publisher: Arc::new(publisher),
    };
    let mut start = Start::new(&means, database);
    // All names first: what is published while the records of one are sent is of no other's.
    let mut snapshots = Vec::with_capacity(names.len());
    for registered in names {
        let snapshot = Snapshot {
            database,
            settings: &outbox.settings,
            name: registered.name(),
        };
        let open = outbox.names.walk(registered.name(), snapshot).await;
        snapshots.extend(open.map(|open| (registered, open)));
    }
    for (registered, open) in snapshots {
        let resend = Resend {
            start: &mut start,
            open,
        };
        outbox.names.walk(registered.name(), resend).await;
        if start.report.given_up {
            break;
        }
    }
    start.finish()
}

/// What a start works with.
struct Means<B: Backend, P> {
    database: Arc<OnceLock<Database<B>>>,
    settings: Settings,
    publisher: Arc<P>,
}

impl<B: Backend, P> Clone for Means<B, P> {
    fn clone(&self) -> Self {
        Self {
            database: Arc::clone(&self.database),
            settings: self.settings,
            publisher: Arc::clone(&self.publisher),
        }
    }
}

/// A start under way.
struct Start<'a, B: Backend, P> {
    means: &'a Means<B, P>,
    database: &'a Database<B>,
    report: RepublishReport,
    failing: Option<Failing>,
}

impl<'a, B: Backend, P> Start<'a, B, P> {
    fn new(means: &'a Means<B, P>, database: &'a Database<B>) -> Self {
        Self {
            means,
            database,
            report: RepublishReport::default(),
            failing: None,
        }
    }
}

/// Sends that fail, with no success between them.
struct Failing {
    since: Instant,
    pause: Duration,
}

impl<B: Backend, P: Publisher> Start<'_, B, P> {
    fn finish(self) -> Result<(), OutboxError> {
        if self.report.failed == 0 {
            return Ok(());
        }
        if self.means.settings.start_after_failed_republish {
            tracing::error!(
                target: TARGET,
                report = %self.report,
                "the service starts although open records were not sent again",
            );
            return Ok(());
        }
        Err(OutboxError::NotRepublished(self.report))
    }

    fn failed(&mut self, name: &str, id: Option<&str>, cause: impl Into<String>) {
        let failure = RepublishFailure {
            name: name.to_owned(),
            id: id.map(str::to_owned),
            cause: cause.into(),
        };
        tracing::error!(target: TARGET, "not sent again at the start: {failure}");
        self.report.failed += 1;
        if self.report.failures.len() < RepublishReport::KEPT {
            self.report.failures.push(failure);
        }
    }

    /// Sends one record, waiting first until there is room in the window.
    async fn send(&mut self, name: &str, id: &str, message: &StoredMessage, pacing: &Pacing) {
        let headers = match self.headers(id, message) {
            Ok(headers) => headers,
            Err(error) => {
                let cause = format!("its headers cannot be read: {error}");
                return self.failed(name, Some(id), cause);
            }
        };
        pacing.send(id);
        let began = Instant::now();
        let outgoing = OutgoingMessage::new(name, &message.payload).with_headers(headers);
        let cause = match timeout(GIVE_UP, self.means.publisher.publish(outgoing, None)).await {
            Ok(Ok(())) => {
                self.report.sent += 1;
                self.failing = None;
                return;
            }
            Ok(Err(error)) => format!("the publisher refused it: {}", Chain(&error)),
            Err(_) => format!("the publisher did not answer within {GIVE_UP:?}"),
        };
        pacing.not_sent(id);
        self.failed(name, Some(id), cause);
        let failing = self.failing.get_or_insert(Failing {
            since: began,
            pause: PAUSE,
        });
        self.report.given_up = failing.since.elapsed() >= GIVE_UP;
        if !self.report.given_up {
            sleep(failing.pause).await;
            failing.pause = (failing.pause * 2).min(Duration::from_secs(1));
        }
    }

    /// The publisher's own headers, the stored ones over them, and the id.
    fn headers(&self, id: &str, message: &StoredMessage) -> Result<HeaderMap, serde_json::Error> {
        let mut headers = self
            .means
            .publisher
            .base_headers()
            .cloned()
            .unwrap_or_default();
        if let Some(text) = &message.headers {
            for (name, value) in decode_headers(text)?.iter() {
                headers.insert(Str::from(name), bytes::Bytes::copy_from_slice(value));
            }
        }
        headers.insert(Str::from_static(OUTBOX_ID_HEADER), id.to_owned());
        Ok(headers)
    }
}

/// The ids of the open records of a name, whatever their type.
type Open = Result<Box<dyn Any + Send>, Failure>;

/// Reads the ids of the open records of one name.
struct Snapshot<'a, B: Backend> {
    database: &'a Database<B>,
    settings: &'a Settings,
    name: &'a str,
}

impl<B: Backend> Visit<B> for Snapshot<'_, B> {
    type Output = Open;

    async fn visit<R>(self, _registered: &Arc<Registered>) -> Open
    where
        R: Publish<B> + Mark<B>,
        B: Statements<R>,
    {
        let open = read!(self.database, self.settings, NO_ANSWER, |conn| R::recover(
            &mut conn, self.name
        ))
        .await?;
        Ok(Box::new(open))
    }
}

/// Sends the open records of one name.
struct Resend<'s, 'a, B: Backend, P> {
    start: &'s mut Start<'a, B, P>,
    open: Open,
}

impl<B: Backend, P: Publisher + 'static> Visit<B> for Resend<'_, '_, B, P> {
    type Output = ();

    async fn visit<R>(self, registered: &Arc<Registered>)
    where
        R: Publish<B> + Mark<B>,
        B: Statements<R>,
    {
        let Self { start, open } = self;
        let mut sending = Sending { start, registered };
        let sent = match open {
            Ok(open) => {
                let Ok(open) = open.downcast() else {
                    unreachable!("`{}` has one record type", registered.name());
                };
                sending.send_open::<R>(&open).await
            }
            Err(failure) => Err(failure),
        };
        if let Err(failure) = sent {
            let cause =
                format!("they could not be read, and those not sent yet stay open: {failure}");
            sending.start.failed(registered.name(), None, cause);
        }
    }
}

struct Sending<'s, 'a, B: Backend, P> {
    start: &'s mut Start<'a, B, P>,
    registered: &'s Arc<Registered>,
}

impl<B: Backend, P: Publisher + 'static> Sending<'_, '_, B, P> {
    async fn send_open<R>(&mut self, open: &OpenIds<R::Id, B::Error>) -> Result<(), Failure>
    where
        R: Mark<B>,
        B: Statements<R>,
    {
        let name = self.registered.name();
        for error in &open.unreadable {
            let cause = format!("the id of a row cannot be read: {}", Chain(error));
            self.start.failed(name, None, cause);
        }
        if open.ids.is_empty() {
            return Ok(());
        }
        tracing::info!(
            target: TARGET,
            name,
            open = open.ids.len(),
            "sending again the records that are open at the start",
        );
        let mut window = Window::open(Arc::clone(self.registered), &self.start.means.settings);
        self.send_ids::<R>(&open.ids, &mut window).await?;
        if !self.start.report.given_up {
            let again = Again {
                means: self.start.means.clone(),
                registered: Arc::clone(self.registered),
                window,
            };
            tokio::spawn(again.run::<R>());
        }
        Ok(())
    }

    async fn send_ids<R>(&mut self, ids: &[R::Id], window: &mut Window) -> Result<(), Failure>
    where
        R: Mark<B>,
        B: Statements<R>,
    {
        let (database, settings) = (self.start.database, &self.start.means.settings);
        let mut progress = Progress::of(ids.len());
        for ids in ids.chunks(PAGE_ROWS) {
            let sizes = read!(database, settings, NO_ANSWER, |conn| B::open_sizes(
                &mut conn, ids
            ))
            .await?;
            for page in pages(sizes) {
                let records = read!(database, settings, NO_ANSWER, |conn| B::open_records(
                    &mut conn, &page
                ))
                .await?;
                for record in records {
                    window.wait_for_room().await;
                    self.resend(record, window.pacing()).await;
                    if self.start.report.given_up {
                        return Ok(());
                    }
                }
            }
            progress.log(self.registered.name(), ids.len());
        }
        Ok(())
    }

    async fn resend<Id: Display, E: StdError + 'static>(
        &mut self,
        record: OpenRecord<Id, E>,
        pacing: &Pacing,
    ) {
        let name = self.registered.name();
        let id = record.id.to_string();
        match record.message {
            Ok(message) => self.start.send(name, &id, &message, pacing).await,
            Err(error) => {
                let cause = format!("its row cannot be read: {}", Chain(&error));
                self.start.failed(name, Some(&id), cause);
            }
        }
    }
}

/// What follows a start, which does not wait for it: a broker that drops what a receiver's buffer
/// does not hold may have dropped some of what was sent, where others send to it as well.
struct Again<B: Backend, P> {
    means: Means<B, P>,
    registered: Arc<Registered>,
    window: Window,
}

impl<B: Backend, P: Publisher + 'static> Again<B, P> {
    /// Sends once more what is open and was not taken up.
    async fn run<R>(mut self)
    where
        R: Mark<B>,
        B: Statements<R>,
    {
        let name = self.registered.name();
        let mut time = 0;
        while let (Err(left), Some(database)) =
            (self.window.taken_up(time).await, self.means.database.get())
        {
            time += 1;
            tracing::info!(
                target: TARGET,
                name,
                left = left.len(),
                "records that the start sent were not taken up, while others were: those that are \
                 still open are sent once more",
            );
            let ids = left.iter().map(|id| id.parse().ok());
            let ids: Vec<R::Id> = ids.flatten().collect();
            let mut start = Start::new(&self.means, database);
            let mut sending = Sending {
                start: &mut start,
                registered: &self.registered,
            };
            let sent = sending.send_ids::<R>(&ids, &mut self.window).await;
            if let Err(failure) = sent {
                let cause = format!("they could not be read, and stay open: {failure}");
                start.failed(name, None, cause);
            }
            if start.report.failed > 0 {
                break;
            }
        }
        self.window.warn_of_missing_consumers();
    }
}

/// Splits ids into runs whose messages fit a page.
fn pages<Id>(sizes: Vec<(Id, u64)>) -> Vec<Vec<Id>> {
    let mut pages: Vec<Vec<Id>> = Vec::new();
    let mut bytes = 0;
    for (id, size) in sizes {
        match pages.last_mut() {
            Some(page) if bytes + size <= PAGE_BYTES => {
                page.push(id);
                bytes += size;
            }
            _ => {
                pages.push(vec![id]);
                bytes = size;
            }
        }
    }
    pages
}

/// What the log was told of one name.
struct Progress {
    open: usize,
    read: usize,
}

impl Progress {
    fn of(open: usize) -> Self {
        Self { open, read: 0 }
    }

    fn log(&mut self, name: &str, read: usize) {
        let before = self.read;
        self.read += read;
        if before / PROGRESS != self.read / PROGRESS || self.read == self.open {
            tracing::info!(
                target: TARGET,
                name,
                done = self.read,
                open = self.open,
                "open records sent again",
            );
        }
    }
}
