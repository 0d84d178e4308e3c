#![doc = include_str!("../README.md")]

#[cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
mod error;
#[cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
mod id;
#[cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
mod sql;
#[cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
mod table;
#[cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
mod value;

#[cfg(all(test, any(feature = "sqlx", feature = "tokio-postgres")))]
#[path = "../tests/stand/server.rs"]
mod server;

#[doc(hidden)]
pub mod private;

/// The drivers, one file each.
mod driver {
    #[cfg(feature = "sqlx")]
    pub(crate) mod sqlx;
    #[cfg(feature = "tokio-postgres")]
    pub(crate) mod tokio_postgres;
}

/// The derive of a record: what the fields of the service's struct are in its table.
pub use outbox_macros::PostgresOutbox as Outbox;

#[cfg(feature = "sqlx")]
pub use driver::sqlx::Postgres;
#[cfg(feature = "tokio-postgres")]
pub use driver::tokio_postgres::TokioPostgres;
#[cfg(any(feature = "sqlx", feature = "tokio-postgres"))]
pub use error::ColumnError;
#[cfg(feature = "tokio-postgres")]
pub use error::TokioPostgresError;

/// The registry and all that belongs to it: a service on another database imports the same names
/// from that database's crate.
pub mod outbox {
    pub use outbox_core::*;

    /// The driver that `outbox!` takes when it is not told another one.
    #[cfg(feature = "sqlx")]
    pub type DefaultDriver = crate::Postgres;

    /// The driver that `outbox!` takes when it is not told another one.
    #[cfg(all(feature = "tokio-postgres", not(feature = "sqlx")))]
    pub type DefaultDriver = crate::TokioPostgres;
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
