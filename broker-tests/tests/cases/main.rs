//! Cases from the field that need a real broker, each on every driver.

mod headers;
mod instances;
mod outage;
mod pace;
mod panics;
mod retries;
mod support;
mod unsent;
