//! A shop on Redis Pub/Sub, and a demo that kills its receiver and loses nothing.

pub mod demo;
pub mod handlers;
pub mod receiver;
pub mod record;
pub mod service;
pub mod till;

/// Whatever went wrong.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
