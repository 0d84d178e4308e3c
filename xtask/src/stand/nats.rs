//! A private NATS, core alone: no `JetStream`; its limits are the server's defaults.

use super::process::Program;

pub(super) const PROGRAM: Program = Program {
    name: "nats-server",
    arguments: &["--addr", "127.0.0.1", "--port"],
    scheme: "nats",
    // It speaks first.
    ask: "",
    answer: "INFO ",
};
