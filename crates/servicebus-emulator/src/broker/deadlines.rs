use std::collections::VecDeque;

use servicebus_amqp::types::Timestamp;

use super::{
    time::NEVER,
    timer::{Timer, Timers},
};

/// Times at which something happens to the locks or messages of one entity, soonest first.
///
/// As a rule all locks last equally long, and so do all messages: then a queue holds the times in order, and one timer serves
/// it. What was settled before its time may stay in the queue until it is met or until such ones prevail.
#[derive(Debug)]
pub(super) struct Deadlines<K> {
    queue: VecDeque<(Timestamp, K)>,
    /// How many of the queue are over, as far as is known.
    stale: usize,
    /// When the timer fires: at the first deadline or before.
    timer: Timestamp,
}

impl<K> Default for Deadlines<K> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            stale: 0,
            timer: NEVER,
        }
    }
}

impl<K: Copy + PartialEq> Deadlines<K> {
    /// Adds a deadline, unless it is before the last one: that takes a timer of its own.
    pub(super) fn add(&mut self, at: Timestamp, key: K) -> bool {
        let in_order = self.queue.back().is_none_or(|(last, _)| *last <= at);
        if in_order {
            self.queue.push_back((at, key));
        }
        in_order
    }

    /// Notes that a deadline is over before its time. `is_live` tells which are not.
    pub(super) fn forget(&mut self, key: K, is_live: impl Fn(Timestamp, K) -> bool) {
        self.stale += 1;
        if self.queue.front().is_some_and(|(_, first)| *first == key) {
            while let Some((at, first)) = self.queue.front()
                && !is_live(*at, *first)
            {
                self.queue.pop_front();
                self.stale = self.stale.saturating_sub(1);
            }
        }
        if self.stale > 32 && self.stale > self.queue.len() / 2 {
            self.queue.retain(|(at, key)| is_live(*at, *key));
            self.queue.shrink_to(2 * self.queue.len().max(32));
            self.stale = 0;
        }
    }

    /// Takes the first deadline that has come and is not over.
    pub(super) fn pop(
        &mut self,
        now: Timestamp,
        is_live: impl Fn(Timestamp, K) -> bool,
    ) -> Option<K> {
        while let Some((at, key)) = self.queue.front().copied()
            && at <= now
        {
            self.queue.pop_front();
            if is_live(at, key) {
                return Some(key);
            }
            self.stale = self.stale.saturating_sub(1);
        }
        None
    }

    /// Sets the timer, if there is none that fires in time.
    pub(super) fn arm(&mut self, timers: &mut Timers, timer: Timer) {
        if let Some((at, _)) = self.queue.front()
            && *at < self.timer
        {
            timers.cancel(self.timer, timer);
            timers.set(*at, timer);
            self.timer = *at;
        }
    }

    /// The timer has fired, and what was due is taken.
    pub(super) fn rearm(&mut self, timers: &mut Timers, timer: Timer) {
        self.timer = NEVER;
        self.arm(timers, timer);
    }

    /// Forgets all.
    pub(super) fn clear(&mut self, timers: &mut Timers, timer: Timer) {
        timers.cancel(self.timer, timer);
        *self = Self::default();
    }
}
