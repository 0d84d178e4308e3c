//! A shop on NATS core subjects, and a demo that kills it and loses nothing.

pub mod customer;
pub mod demo;
pub mod handlers;
pub mod instance;
pub mod record;
pub mod service;

/// Whatever went wrong.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
