//! The brokers under test, each one a server that the environment names.

use std::env;

use clap::ValueEnum;

use crate::Result;

/// A broker that keeps nothing: who does not listen misses the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Broker {
    /// Pub/Sub of a Redis server.
    Redis,
    /// Core subjects of a NATS server.
    Nats,
}

impl Broker {
    /// The variable with the server's URL.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Redis => "OUTBOX_REDIS_URL",
            Self::Nats => "OUTBOX_NATS_URL",
        }
    }

    /// The server's URL.
    ///
    /// # Errors
    ///
    /// The environment does not name one.
    pub fn url(self) -> Result<String> {
        let variable = self.variable();
        env::var(variable).map_err(|_| format!("{variable} is not set").into())
    }
}
