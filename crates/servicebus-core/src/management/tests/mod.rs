mod answers;
mod requests;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::*;

fn at_millis(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

fn token(text: &str) -> LockToken {
    text.parse().unwrap()
}
