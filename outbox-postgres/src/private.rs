//! All that generated code calls. Nothing here is for use by hand.

pub use outbox_core::private::*;
pub use outbox_macros::registry;
