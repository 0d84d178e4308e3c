//! The check of the tables: silent where they fit, and naming what is missing where they do not.

use super::service::{registry, registry_on};
use super::stand::Stand;
use crate::OutboxError;

/// A table that fits has no problems, and one that is not there is named for each name.
pub async fn the_check_names_a_table_that_is_missing<S: Stand>() {
    let stand = S::open().await;
    let outbox = registry_on(&stand, 2).await;
    outbox.check_tables().await.unwrap();
    stand.hide_table(true).await;
    let error = outbox.check_tables().await.unwrap_err();
    let OutboxError::Tables(problems) = &error else {
        panic!("{error:?}");
    };
    let names: Vec<_> = problems.iter().map(crate::TableProblem::name).collect();
    assert_eq!(names, ["payments", "refunds"]);
    let text = error.to_string();
    assert!(
        text.contains("table `outbox` of `payments`: it does not exist: create it"),
        "{text}"
    );
    stand.hide_table(false).await;
    outbox.check_tables().await.unwrap();
}

/// Without a pool nothing can be looked at.
pub async fn the_check_without_a_pool_says_so<S: Stand>() {
    let error = registry::<S>().check_tables().await.unwrap_err();
    assert!(matches!(error, OutboxError::NoPool { .. }), "{error:?}");
}
