//! The test switch: a build with the feature `testing` tracks only when the environment says so.

/// The environment variable that turns the outbox on in a build with the feature `testing`. Its
/// value must be exactly `on`.
pub const SWITCH_VARIABLE: &str = "RUSTSTREAM_SQLX_OUTBOX";

/// Whether the outbox tracks messages in this process: a health check may report it.
///
/// Always `true` without the cargo feature `testing`. With it the outbox is off unless the
/// environment variable [`SWITCH_VARIABLE`] was `on` when it was first asked; the answer stays for
/// the life of the process. Cargo unifies features, so a binary that a test run left in `target/`
/// may have the switch although the release has not.
#[must_use]
pub fn is_on() -> bool {
    #[cfg(feature = "testing")]
    {
        use std::sync::OnceLock;

        static ON: OnceLock<bool> = OnceLock::new();
        *ON.get_or_init(|| {
            let on = std::env::var_os(SWITCH_VARIABLE).is_some_and(|value| value == "on");
            if !on {
                tracing::warn!(
                    target: crate::TARGET,
                    "the outbox is off: this process was built with the feature `testing` of the \
                     outbox, and {SWITCH_VARIABLE} is not `on`; messages are sent without a record",
                );
            }
            on
        })
    }
    #[cfg(not(feature = "testing"))]
    {
        true
    }
}
