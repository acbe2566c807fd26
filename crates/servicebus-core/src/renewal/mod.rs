//! When locks are renewed: a pure schedule over the locks of messages, or of sessions.
//!
//! Times are points of the local monotonic clock. How long a lock still lasts is worked out once, when the broker says
//! when it ends ([`LockClock`]); from then on the broker's clock plays no part.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant, SystemTime};

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

/// What is to be done about a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Due<K> {
    /// Renew it, then say how that went with [`LockSchedule::handle_renewed`] or [`LockSchedule::handle_failed`].
    Renew(K),
    /// It is not renewed any more and will run out: it was kept for as long as it was meant to be. Said once.
    Stopped(K),
    /// It ran out. It is no longer in the schedule.
    Expired(K),
}

/// The locks that a client holds, in the order in which something is to be done about them.
///
/// `K` names a lock: a lock token, or whatever tells a session. Messages that wait in a prefetch buffer are in it like
/// those in the hands of the application. Each lock takes one entry of two maps, and nothing is left of it once it is
/// removed.
#[derive(Debug)]
pub struct LockSchedule<K> {
    locks: HashMap<K, Lock>,
    queue: BTreeSet<(Instant, K)>,
}

#[derive(Clone, Copy, Debug)]
struct Lock {
    /// When something is to be done; the key in the queue.
    at: Instant,
    ends: Instant,
    keep_until: Keep,
    failures: u32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum Keep {
    Until(Instant),
    Always,
    /// Given up, and said so.
    NoLonger,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// A renewal is on its way.
    Renewing,
}

impl<K> Default for LockSchedule<K> {
    fn default() -> Self {
        Self {
            locks: HashMap::new(),
            queue: BTreeSet::new(),
        }
    }
}

impl<K: Copy + Eq + Hash + Ord> LockSchedule<K> {
    /// A schedule without locks.
    pub fn new() -> Self {
        Self::default()
    }

    /// A lock was received that lasts for `remaining` from now. One of the same name is replaced.
    pub fn insert(
        &mut self,
        key: K,
        remaining: Duration,
        keep: KeepLock,
        now: Instant,
        random: f64,
    ) {
        self.remove(&key);
        let keep_until = match keep {
            KeepLock::Off => Keep::NoLonger,
            KeepLock::For(length) => now.checked_add(length).map_or(Keep::Always, Keep::Until),
            KeepLock::UntilSettled => Keep::Always,
        };
        self.put(key, remaining, keep_until, now, random);
    }

    /// The lock is of no more interest: its message was settled or its session closed. Whether it was there.
    pub fn remove(&mut self, key: &K) -> bool {
        match self.locks.remove(key) {
            Some(lock) => self.queue.remove(&(lock.at, *key)),
            None => false,
        }
    }

    /// When [`poll`](Self::poll) has something to say next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// What is to be done about one lock that is due at `now`; `None` when there is none left.
    ///
    /// Many locks can be renewed by one request: poll until `None`, then send it.
    pub fn poll(&mut self, now: Instant) -> Option<Due<K>> {
        loop {
            let &(at, key) = self.queue.first()?;
            if at > now {
                return None;
            }
            let Some(lock) = self.locks.get_mut(&key) else {
                self.queue.pop_first();
                continue;
            };
            if lock.ends <= now {
                self.remove(&key);
                return Some(Due::Expired(key));
            }
            let due = match (lock.state, lock.keep_until) {
                // The next thing to happen to it is its end.
                (State::Renewing, _) | (_, Keep::NoLonger) => None,
                (State::Waiting, Keep::Until(until)) if until <= now => {
                    lock.keep_until = Keep::NoLonger;
                    Some(Due::Stopped(key))
                }
                (State::Waiting, _) => {
                    lock.state = State::Renewing;
                    Some(Due::Renew(key))
                }
            };
            let ends = lock.ends;
            self.move_to(key, ends);
            if due.is_some() {
                return due;
            }
        }
    }

    /// The lock was renewed and lasts for `remaining` from now. Nothing happens when it was removed meanwhile.
    pub fn handle_renewed(&mut self, key: K, remaining: Duration, now: Instant, random: f64) {
        if let Some(lock) = self.locks.get(&key).copied() {
            self.remove(&key);
            self.put(key, remaining, lock.keep_until, now, random);
        }
    }

    /// The renewal failed, but the lock may still be good: it is tried again after 0.25 s, 0.5 s, 1 s, up to 5 s, for as
    /// long as the lock lasts. After a failure that is final, [`remove`](Self::remove) the lock instead.
    pub fn handle_failed(&mut self, key: K, now: Instant) {
        let Some(lock) = self.locks.get_mut(&key) else {
            return;
        };
        lock.state = State::Waiting;
        lock.failures = lock.failures.saturating_add(1);
        let wait = Duration::from_millis(125 << lock.failures.min(6)).min(Duration::from_secs(5));
        let ends = lock.ends;
        let at = now.checked_add(wait).map_or(ends, |at| at.min(ends));
        self.move_to(key, at);
    }

    /// How long the lock still lasts; zero when it ran out or is not in the schedule.
    pub fn remaining(&self, key: &K, now: Instant) -> Duration {
        self.locks.get(key).map_or(Duration::ZERO, |lock| {
            lock.ends.saturating_duration_since(now)
        })
    }

    /// How many locks there are.
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    fn put(&mut self, key: K, remaining: Duration, keep_until: Keep, now: Instant, random: f64) {
        let remaining = remaining.min(LONGEST_LOCK);
        let ends = now + remaining;
        let renew = now + renew_after(remaining, random);
        let at = match keep_until {
            Keep::NoLonger => ends,
            // Not before it is due anyway: a lock that is good to the end of its time needs no renewal.
            Keep::Until(until) if until < ends => until.max(now),
            Keep::Until(_) | Keep::Always => renew,
        };
        self.locks.insert(
            key,
            Lock {
                at,
                ends,
                keep_until,
                failures: 0,
                state: State::Waiting,
            },
        );
        self.queue.insert((at, key));
    }

    fn move_to(&mut self, key: K, at: Instant) {
        if let Some(lock) = self.locks.get_mut(&key) {
            self.queue.remove(&(lock.at, key));
            lock.at = at;
            self.queue.insert((at, key));
        }
    }
}

#[cfg(test)]
mod tests;
