//! Statement texts, put together at compile time.

/// A text of at most `CAPACITY` bytes that `const` code puts together: a backend builds each statement
/// of a record type once, as a constant, from the record's [`OutboxSpec`](crate::OutboxSpec).
///
/// # Examples
///
/// ```
/// use outbox_core::Text;
///
/// const COUNT: &str = {
///     const TEXT: &Text = &Text::new().push("SELECT count(*) FROM ").quoted("my \"table\"");
///     TEXT.as_str()
/// };
/// assert_eq!(COUNT, r#"SELECT count(*) FROM "my ""table""""#);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Text<const CAPACITY: usize = 4096> {
    bytes: [u8; CAPACITY],
    len: usize,
}

impl<const CAPACITY: usize> Text<CAPACITY> {
    /// An empty text.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it is of use in constants only")]
    pub const fn new() -> Self {
        Self {
            bytes: [0; CAPACITY],
            len: 0,
        }
    }

    /// The text with `more` at its end.
    ///
    /// # Panics
    ///
    /// If the text grows over its capacity. In a constant, that is a compile error.
    #[must_use]
    pub const fn push(mut self, more: &str) -> Self {
        let more = more.as_bytes();
        let mut at = 0;
        while at < more.len() {
            self.put(more[at]);
            at += 1;
        }
        self
    }

    /// The text with `number` at its end, in decimal.
    ///
    /// # Panics
    ///
    /// As [`push`](Self::push).
    #[must_use]
    pub const fn number(mut self, number: usize) -> Self {
        let mut power = 1;
        while number / power >= 10 {
            power *= 10;
        }
        while power > 0 {
            self.put(b"0123456789"[number / power % 10]);
            power /= 10;
        }
        self
    }

    /// The text with `identifier` at its end, between two double quotes. A double quote in it is
    /// doubled, as the SQL standard has it.
    ///
    /// # Panics
    ///
    /// As [`push`](Self::push).
    #[must_use]
    pub const fn quoted(self, identifier: &str) -> Self {
        self.between(b'"', identifier)
    }

    /// The text with `value` at its end as a string of SQL, between two single quotes. A single quote
    /// in it is doubled, as the SQL standard has it.
    ///
    /// # Panics
    ///
    /// As [`push`](Self::push).
    #[must_use]
    pub const fn literal(self, value: &str) -> Self {
        self.between(b'\'', value)
    }

    const fn between(mut self, quote: u8, text: &str) -> Self {
        let text = text.as_bytes();
        self.put(quote);
        let mut at = 0;
        while at < text.len() {
            if text[at] == quote {
                self.put(quote);
            }
            self.put(text[at]);
            at += 1;
        }
        self.put(quote);
        self
    }

    /// The text.
    ///
    /// # Panics
    ///
    /// Never: it is made of whole strings.
    #[must_use]
    pub const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => panic!("a text is made of whole strings"),
        }
    }

    const fn put(&mut self, byte: u8) {
        assert!(
            self.len < CAPACITY,
            "a statement grew over the capacity of its text: its identifiers are too long"
        );
        self.bytes[self.len] = byte;
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::Text;

    #[test]
    fn a_number_is_written_in_decimal() {
        for number in [0, 7, 10, 99, 100, 258, 90_210] {
            assert_eq!(<Text>::new().number(number).as_str(), number.to_string());
        }
    }
}
