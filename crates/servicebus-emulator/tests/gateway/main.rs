//! The gateway through a bare AMQP client: in memory, on a clock that the tests hold.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_sign_loss,
    reason = "a test fails by panicking, in its helpers too"
)]

mod attach;
mod common;
mod credit;
mod faults;
mod idle;
mod management;
mod many;
mod official_suites;
mod peek_lock;
mod sessions;
mod tokens;
mod transactions;
mod wire;
