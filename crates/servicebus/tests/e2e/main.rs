//! The client end to end, against an emulator in memory whose clock the tests hold.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets something else than it expects is to fail"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "the emulator's clock starts at the system's time"
)]

mod closing;
mod credit;
mod giving_back;
mod growth;
mod handles;
mod line;
mod locks;
mod reach;
mod receiving;
mod recovery;
mod rules;
mod sending;
mod service;
mod sessions;
mod settling;
mod support;
mod tokens;
mod transactions;
mod waits;
