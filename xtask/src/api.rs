//! The public API: each library's surface is listed in a file beside it, so that a change shows in
//! a diff.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use public_api::Builder;

use crate::{Result, command};

/// The libraries whose surface is kept. Each is listed with all its features.
pub(crate) const CRATES: [&str; 4] = [
    "outbox-core",
    "outbox-macros",
    "outbox-sqlite",
    "outbox-postgres",
];

/// What reads the surface: the stable rustdoc does not write JSON.
const TOOLCHAIN: &str = "nightly";

/// What `cargo xtask public-api` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Write the listings that the code has.
    #[arg(long)]
    write: bool,
    /// Install the nightly toolchain where it is missing.
    #[arg(long)]
    install: bool,
}

/// Compares each listing with the code, or writes it. `false` when one is not what the code has.
pub(crate) fn run(options: &Options, root: &Path) -> Result<bool> {
    prepare(options.install, root)?;
    let mut changed = Vec::new();
    for name in CRATES {
        let listed = surface(name, root)?;
        let path = format!("{name}/public-api.txt");
        if options.write {
            fs::write(root.join(&path), listed)?;
            continue;
        }
        let kept = match fs::read_to_string(root.join(&path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            kept => kept?,
        };
        if kept != listed {
            println!("{path}:");
            print!("{}", changes(&kept, &listed));
            changed.push(path);
        }
    }
    if !changed.is_empty() {
        println!(
            "not what the code has: {}; where the changes are meant, run \
             `cargo xtask public-api --write`",
            changed.join(", ")
        );
    }
    Ok(changed.is_empty())
}

/// Sees to it that the toolchain is there, or says how to install it.
fn prepare(install: bool, root: &Path) -> Result<()> {
    let ask = ["run", TOOLCHAIN, "rustdoc", "--version"];
    if command::output(root, "rustup", &ask).is_ok() {
        return Ok(());
    }
    let get = ["toolchain", "install", TOOLCHAIN, "--profile", "minimal"];
    if !install {
        let get = get.join(" ");
        return Err(format!("the listing needs rustdoc's JSON: run `rustup {get}`").into());
    }
    println!("    rustup {}", get.join(" "));
    command::output(root, "rustup", &get)?;
    Ok(())
}

/// The surface of a library, an item a line. What is hidden in the documentation is left out, and
/// so is what every type has.
fn surface(name: &str, root: &Path) -> Result<String> {
    let built = env::current_exe()?;
    let target = built.ancestors().nth(2).ok_or("no target folder")?;
    // Of another compiler: what the stable one built is not overwritten.
    let target = target.join("public-api");
    let mut rustdoc = Command::new("rustup");
    rustdoc.args(["run", TOOLCHAIN, "cargo", "rustdoc", "--locked", "--lib"]);
    rustdoc.args(["--all-features", "--package", name, "--target-dir"]);
    rustdoc.arg(&target);
    rustdoc.args(["--", "-Zunstable-options", "--output-format", "json"]);
    if !command::passes(rustdoc.current_dir(root))? {
        return Err(format!("the documentation of {name} could not be built").into());
    }
    let json = target.join("doc").join(name.replace('-', "_") + ".json");
    let builder = Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true);
    let surface = builder.build().map_err(|error| {
        format!(
            "{error}; if this {TOOLCHAIN} writes JSON of another version than the library \
             `public-api` reads, update the one or the other"
        )
    })?;
    let lines = surface.items().map(|item| format!("{item}\n"));
    Ok(lines.collect())
}

/// What is in one listing alone, a line each, as a diff shows it.
fn changes(kept: &str, listed: &str) -> String {
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (kept.lines().collect(), listed.lines().collect());
    let removed = old.difference(&new).map(|line| format!("- {line}\n"));
    let added = new.difference(&old).map(|line| format!("+ {line}\n"));
    removed.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_and_what_came_are_shown_and_what_stayed_is_not() {
        let kept = "pub fn a()\npub fn b()\n";
        let listed = "pub fn b()\npub fn c()\n";
        assert_eq!(changes(kept, listed), "- pub fn a()\n+ pub fn c()\n");
        assert_eq!(changes(kept, kept), "");
    }
}
