//! Each database through each driver, on each broker, and the servers that they need.

use crate::stand::{NATS, Need, POSTGRES, REDIS};

pub(super) const STANDS: [&str; 4] = [
    "sqlite-sqlx",
    "sqlite-rusqlite",
    "postgres-sqlx",
    "postgres-tokio",
];

pub(super) const BROKERS: [&str; 2] = ["redis", "nats"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Combination {
    pub(super) stand: &'static str,
    pub(super) broker: &'static str,
}

/// Those of these stands and brokers; an empty list is all of them.
pub(super) fn chosen(stands: &[String], brokers: &[String]) -> Vec<Combination> {
    let is_in = |list: &[String], name: &str| list.is_empty() || list.iter().any(|of| of == name);
    let stands = STANDS.into_iter().filter(|name| is_in(stands, name));
    let on_brokers = |stand| {
        let brokers = BROKERS.into_iter().filter(|name| is_in(brokers, name));
        brokers.map(move |broker| Combination { stand, broker })
    };
    stands.flat_map(on_brokers).collect()
}

/// The servers, which are killed.
pub(super) fn needs(stand: &str, broker: &str) -> Vec<Need> {
    let broker = if broker == "redis" { REDIS } else { NATS };
    let database = stand.starts_with("postgres").then_some(POSTGRES);
    let servers = [broker].into_iter().chain(database);
    let restarts = true;
    servers.map(|server| Need { server, restarts }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_stand_is_on_every_broker_unless_some_are_chosen() {
        assert_eq!(chosen(&[], &[]).len(), STANDS.len() * BROKERS.len());
        let sqlite = names(&["sqlite-sqlx", "sqlite-rusqlite"]);
        assert_eq!(chosen(&sqlite, &[]).len(), 4);
        let expected = Combination {
            stand: "postgres-tokio",
            broker: "nats",
        };
        let chosen = chosen(&names(&["postgres-tokio"]), &names(&["nats"]));
        assert_eq!(chosen, [expected]);
    }

    #[test]
    fn every_server_may_be_killed_and_a_file_has_none() {
        for stand in STANDS {
            let needs = needs(stand, "nats");
            assert!(needs.iter().all(|need| need.restarts));
            assert_eq!(needs.len() == 2, stand.starts_with("postgres-"));
        }
    }
}
