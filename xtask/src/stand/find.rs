//! Installed binaries: the first of some folders that has all of them.

use std::path::{Path, PathBuf};

pub(super) fn folder_with(
    programs: &[&str],
    candidates: impl IntoIterator<Item = PathBuf>,
) -> Option<PathBuf> {
    // They are run from another folder.
    let mut absolute = candidates.into_iter().filter(|folder| folder.is_absolute());
    let has_all = |folder: &PathBuf| programs.iter().all(|name| folder.join(name).is_file());
    absolute.find(has_all)
}

/// The `bin` below each folder that is named after a version, the newest first.
pub(super) fn versions(parent: &Path) -> Vec<PathBuf> {
    let entries = parent.read_dir().into_iter().flatten().flatten();
    let mut folders: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    folders.sort();
    folders.into_iter().rev().map(|(_, bin)| bin).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_first_folder_that_has_every_program_is_taken() {
        let root = tempfile::tempdir().unwrap();
        let folder = |name: &str, programs: &[&str]| {
            let folder = root.path().join(name);
            fs::create_dir(&folder).unwrap();
            for program in programs {
                fs::write(folder.join(program), "").unwrap();
            }
            folder
        };
        let absent = root.path().join("absent");
        let client = folder("client", &["pg_ctl"]);
        let (whole, other) = (
            folder("whole", &["pg_ctl", "initdb"]),
            folder("other", &["pg_ctl", "initdb"]),
        );
        let find = |folders: &[&PathBuf]| {
            folder_with(&["initdb", "pg_ctl"], folders.iter().copied().cloned())
        };
        assert_eq!(find(&[&absent, &client, &whole, &other]), Some(whole));
        assert_eq!(find(&[&absent, &client]), None);
    }

    #[test]
    fn versions_are_numbers_and_the_newest_comes_first() {
        let root = tempfile::tempdir().unwrap();
        for version in ["9", "15", "16", "common"] {
            fs::create_dir(root.path().join(version)).unwrap();
        }
        let expected = ["16/bin", "15/bin", "9/bin"].map(|bin| root.path().join(bin));
        assert_eq!(versions(root.path()), expected);
        assert!(versions(&root.path().join("absent")).is_empty());
    }
}
