//! The shape of a Rust file: its first line, its documentation's weight, its size.

use super::Violation;
use super::source::{Line, Source};

/// The most lines of code that a file may have, tests apart.
const MOST_LINES: usize = 400;

/// A `lib.rs` whose code has none of these words only declares modules and re-exports.
const ITEMS: [&str; 9] = [
    "fn",
    "struct",
    "enum",
    "trait",
    "impl",
    "type",
    "const",
    "static",
    "macro_rules",
];

/// The first line of a file says what its one idea is; that of a crate may include its README.
pub(super) fn first_line(source: &Source) -> Vec<Violation> {
    let said = source.lines.first().is_some_and(|line| {
        let idea = line.comment.strip_prefix("//!").unwrap_or_default();
        !idea.trim().is_empty() || line.code.starts_with("#![doc = include_str!(")
    });
    if said || source.is_ui_case() || source.is_under("build.rs") {
        return Vec::new();
    }
    let wrong = "the first line does not say what the file is";
    let fix = "begin the file with `//! ` and its one idea";
    vec![Violation::new(source.path, 1, wrong, fix)]
}

/// In a file, code outweighs docs.
pub(super) fn code_outweighs_docs(source: &Source) -> Vec<Violation> {
    let docs = source.lines.iter().filter(|line| line.is_doc()).count();
    let code = source.lines.iter().filter(|line| line.is_code()).count();
    let only_reexports = source.is_under("lib.rs") && !source.lines.iter().any(begins_item);
    if docs <= code || only_reexports || source.is_ui_case() {
        return Vec::new();
    }
    let wrong = format!("{docs} lines of documentation outweigh {code} lines of code");
    let fix = "shorten it, or move it to a file of `docs/` that is included or linked";
    vec![Violation::new(source.path, 1, &wrong, fix)]
}

/// A file is one idea, and an idea has an end.
pub(super) fn size(source: &Source) -> Vec<Violation> {
    let counted = |line: &&Line| line.is_code() && !line.test && !source.is_under("tests");
    let surplus = source.lines.iter().filter(counted).nth(MOST_LINES);
    let wrong = format!("more than {MOST_LINES} lines of code");
    let fix = "split the file by its ideas";
    let violation = |line: &Line| Violation::new(source.path, line.number, &wrong, fix);
    surplus.map(violation).into_iter().collect()
}

fn begins_item(line: &Line) -> bool {
    !line.code.contains("#[") && ITEMS.iter().any(|word| line.has(word))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn broken(rule: fn(&Source) -> Vec<Violation>, path: &str, text: &str) -> bool {
        !rule(&Source::new(Path::new(path), text)).is_empty()
    }

    #[test]
    fn a_file_begins_with_its_idea() {
        let broken = |path: &str, text: &str| broken(first_line, path, text);
        assert!(!broken("src/a.rs", "//! What it is.\n"));
        assert!(broken("src/a.rs", "use a;\n//! What it is.\n"));
        assert!(broken("src/a.rs", "//!\n"));
        assert!(broken("src/a.rs", ""));
        assert!(!broken(
            "src/lib.rs",
            "#![doc = include_str!(\"../README.md\")]\n"
        ));
        assert!(!broken("core/tests/ui/two_ids.rs", "use a;\n"));
        assert!(!broken("core/build.rs", "fn main() {}\n"));
    }

    #[test]
    fn docs_weigh_at_most_as_much_as_code() {
        let broken = |text: &str| broken(code_outweighs_docs, "src/a.rs", text);
        assert!(!broken("//! a\n/// b\nfn a() {\n}\n"));
        assert!(broken("//! a\n/// b\nfn a() {}\n"));
    }

    #[test]
    fn docs_may_outweigh_the_reexports_of_a_lib() {
        let broken = |path: &str, text: &str| broken(code_outweighs_docs, path, text);
        let reexports = "//! a\n//! b\n//! c\n#![deny(unused)]\npub use a::b;\n";
        assert!(!broken("src/lib.rs", reexports));
        assert!(broken("src/a.rs", reexports));
        assert!(broken("src/lib.rs", "//! a\n//! b\npub fn a() {}\n"));
    }

    #[test]
    fn a_file_has_at_most_400_lines_of_code_and_any_tests() {
        let broken = |path: &str, text: &str| broken(size, path, text);
        let code = |lines: usize| "f();\n// why\n\n".repeat(lines);
        assert!(!broken("src/a.rs", &code(400)));
        assert!(broken("src/a.rs", &code(401)));
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", code(401));
        assert!(!broken("src/a.rs", &tests));
        assert!(!broken("core/tests/a.rs", &code(401)));
    }
}
