//! A private Redis that keeps nothing; its limits are the server's defaults.

use super::process::Program;

pub(super) const PROGRAM: Program = Program {
    name: "redis-server",
    arguments: &[
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
        "--port",
    ],
    scheme: "redis",
    ask: "PING\r\n",
    answer: "+PONG",
};
