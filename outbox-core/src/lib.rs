#![doc = include_str!("../README.md")]

mod record;

mod mark;

mod backend;

mod text;

mod registry;

mod outbox;

mod settings;

mod connection;

mod failure;

mod group_commit;

mod recording;

mod layer;

mod taken;

mod taking;

mod settling;

mod batch;

mod retry;

mod consumers;

mod handlers;

mod publisher;

mod pace;

mod coverage;

mod republish;

mod check;

mod header;

mod switch;

mod crash;

mod error;

#[cfg(feature = "conformance")]
pub mod conformance;

#[doc(hidden)]
pub mod private;

pub use backend::{Backend, PAGE_BYTES, PAGE_ROWS, Statements};
pub use batch::{OutboxHeaders, TakenBatch};
pub use check::{ColumnDescription, ColumnRole, IndexDescription, TableDescription, TableProblem};
pub use consumers::Consumer;
pub use error::{BoxError, OutboxError, RepublishFailure, RepublishReport};
pub use header::{OUTBOX_ID_HEADER, decode_headers, encode_headers};
pub use layer::deliver::{OutboxHandler, OutboxLayer};
pub use layer::publish::OutboxPublishLayer;
pub use mark::{Mark, OpenIds, OpenRecord, OpenRecords, Publish, Stored, StoredMessage};
pub use outbox::{Handle, Outbox};
pub use publisher::{TrackedPublisher, TrackedPublisherError};
pub use record::{OutboxSpec, Record};
pub use registry::{Nil, Node, TrackedName};
pub use switch::{SWITCH_VARIABLE, is_on};
pub use text::Text;

/// The target of every line that the outbox logs.
pub const TARGET: &str = "ruststream::outbox";

// The guide for backend authors: each block of Rust in it is a test of the documentation.
#[cfg(all(doctest, feature = "conformance"))]
#[doc = include_str!("../../docs/backend.md")]
struct BackendGuide;
