//! Service Bus semantics over AMQP 1.0: what a client says, what the answers mean, and when.
//!
//! Every module but [`client`] is a function of its arguments: no I/O, and time is passed in. Types that the `servicebus`
//! crate offers to its users are documented for them.
//!
//! * [`connection_string`], [`entity`], [`auth`]: where, what, and as whom.
//! * [`message`], [`batch`]: what is sent and received.
//! * [`settlement`], [`lock_token`], [`renewal`]: what becomes of a message, and how long it is ours.
//! * [`session`], [`transaction`]: the links that are more than links.
//! * [`management`], [`rules`], [`rpc`]: requests and answers.
//! * [`error`], [`retry`], [`options`]: what goes wrong and what is done about it.
//! * [`names`]: the words on the wire.
#![forbid(unsafe_code)]

pub mod auth;
pub mod batch;
pub mod client;
pub mod connection_string;
pub mod entity;
pub mod error;
pub mod lock_token;
pub mod management;
pub mod message;
pub mod names;
pub mod options;
pub mod renewal;
pub mod retry;
pub mod rpc;
pub mod rules;
pub mod session;
mod setters;
pub mod settlement;
#[cfg(test)]
mod testing;
mod time;
pub mod transaction;

pub use servicebus_amqp::types;

/// Runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
