//! All that generated code calls. Nothing here is for use by hand.

pub use ruststream::OutgoingMessage;

pub use crate::{Mark, Outbox, OutboxSpec, Publish, Record, Statements, TrackedName};
