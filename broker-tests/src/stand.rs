//! The stands of the crash tests: a database through a driver, by its name on a command line.

use clap::ValueEnum;
use outbox_postgres::{Postgres, TokioPostgres};
use outbox_sqlite::{Rusqlite, Sqlite};

use crate::{Driver, Kind};

/// A database through one of its drivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Stand {
    /// `Sqlite`.
    SqliteSqlx,
    /// `Rusqlite`.
    SqliteRusqlite,
    /// `Postgres`.
    PostgresSqlx,
    /// `TokioPostgres`.
    PostgresTokio,
}

impl Stand {
    /// The kind of its database.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::SqliteSqlx => Sqlite::KIND,
            Self::SqliteRusqlite => Rusqlite::KIND,
            Self::PostgresSqlx => Postgres::KIND,
            Self::PostgresTokio => TokioPostgres::KIND,
        }
    }
}
