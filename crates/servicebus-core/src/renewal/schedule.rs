use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use slab::Slab;

use super::{KeepLock, LONGEST_LOCK, renew_after};

/// So many entries of the queue that stand for nothing are not worth cleaning up.
const FEW: usize = 64;

/// What is to be done about a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Due<L> {
    /// Renew it, then say how that went with [`LockSchedule::handle_renewed`] or [`LockSchedule::handle_failed`].
    Renew(LockId),
    /// It is not renewed any more and will run out: it was kept for as long as it was meant to be. Said once.
    Stopped(LockId),
    /// It ran out. It is no longer in the schedule.
    Expired(L),
}

/// Names a lock in a [`LockSchedule`]. Of no use any more once the lock is removed or has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId {
    slot: usize,
    /// Tells the locks apart that have the same slot one after another.
    serial: u64,
}

/// The locks that a client holds, and when something is to be done about each.
///
/// Messages that wait in a prefetch buffer are in it like those in the hands of the application. Most locks are removed
/// long before anything is due, so that is made cheap: the entry in the queue stays behind, and is passed over when its
/// time has come, or swept away when such entries are the most.
#[derive(Debug)]
pub struct LockSchedule<L> {
    locks: Slab<Entry<L>>,
    queue: BinaryHeap<Reverse<(Instant, LockId)>>,
    serial: u64,
}

#[derive(Debug)]
struct Entry<L> {
    lock: L,
    serial: u64,
    /// When something is to be done. An entry of the queue with another time stands for nothing.
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

impl<L> Default for LockSchedule<L> {
    fn default() -> Self {
        Self {
            locks: Slab::new(),
            queue: BinaryHeap::new(),
            serial: 0,
        }
    }
}

impl<L> LockSchedule<L> {
    /// A schedule without locks.
    pub fn new() -> Self {
        Self::default()
    }

    /// A lock was received that lasts for `remaining` from now.
    pub fn insert(
        &mut self,
        lock: L,
        remaining: Duration,
        keep: KeepLock,
        now: Instant,
        random: f64,
    ) -> LockId {
        let keep_until = match keep {
            KeepLock::Off => Keep::NoLonger,
            KeepLock::For(length) => now.checked_add(length).map_or(Keep::Always, Keep::Until),
            KeepLock::UntilSettled => Keep::Always,
        };
        let (at, ends) = times(remaining, keep_until, now, random);
        self.serial += 1;
        let serial = self.serial;
        let slot = self.locks.insert(Entry {
            lock,
            serial,
            at,
            ends,
            keep_until,
            failures: 0,
            state: State::Waiting,
        });
        let id = LockId { slot, serial };
        self.enqueue(at, id);
        id
    }

    /// The lock is of no more interest: its message was settled or its session closed. `None` when it is not there.
    pub fn remove(&mut self, id: LockId) -> Option<L> {
        self.entry(id)?;
        let entry = self.locks.remove(id.slot);
        if self.locks.is_empty() {
            self.queue.clear();
        }
        Some(entry.lock)
    }

    /// The lock, if it is there.
    pub fn get_mut(&mut self, id: LockId) -> Option<&mut L> {
        self.entry_mut(id).map(|entry| &mut entry.lock)
    }

    /// The lock, if it is there.
    pub fn get(&self, id: LockId) -> Option<&L> {
        self.entry(id).map(|entry| &entry.lock)
    }

    /// When something is to be done about a lock that is there.
    pub fn due(&self, id: LockId) -> Option<Instant> {
        self.entry(id).map(|entry| entry.at)
    }

    /// When to [`poll`](Self::poll) next. There may be nothing to do by then.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    /// What is to be done about one lock that is due at `now`; `None` when there is none left.
    ///
    /// Many locks can be renewed by one request: poll until `None`, then send it.
    pub fn poll(&mut self, now: Instant) -> Option<Due<L>> {
        loop {
            let &Reverse((at, id)) = self.queue.peek()?;
            if at > now {
                return None;
            }
            self.queue.pop();
            let Some(entry) = self.entry_mut(id).filter(|entry| entry.at == at) else {
                continue;
            };
            if entry.ends <= now {
                return self.remove(id).map(Due::Expired);
            }
            let due = match (entry.state, entry.keep_until) {
                // The next thing to happen to it is its end.
                (State::Renewing, _) | (_, Keep::NoLonger) => None,
                (State::Waiting, Keep::Until(until)) if until <= now => {
                    entry.keep_until = Keep::NoLonger;
                    Some(Due::Stopped(id))
                }
                (State::Waiting, _) => {
                    entry.state = State::Renewing;
                    Some(Due::Renew(id))
                }
            };
            let ends = entry.ends;
            self.move_to(id, ends);
            if due.is_some() {
                return due;
            }
        }
    }

