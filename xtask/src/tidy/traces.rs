//! No trace of the machine that a file was written on.

use std::path::Path;

use super::Violation;

/// Folders of one machine. In pieces, so that this file does not name them.
const FOLDERS: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/wo", "rk/"),
];

/// Every machine has it; a path of one machine is what is in it.
const TEMPORARY: &str = concat!("/t", "mp/");

/// Where the registries and mirrors are. A build asks the ones that it is configured with.
const HOSTS: &[&str] = &[
    concat!("static.", "crates.io"),
    concat!("index.", "crates.io"),
    concat!("pypi", ".org"),
    concat!("registry.", "npmjs.org"),
    concat!("deb.", "debian.org"),
];

pub(super) fn machine_paths(path: &Path, text: &str) -> Vec<Violation> {
    let broken = |line: &str| {
        let in_temporary = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric());
        FOLDERS
            .iter()
            .any(|folder| below(line, folder).next().is_some())
            || below(line, TEMPORARY).any(in_temporary)
    };
    let fix = "name it from the workspace's root, or take it from the environment";
    refuse(path, text, broken, "a path of one machine", fix)
}

pub(super) fn registry_hosts(path: &Path, text: &str) -> Vec<Violation> {
    let broken = |line: &str| HOSTS.iter().any(|host| line.contains(host));
    let fix = "name the registry, such as crates.io, not its host";
    refuse(path, text, broken, "a registry's host name", fix)
}

fn refuse(
    path: &Path,
    text: &str,
    broken: impl Fn(&str) -> bool,
    wrong: &str,
    fix: &str,
) -> Vec<Violation> {
    let lines = text.lines().zip(1..).filter(|(line, _)| broken(line));
    let violation = |(_, number)| Violation::new(path, number, wrong, fix);
    lines.map(violation).collect()
}

/// What follows each absolute path in `line` that begins with `folder`.
fn below<'a>(line: &'a str, folder: &'a str) -> impl Iterator<Item = &'a str> {
    let inside = |c: char| c.is_alphanumeric() || "_-./}".contains(c);
    line.match_indices(folder)
        .filter(move |(at, _)| !line[..*at].ends_with(inside))
        .map(move |(at, _)| &line[at + folder.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_names_a_path_of_one_machine() {
        let broken = |text: &str| !machine_paths(Path::new("README.md"), text).is_empty();
        for folder in FOLDERS.iter().chain(&[TEMPORARY]) {
            assert!(broken(&format!("cd {folder}me\n")));
            assert!(!broken(&format!("cd docs{folder}me\n")));
            assert!(!broken(&format!("https://example.com{folder}me\n")));
        }
        assert!(broken(&format!("cd `{}`\n", FOLDERS[0])));
        assert!(!broken(&format!("a folder below `{TEMPORARY}`\n")));
    }

    #[test]
    fn a_registry_is_named_without_its_host() {
        let broken = |text: &str| !registry_hosts(Path::new("README.md"), text).is_empty();
        for host in HOSTS {
            assert!(broken(&format!("https://{host}/x\n")));
        }
        assert!(!broken("it is on crates.io and docs.rs\n"));
    }
}
