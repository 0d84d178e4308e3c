//! All that has to hold before a change is merged: a table of steps, each printed before it runs.

use std::path::Path;

use crate::Result;
use crate::command::{self, Cargo};

/// The steps before the matrix, which is last: it takes by far the longest.
const CHECKS: &[&[&str]] = &[
    &["fmt", "--all", "--check"],
    &[
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--locked",
        "--",
        "-D",
        "warnings",
    ],
    DOCUMENTATION,
    &["xtask", "tidy"],
];

/// A broken link in the documentation is an error.
const DOCUMENTATION: &[&str] = &[
    "doc",
    "--workspace",
    "--no-deps",
    "--all-features",
    "--locked",
];

/// The library crates, each alone with none of its features or with one, unless the test matrix
/// builds it so already.
const ALONE: &[(&str, &str)] = &[
    ("outbox-core", ""),
    ("outbox-core", "testing"),
    ("outbox-core", "crash-points"),
    ("outbox-core", "conformance"),
    ("outbox-macros", ""),
    ("outbox-sqlite", "testing"),
    ("outbox-postgres", "testing"),
];

/// What may install something, with and without its `--install`.
const INSTALLING: &[&str] = &["public-api", "test-matrix"];

/// What `cargo xtask ci` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Install what a step needs and this machine is without: a toolchain, or a server's package.
    #[arg(long)]
    install: bool,
}

/// Runs the steps up to the first that fails. `false` when one did.
pub(crate) fn run(options: &Options, root: &Path) -> Result<bool> {
    let steps = steps(options.install);
    for (step, number) in steps.iter().zip(1..) {
        println!("\n==> [{number}/{}] {step}", steps.len());
        if !command::passes(&mut step.in_root(root))? {
            println!("\nFAILED: {step}");
            for step in &steps[number..] {
                println!("not run, since a step failed: {step}");
            }
            return Ok(false);
        }
    }
    println!("\nall {} steps passed", steps.len());
    // It takes minutes to build, and it fetches the list of advisories.
    println!(
        "NOT RUN HERE: `cargo deny check` is a job of .github/workflows/ci.yml; to run it: \
         `cargo install cargo-deny --locked && cargo deny check`"
    );
    Ok(true)
}

fn steps(install: bool) -> Vec<Cargo> {
    let of = |args: Vec<&'static str>| Cargo {
        args,
        ..Cargo::default()
    };
    let mut steps: Vec<Cargo> = CHECKS.iter().map(|args| of(args.to_vec())).collect();
    for step in &mut steps {
        if step.args == DOCUMENTATION {
            step.set.push(("RUSTDOCFLAGS", "-D warnings".to_owned()));
        }
    }
    for (name, feature) in ALONE {
        let mut args = vec!["clippy", "--locked", "-p", name, "--no-default-features"];
        if !feature.is_empty() {
            args.extend(["-F", feature]);
        }
        args.extend(["--", "-D", "warnings"]);
        steps.push(of(args));
    }
    for name in INSTALLING {
        let mut args = vec!["xtask", name];
        args.extend(install.then_some("--install"));
        steps.push(of(args));
    }
    steps
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{api, matrix};

    /// The names of a manifest's features, `default` apart.
    fn features(manifest: &str) -> impl Iterator<Item = &str> {
        let rest = manifest.split_once("[features]\n");
        let table = rest.map_or("", |(_, rest)| rest);
        let lines = table.lines().take_while(|line| !line.starts_with('['));
        let names = lines.filter_map(|line| Some(line.split_once(" = [")?.0));
        names.filter(|name| *name != "default")
    }

    #[test]
    fn every_library_is_built_once_without_features_and_once_with_each_alone() {
        let root = crate::workspace_root().unwrap();
        for name in api::CRATES {
            let manifest = fs::read_to_string(root.join(name).join("Cargo.toml")).unwrap();
            for feature in features(&manifest).chain([""]) {
                let here = ALONE.iter().filter(|alone| **alone == (name, feature));
                let times = here.count() + usize::from(matrix::builds(name, feature));
                assert_eq!(times, 1, "{name} with `{feature}`");
            }
        }
    }

    #[test]
    fn only_a_run_that_may_install_tells_its_steps_to() {
        let installing = |install| {
            let steps = steps(install);
            let told = steps.iter().filter(|step| step.args.contains(&"--install"));
            told.count()
        };
        assert_eq!(installing(false), 0);
        assert_eq!(installing(true), INSTALLING.len());
    }

    #[test]
    fn a_warning_of_the_documentation_is_an_error() {
        let printed: Vec<String> = steps(false).iter().map(ToString::to_string).collect();
        let expected =
            "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --all-features --locked";
        assert!(printed.iter().any(|step| step == expected), "{printed:#?}");
    }
}
