//! What a message costs: the same work by hand, through the closest peer, and through each driver.

mod allocations;
mod bounds;
mod chart;
mod contender;
mod database;
mod figures;
mod load;
mod machine;
mod plan;
mod report;
mod run;
mod scenario;
mod side;
mod statistics;

use std::error::Error;

pub use allocations::{Allocations, count_allocations};
pub use plan::Plan;
pub use run::run;

/// What the bench's steps return.
pub type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;
