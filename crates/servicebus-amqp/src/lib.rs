//! AMQP 1.0 for clients and listeners: a bounded codec, a sans-IO engine, and a tokio network layer.
//!
//! * [`types`]: AMQP values and the composite types of the specification, as plain Rust data.
//! * [`codec`]: bytes to those types and back. Zero-copy, and bounded by the bytes that are present.
//! * [`engine`]: connections, sessions and links as a pure state machine. Bytes and time are arguments.
//! * `net` (feature `net`, on by default): the engine driven by tokio over TCP, TLS, WebSocket and in-memory pipes.
//!
//! The crate knows no Azure concept; `servicebus-core` builds Service Bus on it.
#![forbid(unsafe_code)]

pub mod codec;
pub mod engine;
#[cfg(feature = "net")]
pub mod net;
pub mod types;

/// Runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
