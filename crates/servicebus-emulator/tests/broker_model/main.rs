//! Random commands against small models of what they do.
//!
//! `BROKER_CASES` sets how many cases are run.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, in its helpers too"
)]

mod message;
mod queue;
mod routing;

use proptest::test_runner::Config;

fn config() -> Config {
    Config {
        cases: std::env::var("BROKER_CASES").map_or(256, |cases| cases.parse().unwrap()),
        failure_persistence: None,
        ..Config::default()
    }
}
