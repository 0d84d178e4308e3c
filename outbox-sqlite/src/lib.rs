#![doc = include_str!("../README.md")]

#[cfg(feature = "rusqlite")]
mod error;
#[cfg(any(feature = "rusqlite", feature = "sqlx"))]
mod sql;
#[cfg(any(feature = "rusqlite", feature = "sqlx"))]
mod table;

#[doc(hidden)]
pub mod private;

/// The drivers, one file each.
mod driver {
    #[cfg(feature = "rusqlite")]
    pub(crate) mod rusqlite;
    #[cfg(feature = "sqlx")]
    pub(crate) mod sqlx;
}

/// The derive of a record: what the fields of the service's struct are in its table.
pub use outbox_macros::SqliteOutbox as Outbox;

#[cfg(feature = "rusqlite")]
pub use driver::rusqlite::{Rusqlite, RusqliteConnection};
#[cfg(feature = "sqlx")]
pub use driver::sqlx::Sqlite;
#[cfg(feature = "rusqlite")]
pub use error::RusqliteError;

/// The registry and all that belongs to it: a service on another database imports the same names
/// from that database's crate.
pub mod outbox {
    pub use outbox_core::*;

    /// The driver that `outbox!` takes when it is not told another one.
    #[cfg(feature = "sqlx")]
    pub type DefaultDriver = crate::Sqlite;

    /// The driver that `outbox!` takes when it is not told another one.
    #[cfg(all(feature = "rusqlite", not(feature = "sqlx")))]
    pub type DefaultDriver = crate::Rusqlite;
}

/// The table of `schema.sql`, which keeps processed records: statements that may run at every
/// start.
pub const SCHEMA: &str = include_str!("../schema.sql");

/// The table of `schema_delete.sql`, which deletes processed records: statements that may run at
/// every start. It never gives an id twice: a message whose record is absent counts as processed.
pub const SCHEMA_DELETE: &str = include_str!("../schema_delete.sql");

/// Builds a registry: `outbox! { "payments" => PaymentOutbox, .. }`.
///
/// Each entry tracks what is published under a name as records of a type. The registry is
/// [deferred](outbox::Outbox::deferred) unless `pool: <expression>` gives it its pool, and uses
/// [`outbox::DefaultDriver`] unless `driver: <type>` names another one. A name that is given twice
/// does not compile.
///
/// `"payments" => PaymentOutbox, consumers: { 0 => ship, 1 => mail }` declares the handlers of a
/// name that each get its messages: see [`outbox::Outbox::consumer`]. `deliveries: ["payments.*" =>
/// PaymentOutbox]` names the subscriptions whose name is not the published one: see
/// [`outbox::Outbox::deliver`].
#[macro_export]
macro_rules! outbox {
    ($($entries:tt)*) => {
        $crate::private::registry!([$crate::private] [$crate::outbox::DefaultDriver] $($entries)*)
    };
}

// The guides: each block of Rust in them is a test of the documentation.
#[cfg(all(doctest, feature = "sqlx"))]
mod guides {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/getting-started.md")]
    struct GettingStarted;
    #[doc = include_str!("../../docs/table.md")]
    struct Table;
    #[doc = include_str!("../../docs/records.md")]
    struct Records;
    #[doc = include_str!("../../docs/publishing-from-http.md")]
    struct PublishingFromHttp;
    #[doc = include_str!("../../docs/transactions.md")]
    struct Transactions;
    #[doc = include_str!("../../docs/testing.md")]
    struct Testing;
    #[doc = include_str!("../../docs/operating.md")]
    struct Operating;
    #[doc = include_str!("../../docs/moving-from-ruststream-sqlx.md")]
    struct MovingFromRuststreamSqlx;
}
