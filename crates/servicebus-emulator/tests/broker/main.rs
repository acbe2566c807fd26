//! What the broker does, told by its commands and effects in virtual time.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod browsing;
mod deferral;
mod entities;
mod expiry;
mod forwarding;
mod scheduling;
mod sessions;
mod settlement;
mod support;
mod topics;
mod transactions;
