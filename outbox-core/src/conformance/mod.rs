//! The suite that every backend passes.

mod memory;

pub use memory::{Memory, MemoryAcquired, MemoryConnection, MemoryError, MemoryPool};
