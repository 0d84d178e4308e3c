//! The top-level folders are the crates.

use std::collections::BTreeSet;
use std::path::Path;

use super::Violation;

const CRATES: &[&str] = &[
    "outbox-core",
    "outbox-macros",
    "outbox-sqlite",
    "outbox-postgres",
    "broker-tests",
    "bench",
    "examples",
    "xtask",
];

/// May be there. Folders that begin with a dot may be there too.
const OTHERS: &[&str] = &["docs", "target"];

pub(super) fn top_level(files: &[&Path]) -> Vec<Violation> {
    let in_folder = files.iter().filter(|path| path.components().count() > 1);
    let found: BTreeSet<&str> = in_folder
        .filter_map(|path| path.iter().next()?.to_str())
        .collect();
    let mut violations = Vec::new();
    for name in &found {
        if !CRATES.contains(name) && !OTHERS.contains(name) && !name.starts_with('.') {
            let wrong = "a top-level folder that is no crate";
            let fix = "move it into the crate that it belongs to, or to `docs`";
            violations.push(Violation::new(Path::new(name), 1, wrong, fix));
        }
    }
    for name in CRATES.iter().filter(|name| !found.contains(*name)) {
        let wrong = "the crate's folder is missing";
        violations.push(Violation::new(Path::new(name), 1, wrong, "restore it"));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(files: &[&str]) -> usize {
        let files: Vec<&Path> = files.iter().map(Path::new).collect();
        top_level(&files).len()
    }

    #[test]
    fn folders_are_the_crates_and_little_else() {
        let crates: Vec<String> = CRATES.iter().map(|name| format!("{name}/a")).collect();
        let mut files: Vec<&str> = crates.iter().map(String::as_str).collect();
        files.extend(["Cargo.toml", ".ci/run", "docs/switch.md"]);
        assert_eq!(broken(&files), 0);
        files.extend(["scripts/a.sh", "scripts/b.sh"]);
        assert_eq!(broken(&files), 1);
    }

    #[test]
    fn a_missing_crate_is_told() {
        assert_eq!(broken(&["examples/a/Cargo.toml"]), CRATES.len() - 1);
    }
}
