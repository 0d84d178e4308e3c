//! The two middlewares: one around publishes, one around handlers.

pub(crate) mod deliver;
pub(crate) mod publish;
