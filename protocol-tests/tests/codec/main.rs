//! The codec against recorded bytes, cases of real trouble, and hostile input.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]

mod captures;
mod corpus;
mod golden;
mod hostile;
mod messages;
mod performatives;
mod values;
