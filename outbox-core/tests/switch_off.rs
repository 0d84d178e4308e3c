//! What an outbox that is off says: alone in its process, since it is said once.

use outbox_core::conformance::{Logs, off};
use outbox_core::{SWITCH_VARIABLE, is_on};
use tracing::Level;

#[tokio::test]
async fn switch_off_is_said_once_with_the_feature_and_the_variable() {
    let logs = Logs::capture();
    off(async {
        assert!(!is_on());
        let lines = logs.lines(Level::WARN, &["off", "`testing`", SWITCH_VARIABLE]);
        assert_eq!(lines.len(), 1);
    })
    .await;
}
