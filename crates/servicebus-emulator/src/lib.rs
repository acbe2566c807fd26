//! An embedded Azure Service Bus for tests: queues, topics, sessions, transactions, faults, and a clock you hold.
//!
//! * [`Emulator`]: start it in the test's own process, connect clients by TCP, TLS, WebSocket or in memory.
//! * [`Namespace`] and [`Entity`]: declare, look inside, wait, inject, purge.
//! * [`Clock`] and [`Emulator::advance`]: time that passes when you say so.
//! * [`Fault`]: what is to go wrong.
//! * [`broker`]: the state machine behind it all, and its vocabulary.
#![forbid(unsafe_code)]

mod access;
pub mod broker;
pub mod config;
mod emulator;
mod fault;
mod gateway;
mod hub;
mod idle;
pub mod names;
pub mod sql;
mod violation;

pub use access::{DEFAULT_KEY, DEFAULT_KEY_NAME, Rights, TokenError, Verdict};
pub use emulator::{
    Builder, Emulator, Entity, Events, Missed, Namespace, NotManual, Profile, StartError, WaitError,
};
pub use fault::{Answered, Failure, Fault, Operated, SaslFailure};
pub use hub::Clock;
pub use idle::IdleTimes;
pub use violation::Violation;
