//! The declared consumers of a name: several handlers, each with a mark of its own in the record.

use std::any::type_name;

/// What an outcome marks in a record.
///
/// Where a name's consumers are [declared](crate::Outbox::consumer), each owns one bit of the
/// record's marks, and the record is processed once all of them are set. Everywhere else the first
/// mark closes the record: [`SOLE`](Self::SOLE).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consumer {
    mark: i64,
    all: i64,
}

impl Consumer {
    /// The one whose mark closes the record.
    pub const SOLE: Self = Self { mark: 0, all: 0 };

    /// The bit that is set in the record's marks. Of [`SOLE`](Self::SOLE), none.
    #[must_use]
    pub const fn mark(self) -> i64 {
        self.mark
    }

    /// The bits that together close the record. Of [`SOLE`](Self::SOLE), none.
    #[must_use]
    pub const fn all(self) -> i64 {
        self.all
    }

    /// Whether the consumer has marked a record with these marks.
    pub(crate) const fn has_marked(self, marks: i64) -> bool {
        marks & self.mark != 0
    }

    /// Whether a record with these marks is marked by every declared consumer.
    pub(crate) const fn is_last_of(self, marks: i64) -> bool {
        (marks | self.mark) & self.all == self.all
    }
}

/// The highest bit: every integer column of four bytes or more has it.
pub(crate) const HIGHEST: u32 = 30;

/// The consumers of a name, as they were declared.
#[derive(Debug, Default)]
pub(crate) struct Consumers(Vec<Declared>);

#[derive(Debug)]
struct Declared {
    bit: u32,
    handler: &'static str,
}

impl Consumers {
    /// Gives the handler `H` of `name` a bit of its own.
    #[track_caller]
    pub(crate) fn declare<H>(&mut self, name: &str, bit: u32) {
        let handler = type_name::<H>();
        assert!(
            bit <= HIGHEST,
            "the consumer `{handler}` of `{name}` has the bit {bit}: bits are 0 to {HIGHEST}"
        );
        for declared in &self.0 {
            assert!(
                declared.bit != bit,
                "the bit {bit} of `{name}` belongs to the consumer `{}` already: give `{handler}` \
                 one that no consumer of the name ever had",
                declared.handler
            );
            assert!(
                declared.handler != handler,
                "`{handler}` is a consumer of `{name}` already: declare each once"
            );
        }
        self.0.push(Declared { bit, handler });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The consumer that a mounted handler of this type is. `None`: it is not declared.
    pub(crate) fn of(&self, handler: &str) -> Option<Consumer> {
        let mut all = 0;
        let mut mark = None;
        for declared in &self.0 {
            all |= 1 << declared.bit;
            if names(handler, declared.handler) {
                mark = Some(1 << declared.bit);
            }
        }
        mark.map(|mark| Consumer { mark, all })
    }

    /// The consumers whose bits are not among `marks`.
    pub(crate) fn beside(&self, marks: i64) -> Vec<&'static str> {
        let beside = self.0.iter().filter(|of| marks & (1 << of.bit) == 0);
        beside.map(|of| of.handler).collect()
    }

    /// The first two of the consumers that a mounted handler of this type would be.
    pub(crate) fn ambiguous(&self, handler: &str) -> Option<(&'static str, &'static str)> {
        let declared = self.0.iter().map(|declared| declared.handler);
        let mut found = declared.filter(|declared| names(handler, declared));
        Some((found.next()?, found.next()?))
    }
}

/// Whether the type's name has `path` in it, as a whole: `ship` is no part of `ship_express`, nor of
/// `ship::Inner`.
fn names(type_name: &str, path: &str) -> bool {
    let is_part = |c: char| c == '_' || c == ':' || c.is_alphanumeric();
    type_name.match_indices(path).any(|(at, _)| {
        let before = type_name[..at].chars().next_back();
        let behind = type_name[at + path.len()..].chars().next();
        !before.is_some_and(is_part) && !behind.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::{Consumers, names};

    struct Ship;
    struct ShipExpress;
    struct Around<T>(std::marker::PhantomData<T>);

    #[test]
    fn a_handler_is_named_by_its_whole_path() {
        assert!(names("a::Typed<a::ship, b::Json>", "a::ship"));
        assert!(names("a::ship", "a::ship"));
        assert!(names("&a::ship", "a::ship"));
        for other in [
            "a::ship_express",
            "b::a::ship",
            "a::ship::Inner",
            "aa::ship",
        ] {
            assert!(!names(other, "a::ship"), "{other}");
        }
        assert!(names("a::ship_express<a::ship>", "a::ship"));
    }

    #[test]
    fn each_consumer_has_its_bit_and_the_mask_has_all() {
        let mut consumers = Consumers::default();
        consumers.declare::<Ship>("payments", 0);
        consumers.declare::<ShipExpress>("payments", 3);
        let express = std::any::type_name::<Around<ShipExpress>>();
        let express = consumers.of(express).unwrap();
        assert_eq!((express.mark(), express.all()), (0b1000, 0b1001));
        assert!(express.is_last_of(0b0001) && !express.is_last_of(0));
        assert!(consumers.of("somebody::else").is_none());
    }

    #[test]
    fn a_type_that_names_two_consumers_is_ambiguous() {
        let mut consumers = Consumers::default();
        consumers.declare::<Ship>("payments", 0);
        consumers.declare::<ShipExpress>("payments", 1);
        let both = std::any::type_name::<Around<(Ship, ShipExpress)>>();
        assert!(consumers.ambiguous(both).is_some());
        assert!(consumers.ambiguous(std::any::type_name::<Ship>()).is_none());
    }
}
