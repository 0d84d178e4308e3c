//! Who may use whom: crates by `cargo tree`, drivers and examples by their text.

use std::collections::BTreeSet;
use std::path::Path;

use super::Violation;
use super::source::{Line, Source};
use crate::{Result, command};

/// A crate, its features, and what is absent from everything that it then builds on. A `*` ends a
/// name's beginning.
const ABSENT: &[(&str, &str, &[&str])] = &[
    ("outbox-core", ALL, DATABASES),
    ("outbox-macros", ALL, &["outbox-*"]),
    ("outbox-sqlite", ALL, &["outbox-postgres"]),
    ("outbox-sqlite", ALL, BROKERS),
    ("outbox-sqlite", NONE, DATABASES),
    ("outbox-sqlite", "--features=rusqlite", &["sqlx*"]),
    (
        "outbox-sqlite",
        "--features=sqlx",
        &["deadpool*", "rusqlite"],
    ),
    ("outbox-postgres", ALL, &["outbox-sqlite"]),
    ("outbox-postgres", ALL, BROKERS),
    ("outbox-postgres", NONE, DATABASES),
    ("outbox-postgres", "--features=tokio-postgres", &["sqlx*"]),
    (
        "outbox-postgres",
        "--features=sqlx",
        &["deadpool*", "tokio-postgres"],
    ),
];

const ALL: &str = "--all-features";
const NONE: &str = "--features=";
const BROKERS: &[&str] = &[
    "ruststream-fred",
    "ruststream-memory",
    "ruststream-nats",
    "ruststream-sqlx*",
];
const DATABASES: &[&str] = &[
    "deadpool*",
    "libsqlite3-sys",
    "rusqlite",
    "sqlx*",
    "tokio-postgres",
];

/// Asks cargo for what each crate builds on, without its tests.
pub(super) fn trees(root: &Path) -> Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for (name, features, absent) in ABSENT {
        let mut args = vec!["tree", "--locked", "--edges", "normal", "--prefix", "none"];
        args.extend(["--no-default-features", features, "--package", name]);
        let tree = command::output(root, command::cargo(), &args)?;
        violations.extend(intruders(name, features, absent, &tree));
    }
    Ok(violations)
}

fn intruders(name: &str, features: &str, absent: &[&str], tree: &str) -> Vec<Violation> {
    let is_absent = |found: &&str| {
        absent.iter().any(|name| match name.strip_suffix('*') {
            Some(beginning) => found.starts_with(beginning),
            None => found == name,
        })
    };
    // The first line is the crate itself.
    let found = tree
        .lines()
        .skip(1)
        .filter_map(|line| line.split(' ').next());
    let found: BTreeSet<&str> = found.filter(is_absent).collect();
    let manifest = Path::new(name).join("Cargo.toml");
    let way = format!("cargo tree --no-default-features {features} -e normal -p {name} -i");
    let violation = |found| {
        let wrong = format!("with `{features}`, it builds on `{found}`");
        let fix = format!("cut the way that `{way} {found}` shows");
        Violation::new(&manifest, 1, &wrong, &fix)
    };
    found.into_iter().map(violation).collect()
}

/// `links = "sqlite3"` may occur once in a build.
pub(super) fn one_sqlite(path: &Path, lock: &str) -> Vec<Violation> {
    let lines = lock.lines().zip(1..);
    let mut found = lines.filter(|(line, _)| *line == "name = \"libsqlite3-sys\"");
    let wrong = "`libsqlite3-sys` occurs more than once";
    let fix = "choose versions that resolve to one, in the root's `[workspace.dependencies]`";
    let violation = |(_, number)| Violation::new(path, number, wrong, fix);
    found.nth(1).map(violation).into_iter().collect()
}

/// A file of `driver/` does not name another driver.
pub(super) fn drivers_apart(source: &Source) -> Vec<Violation> {
    const DRIVERS: &[&str] = &["sqlx", "rusqlite", "tokio_postgres"];
    let in_driver = source
        .path
        .parent()
        .is_some_and(|folder| folder.ends_with("src/driver"));
    let own = source.path.file_stem().unwrap_or_default();
    if !in_driver || !DRIVERS.iter().any(|driver| own == *driver) {
        return Vec::new();
    }
    let others = DRIVERS.iter().filter(|driver| own != **driver);
    let fix = "move what both need to `sql.rs`, `error.rs` or core";
    others
        .flat_map(|other| {
            let wrong = format!("a driver names another one, `{other}`");
            source.refuse(|line| line.has(other), &wrong, fix)
        })
        .collect()
}

/// An example uses what a user may use.
pub(super) fn public_api_only(source: &Source) -> Vec<Violation> {
    let broken = |line: &&Line| line.has("::private") && source.path.starts_with("examples");
    let fix = "use the public API, or add to it what is missing";
    source.refuse(broken, "an example names `private`", fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(rule: fn(&Source) -> Vec<Violation>, path: &str, text: &str) -> bool {
        !rule(&Source::new(Path::new(path), text)).is_empty()
    }

    #[test]
    fn an_intruder_is_found_once_and_by_its_beginning() {
        let tree = "outbox-core v0.1.0\nsqlx-core v0.9.0\nsqlx-core v0.9.0 (*)\nserde v1.0.0\n";
        let found = intruders("outbox-core", ALL, &["sqlx*", "serde_json"], tree);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].message.contains("it builds on `sqlx-core`; cut"),
            "{}",
            found[0]
        );
    }

    #[test]
    fn a_crate_is_no_intruder_in_its_own_tree() {
        let tree = "outbox-macros v0.1.0\nsyn v2.0.0\n";
        assert_eq!(intruders("outbox-macros", ALL, &["outbox-*"], tree), []);
    }

    #[test]
    fn sqlite_is_linked_once() {
        let path = Path::new("Cargo.lock");
        let lock = "[[package]]\nname = \"libsqlite3-sys\"\n";
        assert_eq!(one_sqlite(path, lock), []);
        assert_eq!(one_sqlite(path, &lock.repeat(2))[0].line, 4);
    }

    #[test]
    fn a_driver_names_itself_alone() {
        let broken = |file: &str, text: &str| {
            broken(
                drivers_apart,
                &format!("outbox-sqlite/src/driver/{file}"),
                text,
            )
        };
        assert!(!broken(
            "rusqlite.rs",
            "use rusqlite::Connection; // unlike sqlx"
        ));
        assert!(broken("rusqlite.rs", "use super::sqlx::Sqlite;"));
        assert!(!broken("mod.rs", "mod sqlx;\nmod rusqlite;"));
    }

    #[test]
    fn an_example_uses_the_public_api() {
        let broken = |path: &str, text: &str| broken(public_api_only, path, text);
        let text = "outbox_sqlite::outbox::private::insert();";
        assert!(broken("examples/payments/src/main.rs", text));
        assert!(!broken("outbox-macros/src/expand.rs", text));
        assert!(!broken(
            "examples/payments/src/main.rs",
            "mod private_notes;"
        ));
    }
}
