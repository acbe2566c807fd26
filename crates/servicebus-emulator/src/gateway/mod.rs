//! Clients of the emulator: what their connections, links and messages mean to the broker.
//!
//! One [`Client`] per connection handles the events of its engine. It turns attaches, transfers, outcomes and credit into
//! the broker's commands, and the parcels in its mailbox (deliveries above all) into requests to the engine.

mod attach;
mod cbs;
mod client;
mod coordinator;
mod credit;
mod filter;
mod idle;
mod line;
mod link;
mod locks;
mod log;
mod management;
mod names;
mod node;
mod outcome;
mod parcels;
mod transfer;

pub(crate) use client::{Client, config};
pub(crate) use line::{Line, LineControl};
pub(crate) use log::FrameLog;
