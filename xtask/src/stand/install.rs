//! `--install`: the distribution's package, by apt-get.

use std::path::Path;

use super::account;
use crate::{Result, command};

/// Installs the package that is called `name`, and prints how.
pub(super) fn package(name: &str) -> Result<()> {
    for words in steps(name, account::is_root()?) {
        println!("    {}", words.join(" "));
        command::output(Path::new("/"), words[0], &words[1..])?;
    }
    Ok(())
}

fn steps(name: &str, root: bool) -> [Vec<&str>; 2] {
    let sudo: &[&str] = if root { &[] } else { &["sudo", "-n"] };
    let step = |rest: &[&'static str]| {
        let mut words = sudo.to_vec();
        words.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        words.extend(rest);
        words
    };
    let mut install = step(&["install", "-y", "--no-install-recommends"]);
    install.push(name);
    [step(&["update"]), install]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_installed_by_root_or_through_sudo() {
        let commands = |root| steps("postgresql", root).map(|words| words.join(" "));
        assert_eq!(
            commands(true),
            [
                "env DEBIAN_FRONTEND=noninteractive apt-get update",
                "env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
                 postgresql",
            ]
        );
        for command in commands(false) {
            assert!(command.starts_with("sudo -n env "), "{command}");
        }
    }
}
