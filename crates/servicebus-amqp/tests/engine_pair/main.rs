//! Two engines back to back, in virtual time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod basics;
mod lifecycle;
mod operations;
mod pair;
mod properties;
