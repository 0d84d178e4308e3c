//! `crate` names a backend by its crate, by a longer path, or by a path inside this crate.

#![deny(warnings)]

use outbox_core::Record;
use outbox_macros::{PostgresOutbox, SqliteOutbox};

mod backend {
    pub(crate) use outbox_core::private;
}

macro_rules! record {
    ($derive:ident, $name:ident, $path:literal) => {
        #[derive($derive)]
        #[outbox(table = "outbox", publish)]
        #[outbox(crate = $path)]
        struct $name {
            #[field(id)]
            id: i64,
            #[field(name)]
            name: String,
            #[field(payload)]
            payload: Vec<u8>,
        }
    };
}

record!(SqliteOutbox, ByCrate, "outbox_core");
record!(PostgresOutbox, ByCrateFromTheRoot, "::outbox_core");
record!(SqliteOutbox, ByPath, "crate::backend");
record!(PostgresOutbox, ByNearPath, "self::backend");

fn main() {
    for spec in [
        ByCrate::SPEC,
        ByCrateFromTheRoot::SPEC,
        ByPath::SPEC,
        ByNearPath::SPEC,
    ] {
        assert_eq!(spec.table(), "outbox");
    }
}