    /// The lock was renewed and lasts for `remaining` from now. Nothing happens when it was removed meanwhile.
    pub fn handle_renewed(&mut self, id: LockId, remaining: Duration, now: Instant, random: f64) {
        let Some(entry) = self.entry_mut(id) else {
            return;
        };
        let (at, ends) = times(remaining, entry.keep_until, now, random);
        entry.ends = ends;
        entry.failures = 0;
        entry.state = State::Waiting;
        self.move_to(id, at);
    }

    /// The renewal failed, but the lock may still be good: it is tried again after 0.25 s, 0.5 s, 1 s, up to 5 s, for as
    /// long as the lock lasts. After a failure that is final, [`remove`](Self::remove) the lock instead.
    pub fn handle_failed(&mut self, id: LockId, now: Instant) {
        let Some(entry) = self.entry_mut(id) else {
            return;
        };
        entry.state = State::Waiting;
        entry.failures = entry.failures.saturating_add(1);
        let wait = Duration::from_millis(125 << entry.failures.min(6)).min(Duration::from_secs(5));
        let ends = entry.ends;
        let at = now.checked_add(wait).map_or(ends, |at| at.min(ends));
        self.move_to(id, at);
    }

    /// The lock is not renewed from now on; its end is still told.
    pub fn stop(&mut self, id: LockId) {
        if let Some(entry) = self.entry_mut(id) {
            entry.keep_until = Keep::NoLonger;
            let ends = entry.ends;
            self.move_to(id, ends);
        }
    }

    /// How long the lock still lasts; zero when it ran out or is not in the schedule.
    pub fn remaining(&self, id: LockId, now: Instant) -> Duration {
        self.entry(id).map_or(Duration::ZERO, |entry| {
            entry.ends.saturating_duration_since(now)
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

    fn entry(&self, id: LockId) -> Option<&Entry<L>> {
        let entry = self.locks.get(id.slot)?;
        (entry.serial == id.serial).then_some(entry)
    }

    fn entry_mut(&mut self, id: LockId) -> Option<&mut Entry<L>> {
        let entry = self.locks.get_mut(id.slot)?;
        (entry.serial == id.serial).then_some(entry)
    }

    fn move_to(&mut self, id: LockId, at: Instant) {
        if let Some(entry) = self.entry_mut(id).filter(|entry| entry.at != at) {
            entry.at = at;
            self.enqueue(at, id);
        }
    }

    fn enqueue(&mut self, at: Instant, id: LockId) {
        self.queue.push(Reverse((at, id)));
        if self.queue.len() > self.locks.len() * 2 + FEW {
            let locks = &self.locks;
            self.queue.retain(|Reverse((at, id))| {
                let entry = locks.get(id.slot);
                entry.is_some_and(|entry| entry.serial == id.serial && entry.at == *at)
            });
        }
    }

    /// The entries of the queue, those that stand for nothing among them.
    #[cfg(test)]
    pub(super) fn queue_len(&self) -> usize {
        self.queue.len()
    }
}

/// When something is to be done about a lock that lasts for `remaining` from now, and when it ends.
fn times(remaining: Duration, keep: Keep, now: Instant, random: f64) -> (Instant, Instant) {
    let remaining = remaining.min(LONGEST_LOCK);
    let ends = now + remaining;
    let at = match keep {
        Keep::NoLonger => ends,
        // Not before it is due anyway: a lock that is good to the end of its time needs no renewal.
        Keep::Until(until) if until < ends => until.max(now),
        Keep::Until(_) | Keep::Always => now + renew_after(remaining, random),
    };
    (at, ends)
}
