//! What is seen while a row runs: a spinner on a terminal, a line now and then elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// On a pipe: how often a row that still runs says so.
const PULSE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    started: Instant,
    pulse: Instant,
}

impl Progress {
    pub(super) fn start(row: String) -> Self {
        let now = Instant::now();
        // Drawn on standard error, and hidden where that is no terminal.
        let bar = ProgressBar::new_spinner().with_prefix(row);
        if let Ok(style) =
            ProgressStyle::with_template("{spinner} {prefix} {elapsed} {wide_msg:.dim}")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self {
            bar,
            started: now,
            pulse: now,
        }
    }

    /// The last line that the row has printed.
    pub(super) fn line(&self, line: &str) {
        self.bar.set_message(line.to_owned());
    }

    /// To be called every second or more often.
    pub(super) fn tick(&mut self) {
        if self.bar.is_hidden() && self.pulse.elapsed() >= PULSE {
            self.pulse = Instant::now();
            println!(
                "    {}, {} s so far",
                self.bar.prefix(),
                self.started.elapsed().as_secs()
            );
        }
    }

    /// Clears the line. How long it took.
    pub(super) fn finish(self) -> Duration {
        self.bar.finish_and_clear();
        self.started.elapsed()
    }
}
