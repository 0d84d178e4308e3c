//! The reference backend passes the suite first.

use outbox_core::conformance::MemoryStand;

mod mark {
    use super::*;
    outbox_core::conformance!(MemoryStand);
}

mod delete {
    use super::*;
    outbox_core::conformance!(MemoryStand<i64, true>);
}
