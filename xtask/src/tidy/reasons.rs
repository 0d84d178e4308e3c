//! A lint that is switched off has its reason beside it.

use std::path::Path;

use super::Violation;
use super::source::{Line, Source, has_word};

/// `#[allow(..)]` and `#[expect(..)]`: a `reason`, or a comment on the line or the line above.
pub(super) fn attributes(source: &Source) -> Vec<Violation> {
    let broken = |line: &&Line| {
        let noted = line.has_note() || source.above(line).is_some_and(Line::has_note);
        let attribute = attribute(&source.lines[line.number - 1..]).unwrap_or_default();
        let has = |word: &str| has_word(&attribute, word);
        (has("allow(") || has("expect(")) && !has("reason") && !noted
    };
    let fix = "add `reason = \"..\"`, or a comment on the line or the line above";
    source.refuse(broken, "a lint is switched off without a reason", fix)
}

/// The attribute that the first of these lines begins, whole.
fn attribute(lines: &[Line]) -> Option<String> {
    let first = lines.first()?.code.trim_start();
    if !first.starts_with("#[") && !first.starts_with("#![") {
        return None;
    }
    let mut depth = 0_usize;
    let mut attribute = String::new();
    for c in lines.iter().flat_map(|line| line.code.chars()) {
        attribute.push(c);
        match c {
            '[' => depth += 1,
            ']' if depth == 1 => break,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Some(attribute)
}

/// `lint = "allow"` and `level = "allow"` in a manifest: a comment on the line or the line above.
pub(super) fn lints(path: &Path, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut above = "";
    for (index, line) in text.lines().enumerate() {
        let noted = line.contains('#') || above.trim_start().starts_with('#');
        if line.contains("= \"allow\"") && !noted {
            let fix = "add a comment on the line or the line above";
            let wrong = "a lint is switched off without a reason";
            violations.push(Violation::new(path, index + 1, wrong, fix));
        }
        above = line;
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &str) -> bool {
        !attributes(&Source::new(Path::new("src/a.rs"), text)).is_empty()
    }

    #[test]
    fn an_attribute_has_its_reason() {
        assert!(broken("#[allow(dead_code)]\nfn a() {}\n"));
        assert!(broken("#![expect(dead_code)]\n"));
        assert!(broken("#[cfg_attr(test, allow(dead_code))]\n"));
        assert!(broken("/// Documentation.\n#[allow(dead_code)]\n"));
        assert!(!broken("#[allow(dead_code)] // one feature uses it\n"));
        assert!(!broken("// One feature uses it.\n#[allow(dead_code)]\n"));
        assert!(!broken(
            "#[allow(\n    dead_code,\n    reason = \"x\"\n)]\n"
        ));
        assert!(!broken("#[test] fn a() { b.expect(\"c\") }\n"));
    }

    #[test]
    fn a_lint_of_a_manifest_has_its_reason() {
        let broken = |text: &str| !lints(Path::new("Cargo.toml"), text).is_empty();
        assert!(broken("[lints.clippy]\npanic = \"allow\"\n"));
        assert!(broken("panic = { level = \"allow\", priority = 1 }\n"));
        assert!(!broken("# A test may.\npanic = \"allow\"\n"));
        assert!(!broken("panic = \"allow\" # a test may\n"));
    }
}
