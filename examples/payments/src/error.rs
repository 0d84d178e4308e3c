//! An error of any kind, and how it is told.

use std::error;

/// Whatever went wrong.
pub type Error = Box<dyn error::Error + Send + Sync>;

/// The error with its causes, on one line.
#[must_use]
pub fn with_causes(error: &(dyn error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
