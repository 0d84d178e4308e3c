//! Ctrl-C and its like are noted, not obeyed: what was started is ended first.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::Result;

/// Whether the program was asked to end.
#[derive(Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From here on, SIGINT, SIGTERM and SIGHUP end nothing by themselves.
    pub(crate) fn watch() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let mut signals = {
            let _entered = runtime.enter();
            [
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
                signal(SignalKind::hangup())?,
            ]
        };
        let noted = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&noted);
        thread::spawn(move || {
            runtime.block_on(poll_fn(|cx| {
                // Each is polled: one that is not would not wake this.
                let came = signals.iter_mut().map(|signal| signal.poll_recv(cx));
                if came.filter(Poll::is_ready).count() > 0 {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            }));
            noted.store(true, Ordering::Relaxed);
        });
        Ok(Self(asked))
    }

    /// An error once the program was asked to end.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            return Err("interrupted".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{self, Command};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_signal_is_noted_and_ends_nothing() {
        let interrupt = Interrupt::watch().unwrap();
        assert!(interrupt.check().is_ok());
        let kill = format!("kill -TERM {}", process::id());
        assert!(
            Command::new("sh")
                .args(["-c", &kill])
                .status()
                .unwrap()
                .success()
        );
        let sent = Instant::now();
        while interrupt.check().is_ok() {
            assert!(sent.elapsed() < Duration::from_secs(30));
            thread::yield_now();
        }
    }
}
