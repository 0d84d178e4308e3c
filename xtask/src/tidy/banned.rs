//! What no Rust file says, or not at that place.

use super::Violation;
use super::source::{Line, Source};

/// Each word, and what to do instead.
const EVERYWHERE: &[(&str, &str)] = &[
    ("unsafe", "find the safe way"),
    ("dbg!", "remove it"),
    (
        "#[ignore",
        "print `SKIPPED: <why>` and return, or delete the test",
    ),
];

/// As above; a case of the compile-fail tests never runs, so it may have them for bodies.
const UNFINISHED: &[(&str, &str)] = &[("todo!", "write it"), ("unimplemented!", "write it")];

/// On the line of a sleep, or above it: why this test cannot wait for the event itself.
const SLEEP_EXCUSE: &str = "// tidy: sleep: ";

pub(super) fn everywhere(source: &Source) -> Vec<Violation> {
    let unfinished = if source.is_ui_case() { &[] } else { UNFINISHED };
    let words = EVERYWHERE.iter().chain(unfinished);
    words
        .flat_map(|(word, fix)| source.refuse(|line| line.has(word), &format!("`{word}`"), fix))
        .collect()
}

/// Tests may unwrap: their failure is the report.
pub(super) fn unwrap(source: &Source) -> Vec<Violation> {
    let broken = |line: &&Line| line.code.contains(".unwrap()") && !source.is_test(line);
    let fix = "return the error, or `expect` with what makes it impossible";
    source.refuse(broken, "`.unwrap()` outside tests", fix)
}

/// A test that sleeps is slow on every machine, and wrong on a slow one.
pub(super) fn sleep(source: &Source) -> Vec<Violation> {
    let gives_reason = |line: &Line| {
        let reason = line.comment.strip_prefix(SLEEP_EXCUSE);
        reason.is_some_and(|reason| !reason.trim().is_empty())
    };
    let broken = |line: &&Line| {
        let sleeps = line.has("sleep(") || line.has("sleep_until(");
        let excused = gives_reason(line) || source.above(line).is_some_and(gives_reason);
        sleeps && source.is_test(line) && !excused
    };
    let fix = "wait for the event, or say why on the line: `// tidy: sleep: <reason>`";
    source.refuse(broken, "a test sleeps", fix)
}

/// What generated code needs and no reader of the documentation does lives in one file.
pub(super) fn hidden(source: &Source) -> Vec<Violation> {
    let of_private = |line: &Line| line.code.contains("pub ") && line.has("private");
    let broken = |line: &&Line| {
        let mut items = source.lines[line.number - 1..]
            .iter()
            .filter(|line| names_item(line));
        line.code.contains("doc(hidden)")
            && !source.path.ends_with("private.rs")
            && !items.next().is_some_and(of_private)
    };
    let fix = "move the item to `private.rs`, or re-export it from there";
    source.refuse(broken, "`doc(hidden)`", fix)
}

/// Whether a line has code, and more than attributes.
fn names_item(line: &Line) -> bool {
    line.is_code() && !line.code.trim_end().ends_with(']')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn broken(rule: fn(&Source) -> Vec<Violation>, path: &str, text: &str) -> bool {
        !rule(&Source::new(Path::new(path), text)).is_empty()
    }

    #[test]
    fn banned_words_are_banned_as_code_alone() {
        let broken = |text: &str| broken(everywhere, "src/a.rs", text);
        for code in [
            "unsafe { a() }",
            "dbg!(a)",
            "#[ignore = \"slow\"]",
            "todo!()",
            "unimplemented!()",
        ] {
            assert!(broken(code), "{code}");
            assert!(!broken(&format!("// {code}\nf({code:?})")), "{code}");
        }
        assert!(!broken("#![forbid(unsafe_code)]"));
    }

    #[test]
    fn a_compile_fail_case_has_bodies_that_never_run() {
        let broken = |text: &str| broken(everywhere, "core/tests/ui/a.rs", text);
        assert!(!broken("fn a() { todo!() }"));
        assert!(broken("unsafe { a() }"));
    }

    #[test]
    fn only_tests_unwrap() {
        let broken = |path: &str, text: &str| broken(unwrap, path, text);
        assert!(broken("src/a.rs", "a.unwrap();"));
        assert!(!broken("src/a.rs", "a.unwrap_or(1);\n/// a.unwrap()"));
        assert!(!broken(
            "src/a.rs",
            "#[cfg(test)]\nmod tests {\na.unwrap();\n}"
        ));
        assert!(!broken("core/src/conformance/a.rs", "a.unwrap();"));
        assert!(!broken("core/tests/a.rs", "a.unwrap();"));
    }

    #[test]
    fn a_test_sleeps_with_a_reason_only() {
        let broken = |path: &str, text: &str| broken(sleep, path, text);
        let path = "core/tests/a.rs";
        assert!(broken(path, "tokio::time::sleep(SECOND).await;"));
        assert!(broken(path, "use std::thread::sleep;\nsleep(SECOND);"));
        assert!(broken(path, "sleep(SECOND); // tidy: sleep: "));
        assert!(!broken(
            path,
            "sleep(SECOND); // tidy: sleep: it is the subject"
        ));
        assert!(!broken(
            path,
            "// tidy: sleep: it is the subject\nsleep(SECOND);"
        ));
        assert!(!broken("src/a.rs", "sleep(SECOND);"));
        assert!(broken(
            "src/a.rs",
            "#[cfg(test)]\nmod tests {\nsleep(SECOND);\n}"
        ));
    }

    #[test]
    fn hidden_items_live_in_private() {
        let broken = |path: &str, text: &str| broken(hidden, path, text);
        assert!(!broken("src/private.rs", "#[doc(hidden)]\npub fn a() {}"));
        assert!(!broken(
            "src/lib.rs",
            "#[doc(hidden)]\npub use outbox_core::private;"
        ));
        assert!(!broken(
            "src/lib.rs",
            "#[doc(hidden)]\n#[cfg(a)]\npub mod private;"
        ));
        assert!(!broken(
            "src/lib.rs",
            "#[doc(hidden)] pub use outbox_core::private;"
        ));
        assert!(broken(
            "src/a.rs",
            "#[doc(hidden)]\npub fn a() {}\nuse b::private;"
        ));
    }
}
