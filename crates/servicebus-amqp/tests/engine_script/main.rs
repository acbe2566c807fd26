//! One engine against a peer that is a script of frames. Tests are named by the case they come from.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod connection;
mod credit;
mod deliveries;
mod hostile;
mod links;
mod peer;
mod sessions;
mod windows;
