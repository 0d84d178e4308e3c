//! Servers that tests need: found or started once, for all rows, and ended with this program.
//!
//! A server is, in this order, the one whose URL is in the environment, one that is started from
//! the installed binaries, and with `--install` one whose package is installed first. What tests are
//! told of each server that their row needs:
//!
//! - `OUTBOX_POSTGRES_URL`, `OUTBOX_REDIS_URL`, `OUTBOX_NATS_URL`. That of Postgres is a superuser's:
//!   each test creates a database of its own.
//! - `OUTBOX_POSTGRES_CTL` and so on, in a row that restarts its server: a command for `sh -c`. It
//!   kills the server as a crash would, starts it on the same port, and returns when it answers.
//!   Such a row runs its tests one by one, and on a server that was started here: any other one may
//!   not be ours to kill.

mod account;
mod find;
mod install;
mod nats;
mod port;
mod postgres;
mod process;
mod redis;

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::Result;

/// A new server is a constant here, and a file with its `find` and its `start`.
pub(crate) const POSTGRES: &Server = &Server {
    name: "Postgres",
    url: "OUTBOX_POSTGRES_URL",
    restart: "OUTBOX_POSTGRES_CTL",
    package: "postgresql",
    find: postgres::find,
    start: postgres::start,
};

pub(crate) const REDIS: &Server = &Server {
    name: "Redis",
    url: "OUTBOX_REDIS_URL",
    restart: "OUTBOX_REDIS_CTL",
    package: "redis-server",
    find: || redis::PROGRAM.find(),
    start: |binaries| redis::PROGRAM.start(binaries),
};

pub(crate) const NATS: &Server = &Server {
    name: "NATS",
    url: "OUTBOX_NATS_URL",
    restart: "OUTBOX_NATS_CTL",
    package: "nats-server",
    find: || nats::PROGRAM.find(),
    start: |binaries| nats::PROGRAM.start(binaries),
};

/// A kind of server.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    /// The variable with the server's URL.
    pub(crate) url: &'static str,
    /// The variable with the command that restarts it.
    pub(crate) restart: &'static str,
    /// The distribution's package.
    package: &'static str,
    /// Where its binaries are installed.
    find: fn() -> Option<PathBuf>,
    /// Starts one from there, and returns when it answers.
    start: fn(&Path) -> Result<Box<dyn Running>>,
}

/// A server that was started here. Dropped, it is ended, and nothing is left of it.
pub(crate) trait Running: fmt::Debug {
    fn url(&self) -> String;

    /// A command for `sh -c`: ends the server hard, starts it again, and waits until it answers.
    fn restart(&self) -> String;
}

/// What tests need of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    pub(crate) server: &'static Server,
    /// Whether they restart it.
    pub(crate) restarts: bool,
}

