//! When locks are renewed: a pure schedule over the locks of messages, or of sessions.
//!
//! Times are points of the local monotonic clock. How long a lock still lasts is worked out once, when the broker says
//! when it ends ([`LockClock`]); from then on the broker's clock plays no part.

mod schedule;

use std::time::{Duration, SystemTime};

pub use self::schedule::{Due, LockId, LockSchedule};
use crate::time::fraction;

/// The longest lock that an entity can be set to.
const LONGEST_LOCK: Duration = Duration::from_secs(5 * 60);
/// The shortest lock that is known of.
const SHORTEST_LOCK: Duration = Duration::from_secs(5);
/// How long before its end a lock is renewed, if it lasts twice that.
const MARGIN: Duration = Duration::from_secs(10);
/// With less than this left, a lock is renewed at once.
const AT_ONCE: Duration = Duration::from_millis(400);
/// The part of the wait that renewals of one age are spread over: one in this many.
const SPREAD: u32 = 4;

/// How long locks of one entity last, worked out from what the broker says.
///
/// The broker names the end of a lock by its own clock, which may differ from ours. Three facts bound how long the
/// lock lasts without trusting either clock: a lock that was just given has not ended; no lock lasts more than five
/// minutes; and a lock ends at most its length after the message was enqueued and delivered at once. Too short a guess
/// costs an early renewal, too long a guess costs the lock; so the shortest plausible one is taken.
#[derive(Clone, Copy, Debug)]
pub struct LockClock {
    ceiling: Duration,
}

impl Default for LockClock {
    fn default() -> Self {
        Self {
            ceiling: LONGEST_LOCK,
        }
    }
}

impl LockClock {
    /// Learns from a message that was just received: its lock cannot last longer than from when the message was
    /// enqueued to when the lock ends.
    pub fn observe(&mut self, enqueued: SystemTime, locked_until: SystemTime) {
        let span = locked_until.duration_since(enqueued).unwrap_or_default();
        if !span.is_zero() {
            self.ceiling = self.ceiling.min(span.max(SHORTEST_LOCK));
        }
    }

    /// How long a lock lasts that was just given and ends at `locked_until` by the broker's clock, when ours shows
    /// `now`.
    pub fn remaining(&self, locked_until: SystemTime, now: SystemTime) -> Duration {
        match locked_until.duration_since(now) {
            Ok(by_clock) if !by_clock.is_zero() => by_clock.min(self.ceiling),
            // Our clock is ahead, for the lock has only begun.
            _ => SHORTEST_LOCK.min(self.ceiling),
        }
    }
}

/// How long before its end, counted from `now`, a lock of this length is renewed: ten seconds or half of its length
/// ahead, whichever is later; at once when less than 0.4 s are left. Spread over the last quarter of the wait by `random`
/// in `0.0..1.0`, so that locks that began together are not renewed in one instant.
pub fn renew_after(remaining: Duration, random: f64) -> Duration {
    if remaining < AT_ONCE {
        return Duration::ZERO;
    }
    let wait = remaining - MARGIN.min(remaining / 2);
    wait - fraction(wait / SPREAD, random)
}

/// How long a lock is kept by renewing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeepLock {
    /// The lock is not renewed.
    Off,
    /// For this long from when it was received.
    For(Duration),
    /// Until the message is settled or the session is closed.
    UntilSettled,
}

impl Default for KeepLock {
    /// For five minutes, as the official SDKs.
    fn default() -> Self {
        Self::For(Duration::from_secs(5 * 60))
    }
}

#[cfg(test)]
mod tests;
