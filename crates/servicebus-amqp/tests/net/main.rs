//! The network layer: both of its sides against one another, over every transport.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod cancel;
mod ends;
mod flow;
mod pair;
mod proxy;
mod sasl;
mod tls;
mod websocket;
