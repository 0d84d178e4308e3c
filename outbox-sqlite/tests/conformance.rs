//! The driver `Sqlite` passes the suite.

mod stand;

use stand::SqliteStand;

mod mark {
    use super::SqliteStand;
    outbox_core::conformance!(SqliteStand);
}

mod delete {
    use super::SqliteStand;
    outbox_core::conformance!(SqliteStand<i64, true>);
}
