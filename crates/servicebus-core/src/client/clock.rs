//! The two clocks of the client, and its dice.

use std::time::{Duration, Instant, SystemTime};

/// The present on tokio's clock, which tests can hold.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The present for tokens, lives of messages and locks: the system's time, moved by as much as a test has moved
/// tokio's clock.
#[allow(
    clippy::disallowed_methods,
    reason = "the one place where the client reads the time"
)]
pub(crate) fn wall() -> SystemTime {
    let moved = now().saturating_duration_since(Instant::now());
    let time = SystemTime::now();
    time.checked_add(moved).unwrap_or(time)
}

/// From 0.0 to 1.0, to spread what clients do at the same time.
pub(crate) fn random() -> f64 {
    fastrand::f64()
}

/// Waits until then; for ever when there is no such time.
pub(crate) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// How long it is until then.
pub(crate) fn until(deadline: Option<Instant>) -> Duration {
    deadline.map_or(Duration::MAX, |deadline| {
        deadline.saturating_duration_since(now())
    })
}
