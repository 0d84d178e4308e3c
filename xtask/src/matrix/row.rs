//! A row of the matrix: one cargo command on one stand.

use std::fmt;

use crate::command::Cargo;

/// The variable that switches the outbox on where the feature `testing` is enabled.
pub(super) const SWITCH: &str = "RUSTSTREAM_SQLX_OUTBOX";

/// Makes a test panic where it would print `SKIPPED:` and return.
const DENY_SKIPS: (&str, &str) = ("OUTBOX_DENY_SKIPS", "1");

/// Part of the name of every test that says what an outbox does that is switched off.
const SWITCH_OFF: &str = "switch_off";

#[derive(Debug)]
pub(super) struct Row {
    /// Database and driver, or what else the row is about.
    pub(super) stand: &'static str,
    kind: Kind,
    /// Packages and features.
    pub(super) cargo: &'static [&'static str],
    /// What the stand's tests need to know, such as a server's address.
    pub(super) env: &'static [(&'static str, &'static str)],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `cargo test`: at least one test has to run.
    Tests(Switch),
    /// `cargo check`: the packages compile with these features alone.
    Build,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Switch {
    /// Every test.
    On,
    /// The tests of an off outbox: the others expect one that tracks.
    Off,
}

impl Row {
    pub(super) const fn tests(stand: &'static str, switch: Switch, cargo: &'static [&str]) -> Self {
        Self {
            stand,
            kind: Kind::Tests(switch),
            cargo,
            env: &[],
        }
    }

    pub(super) const fn build(stand: &'static str, cargo: &'static [&str]) -> Self {
        Self {
            stand,
            kind: Kind::Build,
            cargo,
            env: &[],
        }
    }

    pub(super) fn command(&self) -> Cargo {
        let mut command = Cargo {
            set: self.env.to_vec(),
            ..Cargo::default()
        };
        let Kind::Tests(switch) = self.kind else {
            command.args.push("check");
            command.args.extend(self.cargo);
            return command;
        };
        command.args.extend(["test", "--no-fail-fast"]);
        command.args.extend(self.cargo);
        // Without it, libtest hides what a passing test prints: its `SKIPPED:` line too.
        command.args.extend(["--", "--show-output"]);
        match switch {
            Switch::On => command.set.push((SWITCH, "on")),
            Switch::Off => {
                command.unset.push(SWITCH);
                command.args.push(SWITCH_OFF);
            }
        }
        command.set.push(DENY_SKIPS);
        command
    }

    pub(super) fn has_tests(&self) -> bool {
        self.kind != Kind::Build
    }

    /// The report's column of that name.
    pub(super) fn switch(&self) -> &'static str {
        match self.kind {
            Kind::Tests(Switch::On) => "on",
            Kind::Tests(Switch::Off) => "off",
            Kind::Build => "-",
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Tests(_) => write!(f, "{}, switch {}", self.stand, self.switch()),
            Kind::Build => write!(f, "{}, build", self.stand),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_set_to_on_for_every_test() {
        assert_eq!(
            Row::tests("s", Switch::On, &["-p", "x"])
                .command()
                .to_string(),
            "RUSTSTREAM_SQLX_OUTBOX=on OUTBOX_DENY_SKIPS=1 \
             cargo test --no-fail-fast -p x -- --show-output",
        );
    }

    #[test]
    fn the_switch_is_removed_for_the_tests_of_an_off_outbox() {
        assert_eq!(
            Row::tests("s", Switch::Off, &["-p", "x"])
                .command()
                .to_string(),
            "env -u RUSTSTREAM_SQLX_OUTBOX OUTBOX_DENY_SKIPS=1 \
             cargo test --no-fail-fast -p x -- --show-output switch_off",
        );
    }

    #[test]
    fn a_build_runs_no_test() {
        let row = Row::build("s", &["-p", "x"]);
        assert_eq!(row.command().to_string(), "cargo check -p x");
    }

    #[test]
    fn a_row_sets_the_environment_of_its_stand() {
        let row = Row {
            env: &[("URL", "u")],
            ..Row::build("s", &[])
        };
        assert_eq!(row.command().to_string(), "URL=u cargo check");
    }
}
