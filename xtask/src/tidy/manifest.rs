//! Members inherit from the workspace: lints, licence, publication and every version.

use std::path::Path;

use super::Violation;

/// The table, and the line that a member writes in it.
const INHERITED: &[(&str, &str)] = &[
    ("lints", "workspace = true"),
    ("package", "publish.workspace = true"),
    ("package", "license.workspace = true"),
];

pub(super) fn inherits(path: &Path, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (table, key) in INHERITED {
        let says = |entry: Entry| entry.table == *table && entry.text == *key;
        if !is_root(path) && !entries(text).any(says) {
            let wrong = "a setting of the workspace is not inherited";
            let fix = format!("write `{key}` in `[{table}]`");
            violations.push(Violation::new(path, 1, wrong, &fix));
        }
    }
    violations
}

pub(super) fn versions(path: &Path, text: &str) -> Vec<Violation> {
    let literal = entries(text).filter(|entry| !is_root(path) && entry.is_literal_version());
    let wrong = "a dependency with a version of its own";
    let fix = "name the version in the root's `[workspace.dependencies]`, and inherit it";
    let violation = |entry: Entry| Violation::new(path, entry.line, wrong, fix);
    literal.map(violation).collect()
}

/// The root's manifest names the versions.
fn is_root(path: &Path) -> bool {
    path == Path::new("Cargo.toml")
}

/// A line of a manifest, and the table that it stands in.
struct Entry<'a> {
    table: &'a str,
    line: usize,
    /// Without its comment.
    text: &'a str,
}

impl Entry<'_> {
    fn is_literal_version(&self) -> bool {
        let Some((key, value)) = self.text.split_once('=') else {
            return false;
        };
        let literal = value.trim_start().starts_with('"');
        if self.table.contains("dependencies.") {
            // `[dependencies.name]`
            return literal && key.trim() == "version";
        }
        // `[dependencies]`, `[dev-dependencies]`, `[target.'..'.dependencies]`
        let inside = || value.replace(' ', "").contains("version=\"");
        self.table.ends_with("dependencies") && (literal || inside())
    }
}

fn entries(text: &str) -> impl Iterator<Item = Entry<'_>> {
    let mut table = "";
    text.lines().enumerate().map(move |(index, line)| {
        let text = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = text
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
        {
            table = name;
        }
        Entry {
            table,
            line: index + 1,
            text,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(rule: fn(&Path, &str) -> Vec<Violation>, text: &str) -> usize {
        rule(Path::new("outbox-core/Cargo.toml"), text).len()
    }

    #[test]
    fn a_member_inherits_the_settings() {
        let package = "[package]\npublish.workspace = true\nlicense.workspace = true\n";
        let lints = "[lints]\nworkspace = true\n";
        assert_eq!(broken(inherits, &format!("{package}{lints}")), 0);
        assert_eq!(broken(inherits, package), 1);
        assert_eq!(
            broken(inherits, &format!("[package]\npublish = false\n{lints}")),
            2
        );
        assert_eq!(inherits(Path::new("Cargo.toml"), "[workspace]\n"), []);
    }

    #[test]
    fn a_member_inherits_every_version() {
        for inherited in [
            "[dependencies]\na.workspace = true\nb = { workspace = true, features = [\"x\"] }\n",
            "[dependencies]\n# a = \"1\"\n[dependencies.c]\nworkspace = true\n",
            "[package]\nversion = \"1\"\n[features]\na = \"1\"\n",
        ] {
            assert_eq!(broken(versions, inherited), 0, "{inherited}");
        }
        for literal in [
            "[dependencies]\na = \"1\"\n",
            "[dev-dependencies]\na = { version = \"1\", features = [] }\n",
            "[target.'cfg(unix)'.dependencies]\na = \"1\" # why\n",
            "[build-dependencies.a]\nversion = \"1\"\n",
        ] {
            assert_eq!(broken(versions, literal), 1, "{literal}");
        }
    }
}
