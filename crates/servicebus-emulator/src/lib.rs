//! An embedded Azure Service Bus for tests: queues, topics, sessions, transactions, faults, and a clock you hold.
#![forbid(unsafe_code)]

pub mod broker;
pub mod names;
pub mod sql;