/// Variables and their values.
pub(crate) type Environment = Vec<(&'static str, String)>;

/// The servers of this program's run.
#[derive(Debug)]
pub(crate) struct Stands {
    install: bool,
    /// By server; why it did not start is remembered, too.
    started: Vec<(&'static str, Started)>,
}

type Started = std::result::Result<Box<dyn Running>, String>;

impl Stands {
    pub(crate) fn new(install: bool) -> Self {
        let started = Vec::new();
        Self { install, started }
    }

    /// What tests are told; nothing, where the environment says it already.
    pub(crate) fn environment(&mut self, need: Need) -> std::result::Result<Environment, &str> {
        let server = need.server;
        let given = env::var_os(server.url).is_some_and(|url| !url.is_empty());
        if given && !need.restarts {
            return Ok(Vec::new());
        }
        let at = self
            .started
            .iter()
            .position(|(name, _)| *name == server.name);
        let at = at.unwrap_or_else(|| {
            let started = server.open(self.install).map_err(|error| error.to_string());
            self.started.push((server.name, started));
            self.started.len() - 1
        });
        let running = self.started[at].1.as_ref().map_err(String::as_str)?;
        let mut told = vec![(server.url, running.url())];
        if need.restarts {
            told.push((server.restart, running.restart()));
        }
        Ok(told)
    }
}

impl Server {
    fn open(&self, install: bool) -> Result<Box<dyn Running>> {
        let mut found = (self.find)();
        if found.is_none() && install {
            install::package(self.package)?;
            found = (self.find)();
        }
        let found = found.ok_or_else(|| self.missing(install))?;
        let running = (self.start)(&found);
        let running = running.map_err(|error| format!("{} did not start: {error}", self.name))?;
        println!(
            "    {} of {}: {}",
            self.name,
            found.display(),
            running.url()
        );
        Ok(running)
    }

    fn missing(&self, installed: bool) -> String {
        let Self {
            name, url, package, ..
        } = self;
        if installed {
            return format!("the package {package} is installed, but no {name} was found");
        }
        format!(
            "no {name} was found: run `apt-get install {package}`, or pass `--install`, or set \
             {url} to the URL of one (a row that restarts its server needs one that is installed)"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[derive(Debug)]
    struct Fake;

    impl Running for Fake {
        fn url(&self) -> String {
            "fake://here".to_owned()
        }

        fn restart(&self) -> String {
            "again".to_owned()
        }
    }

    const FOUND: &Server = &Server {
        name: "Fake",
        url: "OUTBOX_FAKE_URL",
        restart: "OUTBOX_FAKE_CTL",
        package: "fake",
        find: || Some(PathBuf::from("bin")),
        start: |_| Ok(Box::new(Fake)),
    };

    fn need(server: &'static Server, restarts: bool) -> Need {
        Need { server, restarts }
    }

    #[test]
    fn a_row_is_told_the_url_and_how_to_restart_where_it_does() {
        let mut stands = Stands::new(false);
        let url = ("OUTBOX_FAKE_URL", "fake://here".to_owned());
        let restart = ("OUTBOX_FAKE_CTL", "again".to_owned());
        let told = stands.environment(need(FOUND, false));
        assert_eq!(told.unwrap(), std::slice::from_ref(&url));
        let told = stands.environment(need(FOUND, true));
        assert_eq!(told.unwrap(), [url, restart]);
        assert_eq!(stands.started.len(), 1);
    }

    #[test]
    fn a_server_in_the_environment_is_used_and_not_restarted() {
        // A variable that every process of `cargo test` has.
        const GIVEN: &Server = &Server {
            url: "CARGO_MANIFEST_DIR",
            ..*FOUND
        };
        let mut stands = Stands::new(false);
        assert_eq!(stands.environment(need(GIVEN, false)).unwrap(), []);
        assert!(stands.started.is_empty());
        assert_eq!(stands.environment(need(GIVEN, true)).unwrap().len(), 2);
    }

    #[test]
    fn each_server_has_a_name_and_variables_of_its_own() {
        let servers = [POSTGRES, REDIS, NATS];
        let names = servers.map(|server| [server.name, server.url, server.restart]);
        let names: BTreeSet<_> = names.concat().into_iter().collect();
        assert_eq!(names.len(), 9);
    }

    #[test]
    fn a_server_that_is_missing_says_what_to_do_in_each_row() {
        const MISSING: &Server = &Server {
            find: || None,
            ..*FOUND
        };
        let mut stands = Stands::new(false);
        for _ in 0..2 {
            let why = stands.environment(need(MISSING, false)).unwrap_err();
            for fix in ["`apt-get install fake`", "`--install`", "OUTBOX_FAKE_URL"] {
                assert!(why.contains(fix), "{why}");
            }
        }
        assert_eq!(stands.started.len(), 1);
    }

    #[test]
    fn a_server_that_does_not_start_says_why() {
        const BROKEN: &Server = &Server {
            start: |_| Err("its own words".into()),
            ..*FOUND
        };
        let mut stands = Stands::new(false);
        let why = stands.environment(need(BROKEN, false)).unwrap_err();
        assert_eq!(why, "Fake did not start: its own words");
    }
}
