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

mod consumers {
    use super::*;
    outbox_core::conformance_consumers!(MemoryStand<i64, false, true>);
}

mod storm {
    use super::*;
    outbox_core::conformance_storm!(MemoryStand);
}

mod ids {
    use super::*;

    mod number {
        use super::*;
        outbox_core::conformance_ids!(MemoryStand);
    }

    mod text {
        use super::*;
        outbox_core::conformance_ids!(MemoryStand<String>);
    }

    mod text_delete {
        use super::*;
        outbox_core::conformance_ids!(MemoryStand<String, true>);
    }
}
