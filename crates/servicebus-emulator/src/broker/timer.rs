use std::collections::BTreeSet;

use servicebus_amqp::types::Timestamp;

use super::{ConsumerId, EntityId, time::NEVER};

/// What is to happen at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A scheduled message becomes active.
    Activate(EntityId, i64),
    /// The lock in this slot ends.
    Lock(u32),
    /// The first of the locks of an entity ends, or it did before its time.
    Locks(EntityId),
    /// The lock on a session ends.
    Session(EntityId, u32),
    /// A message expires.
    Expire(EntityId, i64),
    /// The first of the messages of an entity expires, or it went before its time.
    Expiries(EntityId),
    /// A receiver has waited long enough for a session.
    Accept(ConsumerId),
    /// The transaction in this slot is rolled back.
    Transaction(u32),
    /// An entity is deleted if nothing was done with it.
    Idle(EntityId),
}

/// All timers of the broker, soonest first. An ordered set rather than a heap, because most of them are taken back.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(Timestamp, Timer)>,
}

impl Timers {
    /// Sets a timer, unless it would never fire.
    pub(super) fn set(&mut self, at: Timestamp, timer: Timer) {
        if at != NEVER {
            self.due.insert((at, timer));
        }
    }

    /// Takes a timer back.
    pub(super) fn cancel(&mut self, at: Timestamp, timer: Timer) {
        if at != NEVER {
            self.due.remove(&(at, timer));
        }
    }

    /// When the next timer fires.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes the next timer that is due.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<(Timestamp, Timer)> {
        if self.next()? > now {
            return None;
        }
        self.due.pop_first()
    }
}
