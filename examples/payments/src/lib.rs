//! A payment service, and a demo that kills it and loses nothing.

pub mod client;
pub mod database;
pub mod demo;
pub mod error;
pub mod handlers;
pub mod http;
pub mod record;
pub mod service;
