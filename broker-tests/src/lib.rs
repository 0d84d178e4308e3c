//! A service under test on real brokers: each driver of the outbox, on Redis Pub/Sub and NATS core.
//!
//! A test takes a [`Database`] of its own and [`Names`] of its own, starts a [`Service`] on a
//! [`Broker`] that others use at the same time, and looks at the records from outside.

mod broker;
mod cases;
mod database;
mod driver;
mod record;
mod service;
mod stand;

pub use broker::Broker;
pub use cases::run;
pub use database::{Database, Kind, Row};
pub use driver::Driver;
pub use record::{Message, Names, Registry, registry};
pub use service::{Builder, Delivery, Handling, Outlet, Republished, Service};
pub use stand::Stand;

/// The drivers under test.
pub mod drivers {
    pub use outbox_postgres::{Postgres, TokioPostgres};
    pub use outbox_sqlite::{Rusqlite, Sqlite};
}

/// Whatever went wrong.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// What may go wrong.
pub type Result<T = ()> = std::result::Result<T, Error>;
