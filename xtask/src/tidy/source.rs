//! A Rust file as the rules see it: each line parted into code and comment, tests marked.
//!
//! This is no parser. It knows strings, comments and the braces between them, and no more.

use std::path::Path;

use super::Violation;

#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) lines: Vec<Line>,
}

#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) number: usize,
    /// The line without its comment; what is inside a string is made of `"`.
    pub(super) code: String,
    /// From its `//` on; empty when there is none.
    pub(super) comment: String,
    /// Inside an item that is `#[cfg(test)]`.
    pub(super) test: bool,
}

impl Line {
    pub(super) fn is_code(&self) -> bool {
        !self.code.trim().is_empty()
    }

    pub(super) fn is_doc(&self) -> bool {
        let outer = self.comment.starts_with("///") && !self.comment.starts_with("////");
        !self.is_code() && (outer || self.comment.starts_with("//!"))
    }

    /// A comment that is not documentation and says something.
    pub(super) fn has_note(&self) -> bool {
        !self.is_doc() && self.comment.chars().any(char::is_alphabetic)
    }

    /// Whether the code has `word`, not as a part of a longer name.
    pub(super) fn has(&self, word: &str) -> bool {
        has_word(&self.code, word)
    }
}

impl<'a> Source<'a> {
    pub(super) fn new(path: &'a Path, text: &str) -> Self {
        let mut state = State::Code;
        let mut lines: Vec<Line> = text.lines().map(|raw| state.part(raw)).collect();
        for (index, line) in lines.iter_mut().enumerate() {
            line.number = index + 1;
        }
        mark_tests(&mut lines);
        Self { path, lines }
    }

    /// A case of the compile-fail tests.
    pub(super) fn is_ui_case(&self) -> bool {
        self.path.to_string_lossy().contains("tests/ui/")
    }

    /// Whether a folder of the path, or the file, has this name.
    pub(super) fn is_under(&self, name: &str) -> bool {
        self.path.iter().any(|part| part == name)
    }

    /// Whether this line is test code: of a test item, or of a file that is all tests.
    pub(super) fn is_test(&self, line: &Line) -> bool {
        let files = ["tests", "tests.rs", "conformance", "conformance.rs"];
        line.test || files.iter().any(|name| self.is_under(name))
    }

    pub(super) fn above(&self, line: &Line) -> Option<&Line> {
        self.lines.get(line.number.checked_sub(2)?)
    }

    /// A violation for each line that is broken.
    pub(super) fn refuse(
        &self,
        broken: impl Fn(&&Line) -> bool,
        wrong: &str,
        fix: &str,
    ) -> Vec<Violation> {
        let lines = self.lines.iter().filter(broken);
        let violation = |line: &Line| Violation::new(self.path, line.number, wrong, fix);
        lines.map(violation).collect()
    }
}

/// Whether `text` has `word`, not as a part of a longer name.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let name = |c: char| c.is_alphanumeric() || c == '_';
    let joins = |a: Option<char>, b: Option<char>| a.is_some_and(name) && b.is_some_and(name);
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !joins(before.chars().next_back(), word.chars().next())
            && !joins(word.chars().next_back(), after.chars().next())
    })
}

/// Where the end of a line leaves the next one.
enum State {
    Code,
    /// Inside this many block comments.
    Comment(usize),
    /// Inside a string that ends with this.
    Text {
        end: String,
        escapes: bool,
    },
}

impl State {
    fn part(&mut self, raw: &str) -> Line {
        let mut line = Line::default();
        let mut rest = raw;
        while !rest.is_empty() {
            let taken = match self {
                State::Code => self.code(rest, &mut line),
                State::Comment(depth) => {
                    let (open, close) = (rest.starts_with("/*"), rest.starts_with("*/"));
                    *depth = *depth + usize::from(open) - usize::from(close);
                    if *depth == 0 {
                        *self = State::Code;
                    }
                    if open || close { 2 } else { first(rest) }
                }
                State::Text { end, escapes } => {
                    line.code.push('"');
                    if *escapes && rest.starts_with('\\') {
                        1 + first(&rest[1..])
                    } else if rest.starts_with(end.as_str()) {
                        let length = end.len();
                        *self = State::Code;
                        length
                    } else {
                        first(rest)
                    }
                }
            };
            rest = &rest[taken..];
        }
        line
    }

