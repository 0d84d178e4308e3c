//! What the outbox and the brokers' clients log, in this whole process.

use std::io::{self, Write};
use std::sync::{LazyLock, Mutex, PoisonError};

use broker_tests::Result;
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

use super::soon;

/// Every line that was logged. A test knows its own by the names in them.
pub(crate) struct Logs {
    lines: Mutex<Vec<String>>,
    news: watch::Sender<()>,
}

static LOGS: LazyLock<Logs> = LazyLock::new(|| {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(
            "ruststream::outbox=info,ruststream_fred=warn",
        ))
        .with_ansi(false)
        .without_time()
        .with_writer(|| Writer)
        .init();
    Logs {
        lines: Mutex::default(),
        news: watch::Sender::new(()),
    }
});

impl Logs {
    /// Begins to listen. Called before what is listened to.
    pub(crate) fn listen() -> &'static Self {
        &LOGS
    }

    /// The lines that contain every one of `words`.
    pub(crate) fn lines(&self, words: &[&str]) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let found = lines
            .iter()
            .filter(|line| words.iter().all(|word| line.contains(word)));
        found.cloned().collect()
    }

    /// Waits until there were this many lines that contain every one of `words`.
    pub(crate) async fn said(&self, times: usize, words: &[&str]) -> Result {
        let mut news = self.news.subscribe();
        let said = news.wait_for(|()| self.lines(words).len() >= times);
        drop(soon(&format!("a line with {words:?}"), said).await??);
        Ok(())
    }
}

struct Writer;

impl Write for Writer {
    /// Gets a whole line at once.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line).into_owned();
        let lines = LOGS.lines.lock();
        lines.unwrap_or_else(PoisonError::into_inner).push(text);
        LOGS.news.send_replace(());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
