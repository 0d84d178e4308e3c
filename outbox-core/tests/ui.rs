//! What does not compile says how to mend it, and what should compile does so without a warning.

/// One mistake a file, named after the mistake.
#[test]
fn every_mistake_is_reported_on_its_own_token() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

/// The cases that must compile. With them trybuild builds instead of checking, which alone shows
/// the mistake of `tests/ui/built`: the constants of a generic function are computed last.
#[test]
fn what_is_right_compiles() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/built/*.rs");
}
