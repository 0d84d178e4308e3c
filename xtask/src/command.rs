//! Commands: how one is printed so that it can be pasted into a shell, and how one is run.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::iter;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;

/// A cargo invocation with the environment that it sets, takes over and removes.
#[derive(Debug, Default)]
pub(crate) struct Cargo {
    pub(crate) args: Vec<&'static str>,
    pub(crate) set: Vec<(&'static str, String)>,
    /// Printed without their values: one may hold a password.
    pub(crate) kept: Vec<&'static str>,
    pub(crate) unset: Vec<&'static str>,
}

impl Cargo {
    /// The process to spawn: in the workspace's root, by the cargo that runs this program.
    pub(crate) fn in_root(&self, root: &Path) -> Command {
        let mut command = Command::new(cargo());
        command.args(&self.args).current_dir(root);
        command.envs(self.set.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null());
        for name in &self.unset {
            command.env_remove(name);
        }
        command
    }
}

impl fmt::Display for Cargo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.unset.is_empty() {
            write!(f, "env ")?;
            for name in &self.unset {
                write!(f, "-u {name} ")?;
            }
        }
        for name in &self.kept {
            write!(f, "{name}=\"${name}\" ")?;
        }
        for (name, value) in &self.set {
            write!(f, "{name}={} ", quoted(value))?;
        }
        write!(f, "cargo")?;
        for arg in &self.args {
            write!(f, " {}", quoted(arg))?;
        }
        Ok(())
    }
}

/// Runs `program` in `root` and returns what it printed; its own words are the error.
pub(crate) fn output(root: &Path, program: impl Into<OsString>, args: &[&str]) -> Result<String> {
    let mut command = Command::new(program.into());
    run(command.args(args).current_dir(root))
}

/// Runs `command` and returns what it printed; its own words are the error.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let done = command.stdin(Stdio::null()).output();
    let words = iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| quoted(&word.to_string_lossy())).collect();
    let words = words.join(" ");
    let done = done.map_err(|error| format!("`{words}` could not be run: {error}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("`{words}` failed, {}\n{said}", done.status).into());
    }
    Ok(String::from_utf8(done.stdout)?)
}

/// Runs `command` to its end, its output being seen: whether it succeeds. Ctrl-C reaches it as well.
pub(crate) fn passes(command: &mut Command) -> Result<bool> {
    Ok(command.stdin(Stdio::null()).status()?.success())
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A word as the shell reads it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=/:.,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_printed_with_its_environment() {
        let cargo = Cargo {
            args: vec!["test", "-p", "x", "--", "a b"],
            set: vec![
                ("URL", "postgres://h/db?a=1&b=2".to_owned()),
                ("ON", "1".to_owned()),
            ],
            kept: vec!["KEPT"],
            unset: vec!["SWITCH"],
        };
        assert_eq!(
            cargo.to_string(),
            "env -u SWITCH KEPT=\"$KEPT\" URL='postgres://h/db?a=1&b=2' ON=1 cargo test -p x -- 'a b'",
        );
    }

    #[test]
    fn a_quote_inside_a_word_survives_the_shell() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
