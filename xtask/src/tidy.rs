//! The rules of the workspace that a program can check: lists the files and walks the rules.

mod banned;
mod depends;
mod folders;
mod manifest;
mod reasons;
mod shape;
mod source;
mod traces;

use std::fmt;
use std::fs;
use std::path::Path;

use self::source::Source;
use crate::{Result, command};

/// What a `.rs` file has to hold to.
const RUST_RULES: &[fn(&Source) -> Vec<Violation>] = &[
    shape::first_line,
    shape::code_outweighs_docs,
    shape::size,
    reasons::attributes,
    banned::everywhere,
    banned::unwrap,
    banned::sleep,
    banned::hidden,
    depends::drivers_apart,
    depends::public_api_only,
];

/// What every text file has to hold to, `Cargo.lock` apart.
const TEXT_RULES: &[fn(&Path, &str) -> Vec<Violation>] =
    &[traces::machine_paths, traces::registry_hosts];

/// What a `Cargo.toml` has to hold to.
const MANIFEST_RULES: &[fn(&Path, &str) -> Vec<Violation>] =
    &[reasons::lints, manifest::inherits, manifest::versions];

/// A rule that is broken somewhere.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    path: String,
    line: usize,
    message: String,
}

impl Violation {
    fn new(path: &Path, line: usize, wrong: &str, fix: &str) -> Self {
        Self {
            path: path.display().to_string(),
            line,
            message: format!("{wrong}; {fix}"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Checks every file that git tracks or would track. `false` when a rule is broken.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let list = &[
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    let listed = command::output(root, "git", list)?;
    // The index still lists a file that was deleted and not staged.
    let files: Vec<&Path> = listed
        .split_terminator('\0')
        .map(Path::new)
        .filter(|path| root.join(path).is_file())
        .collect();

    let mut violations = folders::top_level(&files);
    violations.extend(depends::trees(root)?);
    for path in &files {
        // A file that is no UTF-8 is no text.
        if let Ok(text) = String::from_utf8(fs::read(root.join(path))?) {
            violations.extend(check(path, &text));
        }
    }

    violations.sort();
    for violation in &violations {
        println!("{violation}");
    }
    println!(
        "tidy: {} files, {} violations",
        files.len(),
        violations.len()
    );
    Ok(violations.is_empty())
}

fn check(path: &Path, text: &str) -> Vec<Violation> {
    if path.ends_with("Cargo.lock") {
        return depends::one_sqlite(path, text);
    }
    let mut violations: Vec<_> = TEXT_RULES
        .iter()
        .flat_map(|rule| rule(path, text))
        .collect();
    if path.ends_with("Cargo.toml") {
        violations.extend(MANIFEST_RULES.iter().flat_map(|rule| rule(path, text)));
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        let source = Source::new(path, text);
        violations.extend(RUST_RULES.iter().flat_map(|rule| rule(&source)));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_says_where_what_and_what_to_do() {
        let violation = Violation::new(Path::new("a/b.rs"), 7, "there is an x", "write a y");
        assert_eq!(violation.to_string(), "a/b.rs:7: there is an x; write a y");
    }

    #[test]
    fn a_file_meets_the_rules_of_its_kind() {
        let lines = |path: &str, text: &str| check(Path::new(path), text).len();
        assert_eq!(lines("core/src/a.rs", "fn main() {}\n"), 1);
        assert_eq!(lines("core/Cargo.toml", "[package]\n"), 3);
        assert_eq!(lines("README.md", "fn main() {}\n"), 0);
    }
}
