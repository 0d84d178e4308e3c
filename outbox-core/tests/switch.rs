//! The test switch, in processes of their own: each reads it once.

use std::process::Command;

use outbox_core::{SWITCH_VARIABLE, is_on};

/// Run by the test below, too, with every position of the switch.
#[test]
fn the_outbox_is_on_where_the_variable_says_exactly_on() {
    let said = std::env::var_os(SWITCH_VARIABLE).is_some_and(|value| value == "on");
    assert_eq!(is_on(), said || !cfg!(feature = "testing"));
}

#[test]
fn every_other_value_is_off() {
    let this = std::env::current_exe().unwrap();
    for value in ["on", "ON", "1", "true", "off", ""] {
        let test = "the_outbox_is_on_where_the_variable_says_exactly_on";
        let mut child = Command::new(&this);
        child.args(["--exact", test]).env(SWITCH_VARIABLE, value);
        let output = child.output().unwrap();
        let output = String::from_utf8_lossy(&output.stdout);
        assert!(output.contains("1 passed"), "with `{value}`: {output}");
    }
}
