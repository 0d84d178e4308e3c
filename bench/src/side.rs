//! The sides of the comparison, by name.

use std::fmt;

use Insert::{Derived, Own};

/// Who does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// A service without an outbox.
    Bare,
    /// The same statements and the same safety, written by hand on the driver of that name.
    ByHand(&'static str),
    /// `ruststream-sqlx`.
    Peer,
    /// This outbox, on the driver of that name.
    Ours(&'static str, Insert),
}

/// Whose insert records a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Insert {
    /// The derived one.
    Derived,
    /// `impl outbox::Publish` of the service.
    Own,
}

/// The sides of a SQLite file.
pub(crate) const SQLITE: &[Side] = &[
    Side::ByHand("Sqlite"),
    Side::ByHand("Rusqlite"),
    Side::Peer,
    Side::Ours("Sqlite", Derived),
    Side::Ours("Sqlite", Own),
    Side::Ours("Rusqlite", Derived),
    Side::Ours("Rusqlite", Own),
];

/// The sides of a Postgres database.
pub(crate) const POSTGRES: &[Side] = &[
    Side::ByHand("Postgres"),
    Side::ByHand("TokioPostgres"),
    Side::Peer,
    Side::Ours("Postgres", Derived),
    Side::Ours("Postgres", Own),
    Side::Ours("TokioPostgres", Derived),
    Side::Ours("TokioPostgres", Own),
];

impl Side {
    /// Whether it is an outbox, and not the work without one.
    pub(crate) fn is_outbox(self) -> bool {
        matches!(self, Self::Peer | Self::Ours(..))
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bare => write!(f, "no outbox"),
            Self::ByHand(driver) => write!(f, "by hand, as `{driver}`"),
            Self::Peer => write!(f, "`ruststream-sqlx`"),
            Self::Ours(driver, insert) => write!(f, "`{driver}`, {insert}"),
        }
    }
}

impl fmt::Display for Insert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Derived => "derived insert",
            Own => "own insert",
        })
    }
}