    /// Takes the next piece of code, and returns its length.
    fn code(&mut self, rest: &str, line: &mut Line) -> usize {
        if rest.starts_with("//") {
            rest.clone_into(&mut line.comment);
            return rest.len();
        }
        if rest.starts_with("/*") {
            *self = State::Comment(1);
            return 2;
        }
        if let Some(length) = character(rest) {
            line.code.push_str("\"\"");
            return length;
        }
        if let Some((opening, end)) = opening(rest) {
            line.code.push('"');
            let escapes = opening == 1;
            *self = State::Text { end, escapes };
            return opening;
        }
        line.code.extend(rest.chars().next());
        first(rest)
    }
}

/// The length of the first character.
fn first(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

/// The length of the quote that `rest` starts with, raw or not, and what ends that string.
fn opening(rest: &str) -> Option<(usize, String)> {
    if rest.starts_with('"') {
        return Some((1, "\"".to_owned()));
    }
    let raw = rest.strip_prefix('r')?;
    let hashes = raw.len() - raw.trim_start_matches('#').len();
    let end = format!("\"{}", "#".repeat(hashes));
    raw[hashes..]
        .starts_with('"')
        .then_some((1 + hashes + 1, end))
}

/// The length of the character literal that `rest` starts with. A lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    if inner.starts_with('\\') {
        return inner.get(2..)?.find('\'').map(|end| 1 + 2 + end + 1);
    }
    let length = first(inner);
    inner.get(length..)?.starts_with('\'').then_some(length + 2)
}

/// Marks each `#[cfg(test)]` item, from its attribute to its closing brace or semicolon.
fn mark_tests(lines: &mut [Line]) {
    let mut open: Option<Item> = None;
    for line in lines {
        if line.code.contains("#[cfg(test)]") || line.code.contains("#[cfg(all(test") {
            open.get_or_insert_default();
        }
        let Some(item) = &mut open else { continue };
        line.test = true;
        if item.ends_with(&line.code) {
            open = None;
        }
    }
}

/// How far an item has been read.
#[derive(Default)]
struct Item {
    depth: usize,
    has_body: bool,
}

impl Item {
    fn ends_with(&mut self, code: &str) -> bool {
        for brace in code.chars() {
            match brace {
                '{' => self.depth += 1,
                '}' => self.depth = self.depth.saturating_sub(1),
                _ => continue,
            }
            self.has_body = true;
        }
        self.depth == 0 && (self.has_body || code.trim_end().ends_with(';'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Line> {
        Source::new(Path::new("src/a.rs"), text).lines
    }

    fn codes(text: &str) -> Vec<String> {
        read(text).into_iter().map(|line| line.code).collect()
    }

    #[test]
    fn what_is_inside_a_string_is_no_code() {
        let bare = |text: &str| codes(text).join("|").replace('"', "");
        assert_eq!(bare(r#"f("a // \" unsafe", 1) // b"#), "f(, 1) ");
        assert_eq!(bare("let a = \"x {\n  y\";\nz"), "let a = |;|z");
        assert_eq!(
            bare("r#\"a\"b\"#; 'x'; '\"'; '\\''; &'a str"),
            "; ; ; ; &'a str"
        );
        assert_eq!(bare(r#"r"\"; x"#), "; x");
        assert!(read("f(\"\n  y\n\")").iter().all(Line::is_code));
    }

    #[test]
    fn what_is_inside_a_comment_is_no_code() {
        assert_eq!(codes("a /* b /* c */ \n d */ e"), ["a ", " e"]);
        let lines = read("x(); // why\n/// doc\n//! doc\n//// no doc\n");
        assert_eq!(lines[0].comment, "// why");
        assert!(lines[0].has_note() && !lines[0].is_doc());
        assert!(lines[1].is_doc() && !lines[1].has_note());
        assert!(lines[2].is_doc());
        assert!(!lines[3].is_doc());
    }

    #[test]
    fn a_test_item_ends_where_it_closes() {
        let marked =
            |text: &str| -> Vec<bool> { read(text).iter().map(|line| line.test).collect() };
        assert_eq!(
            marked(
                "fn a() {}\n#[cfg(test)]\n#[rustfmt::skip]\nmod tests {\n  '}'; \"}\"; {}\n}\nfn b() {}"
            ),
            [false, true, true, true, true, true, false],
        );
        assert_eq!(
            marked("#[cfg(test)]\nmod tests;\nfn b() {}"),
            [true, true, false]
        );
    }

    #[test]
    fn a_word_is_no_part_of_a_longer_name() {
        assert!(has_word("a unsafe {", "unsafe"));
        assert!(!has_word("forbid(unsafe_code)", "unsafe"));
        assert!(has_word("x.unwrap()", ".unwrap()"));
        assert!(!has_word("my_todo!()", "todo!"));
    }
}
