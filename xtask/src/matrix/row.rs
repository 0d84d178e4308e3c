//! A row of the matrix: one cargo command on one stand.

use std::fmt;

use crate::command::Cargo;
use crate::stand::{Environment, Need, Server};

/// The variable that switches the outbox on where the feature `testing` is enabled.
pub(super) const SWITCH: &str = "RUSTSTREAM_SQLX_OUTBOX";

/// Has the services of the tests record, read and mark each message by itself.
const GROUP_COMMIT: (&str, &str) = ("OUTBOX_GROUP_COMMIT", "off");

/// Makes a test panic where it would print `SKIPPED:` and return.
const DENY_SKIPS: &str = "OUTBOX_DENY_SKIPS";

/// Part of the name of every test that says what an outbox does that is switched off.
const SWITCH_OFF: &str = "switch_off";

/// Part of the name of every test that restarts its server.
const RESTART: &str = "restart";

#[derive(Debug)]
pub(super) struct Row {
    /// Database and driver, or what else the row is about.
    pub(super) stand: &'static str,
    kind: Kind,
    /// Packages and features.
    pub(super) cargo: &'static [&'static str],
    /// The servers of its tests.
    needs: [Option<Need>; 3],
    group_commit: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `cargo test`: at least one test has to run.
    Tests(Switch),
    /// `cargo check`: the packages compile with these drivers alone.
    Build(&'static str),
    /// `cargo run`: the program says by its end whether it passed.
    Run,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Switch {
    /// The tests of an outbox that tracks.
    On,
    /// The tests of an outbox that is switched off.
    Off,
}

impl Row {
    pub(super) const fn tests(stand: &'static str, switch: Switch, cargo: &'static [&str]) -> Self {
        Self {
            stand,
            kind: Kind::Tests(switch),
            cargo,
            needs: [None; 3],
            group_commit: true,
        }
    }

    pub(super) const fn build(
        stand: &'static str,
        cargo: &'static [&str],
        drivers: &'static str,
    ) -> Self {
        Self {
            stand,
            kind: Kind::Build(drivers),
            cargo,
            needs: [None; 3],
            group_commit: true,
        }
    }

    /// A program that starts its servers itself.
    pub(super) const fn run(stand: &'static str, cargo: &'static [&str]) -> Self {
        Self {
            stand,
            kind: Kind::Run,
            cargo,
            needs: [None; 3],
            group_commit: true,
        }
    }

    /// The same, without group commit.
    pub(super) const fn without_group_commit(mut self) -> Self {
        self.group_commit = false;
        self
    }

    /// A server that its tests do not restart.
    pub(super) const fn on(self, server: &'static Server) -> Self {
        let restarts = false;
        self.needing(Need { server, restarts })
    }

    /// The tests that restart this server, one by one: a restart disturbs every other test.
    pub(super) const fn restarting(self, server: &'static Server) -> Self {
        let restarts = true;
        self.needing(Need { server, restarts })
    }

    const fn needing(mut self, need: Need) -> Self {
        let mut at = 0;
        while self.needs[at].is_some() {
            at += 1;
        }
        self.needs[at] = Some(need);
        self
    }

    pub(super) fn needs(&self) -> impl Iterator<Item = Need> {
        self.needs.iter().copied().flatten()
    }

    /// The command in this environment. What is not in it, the shell has.
    pub(super) fn command(&self, environment: &Environment) -> Cargo {
        let mut command = Cargo::default();
        if !self.group_commit {
            let (name, off) = GROUP_COMMIT;
            command.set.push((name, off.to_owned()));
        }
        let switch = match self.kind {
            Kind::Tests(switch) => switch,
            Kind::Run => {
                command.args.push("run");
                command.args.extend(self.cargo);
                return command;
            }
            Kind::Build(drivers) => {
                command.args.push("check");
                command.args.extend(self.cargo);
                command.args.push("--no-default-features");
                if !drivers.is_empty() {
                    command.args.extend(["-F", drivers]);
                }
                return command;
            }
        };
        command.args.extend(["test", "--no-fail-fast"]);
        command.args.extend(self.cargo);
        // Without it, libtest hides what a passing test prints: its `SKIPPED:` line too.
        command.args.extend(["--", "--show-output"]);
        match switch {
            Switch::On => command.args.extend(["--skip", SWITCH_OFF]),
            Switch::Off => command.args.push(SWITCH_OFF),
        }
        if self.needs().any(|need| need.restarts) {
            command.args.extend([RESTART, "--test-threads=1"]);
        } else if self.needs().count() > 0 {
            command.args.extend(["--skip", RESTART]);
        }
        let told = |name: &&str| environment.iter().any(|(told, _)| told == name);
        for Need { server, restarts } in self.needs() {
            let (needed, not): (&[_], &[_]) = if restarts {
                (&[server.url, server.restart], &[])
            } else {
                (&[server.url], &[server.restart])
            };
            let kept = needed.iter().filter(|name| !told(name));
            command.kept.extend(kept);
            command.unset.extend(not);
        }
        command.set.extend_from_slice(environment);
        match switch {
            Switch::On => command.set.push((SWITCH, "on".to_owned())),
            Switch::Off => command.unset.push(SWITCH),
        }
        command.set.push((DENY_SKIPS, "1".to_owned()));
        command
    }

    #[cfg(test)]
    pub(super) fn builds(&self, name: &str, features: &str) -> bool {
        self.cargo == ["-p", name]
            && matches!(self.kind, Kind::Build(drivers) if drivers == features)
    }

    pub(super) fn has_tests(&self) -> bool {
        matches!(self.kind, Kind::Tests(_))
    }

    /// The report's column of that name.
    pub(super) fn switch(&self) -> &'static str {
        match self.kind {
            Kind::Tests(Switch::On) => "on",
            Kind::Tests(Switch::Off) => "off",
            Kind::Build(_) | Kind::Run => "-",
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Tests(_) => write!(f, "{}, switch {}", self.stand, self.switch()),
            Kind::Build(_) => write!(f, "{}, build", self.stand),
            Kind::Run => write!(f, "{}, run", self.stand),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand::{NATS, POSTGRES, REDIS};

    fn printed(row: &Row, environment: &[(&'static str, &str)]) -> String {
        let environment = environment.iter();
        let environment = environment.map(|(name, value)| (*name, (*value).to_owned()));
        row.command(&environment.collect()).to_string()
    }

    #[test]
    fn the_switch_is_set_to_on_for_every_test_of_an_outbox_that_tracks() {
        assert_eq!(
            printed(&Row::tests("s", Switch::On, &["-p", "x"]), &[]),
            "RUSTSTREAM_SQLX_OUTBOX=on OUTBOX_DENY_SKIPS=1 \
             cargo test --no-fail-fast -p x -- --show-output --skip switch_off",
        );
    }

    #[test]
    fn the_switch_is_removed_for_the_tests_of_an_off_outbox() {
        assert_eq!(
            printed(&Row::tests("s", Switch::Off, &["-p", "x"]), &[]),
            "env -u RUSTSTREAM_SQLX_OUTBOX OUTBOX_DENY_SKIPS=1 \
             cargo test --no-fail-fast -p x -- --show-output switch_off",
        );
    }

    #[test]
    fn a_build_runs_no_test() {
        assert_eq!(
            printed(&Row::build("s", &["-p", "x"], "a,b"), &[]),
            "cargo check -p x --no-default-features -F a,b"
        );
    }

    #[test]
    fn a_program_is_run_as_it_is() {
        assert_eq!(
            printed(&Row::run("s", &["-p", "x", "--", "y"]), &[]),
            "cargo run -p x -- y"
        );
    }

    #[test]
    fn group_commit_is_off_where_the_row_says_so() {
        let row = Row::run("s", &["-p", "x", "--", "y"]).without_group_commit();
        assert_eq!(
            printed(&row, &[]),
            "OUTBOX_GROUP_COMMIT=off cargo run -p x -- y"
        );
    }

    #[test]
    fn a_row_on_a_server_has_its_url_and_restarts_nothing() {
        let row = Row::tests("s", Switch::On, &["-p", "x"]).on(POSTGRES);
        assert_eq!(
            printed(&row, &[("OUTBOX_POSTGRES_URL", "postgres://h/d")]),
            "env -u OUTBOX_POSTGRES_CTL OUTBOX_POSTGRES_URL=postgres://h/d \
             RUSTSTREAM_SQLX_OUTBOX=on OUTBOX_DENY_SKIPS=1 \
             cargo test --no-fail-fast -p x -- --show-output --skip switch_off --skip restart",
        );
    }

    #[test]
    fn a_row_that_restarts_its_server_runs_those_tests_alone() {
        let row = Row::tests("s", Switch::On, &["-p", "x"]).restarting(POSTGRES);
        let environment = [("OUTBOX_POSTGRES_URL", "u"), ("OUTBOX_POSTGRES_CTL", "c d")];
        assert_eq!(
            printed(&row, &environment),
            "OUTBOX_POSTGRES_URL=u OUTBOX_POSTGRES_CTL='c d' \
             RUSTSTREAM_SQLX_OUTBOX=on OUTBOX_DENY_SKIPS=1 \
             cargo test --no-fail-fast -p x -- --show-output --skip switch_off restart --test-threads=1",
        );
    }

    #[test]
    fn a_row_on_several_servers_has_all_their_urls() {
        let row = Row::tests("s", Switch::On, &["-p", "x"])
            .on(POSTGRES)
            .on(REDIS)
            .on(NATS);
        assert_eq!(
            printed(&row, &[("OUTBOX_REDIS_URL", "r"), ("OUTBOX_NATS_URL", "n")]),
            "env -u OUTBOX_POSTGRES_CTL -u OUTBOX_REDIS_CTL -u OUTBOX_NATS_CTL \
             OUTBOX_POSTGRES_URL=\"$OUTBOX_POSTGRES_URL\" OUTBOX_REDIS_URL=r OUTBOX_NATS_URL=n \
             RUSTSTREAM_SQLX_OUTBOX=on OUTBOX_DENY_SKIPS=1 \
             cargo test --no-fail-fast -p x -- --show-output --skip switch_off --skip restart",
        );
    }

    #[test]
    fn a_row_that_restarts_one_of_its_servers_is_told_how_of_that_one_alone() {
        let row = Row::tests("s", Switch::On, &["-p", "x"])
            .on(POSTGRES)
            .restarting(REDIS);
        assert_eq!(
            printed(&row, &[]),
            "env -u OUTBOX_POSTGRES_CTL OUTBOX_POSTGRES_URL=\"$OUTBOX_POSTGRES_URL\" \
             OUTBOX_REDIS_URL=\"$OUTBOX_REDIS_URL\" OUTBOX_REDIS_CTL=\"$OUTBOX_REDIS_CTL\" \
             RUSTSTREAM_SQLX_OUTBOX=on OUTBOX_DENY_SKIPS=1 \
             cargo test --no-fail-fast -p x -- --show-output --skip switch_off restart --test-threads=1",
        );
    }

    #[test]
    fn what_the_shell_has_is_printed_by_its_name_alone() {
        let row = Row::tests("s", Switch::Off, &["-p", "x"]).on(POSTGRES);
        assert_eq!(
            printed(&row, &[]),
            "env -u OUTBOX_POSTGRES_CTL -u RUSTSTREAM_SQLX_OUTBOX \
             OUTBOX_POSTGRES_URL=\"$OUTBOX_POSTGRES_URL\" OUTBOX_DENY_SKIPS=1 \
             cargo test --no-fail-fast -p x -- --show-output switch_off --skip restart",
        );
    }
}
