//! The messages of one entity and what is needed to find the next one to deliver.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use servicebus_amqp::types::Timestamp;

use super::{
    ConsumerId, EntityId, MessageState, StoredMessage,
    deadlines::Deadlines,
    message::Content,
    messages::Messages,
    session::Sessions,
    time::{NEVER, after},
    timer::{Timer, Timers},
};

/// No lock, no session.
pub(super) const NONE: u32 = u32::MAX;

/// A message in its entity. There may be a million of these: every byte counts.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) content: Content,
    pub(super) enqueued_at: Timestamp,
    /// `NEVER` for a message that does not expire.
    pub(super) expires_at: Timestamp,
    pub(super) enqueued_sequence_number: i64,
    /// The slot of its lock, or [`NONE`].
    pub(super) lock: u32,
    /// The slot of its session, or [`NONE`].
    pub(super) session: u32,
    pub(super) delivery_count: u32,
    pub(super) state: MessageState,
    /// How often it was forwarded.
    pub(super) hops: u8,
}

impl Entry {
    /// Whether it can be delivered.
    pub(super) fn is_ready(&self) -> bool {
        self.state == MessageState::Active && self.lock == NONE
    }

    /// The number that it had when it was first stored; `number` is the one that it has.
    pub(super) fn first_number(&self, number: i64) -> i64 {
        match self.enqueued_sequence_number {
            0 => number,
            first => first,
        }
    }

    /// The message as it is handed out.
    pub(super) fn stored(&self, number: i64, locked_until: Option<Timestamp>) -> StoredMessage {
        StoredMessage {
            content: self.content.clone(),
            sequence_number: number,
            enqueued_sequence_number: self.enqueued_sequence_number,
            enqueued_at: self.enqueued_at,
            expires_at: (self.expires_at != NEVER).then_some(self.expires_at),
            locked_until,
            delivery_count: self.delivery_count,
            state: self.state,
        }
    }
}

/// Numbers of messages that can be delivered, lowest first.
///
/// New messages come in ascending order, so a queue serves them; only those that are given back need a tree. A
/// number that is discarded may stay in the queue until it is met or until such numbers prevail: a discarded message
/// never becomes ready again, so what is met there is ready exactly if the entity says so.
#[derive(Debug, Default)]
pub(super) struct Ready {
    fresh: VecDeque<i64>,
    returned: BTreeSet<i64>,
    stale: usize,
}

impl Ready {
    pub(super) fn add(&mut self, number: i64) {
        if self.fresh.back().is_none_or(|last| *last < number) {
            self.fresh.push_back(number);
        } else {
            self.returned.insert(number);
        }
    }

    /// The lowest number; takes stale ones away in front of it.
    fn first(&mut self, messages: &Messages) -> Option<i64> {
        if self.stale > 0 {
            while let Some(number) = self.fresh.front() {
                if messages.get(*number).is_some_and(Entry::is_ready) {
                    break;
                }
                self.fresh.pop_front();
                self.stale = self.stale.saturating_sub(1);
            }
        }
        match (self.fresh.front(), self.returned.first()) {
            (Some(fresh), Some(returned)) => Some(*fresh.min(returned)),
            (fresh, returned) => fresh.or(returned).copied(),
        }
    }

    fn pop(&mut self, messages: &Messages) -> Option<i64> {
        let number = self.first(messages)?;
        if self.fresh.front() == Some(&number) {
            self.fresh.pop_front();
        } else {
            self.returned.remove(&number);
        }
        Some(number)
    }

    /// Takes back a message that was ready and is about to be removed.
    fn discard(&mut self, number: i64, messages: &Messages) {
        if self.returned.remove(&number) {
            return;
        }
        if self.fresh.front() == Some(&number) {
            self.fresh.pop_front();
            return;
        }
        self.stale += 1;
        if self.stale > 32 && self.stale > self.fresh.len() / 2 {
            self.fresh
                .retain(|kept| *kept != number && messages.get(*kept).is_some_and(Entry::is_ready));
            self.stale = 0;
        }
    }
}

/// Message ids of the recent past.
#[derive(Debug, Default)]
pub(super) struct History {
    seen: HashMap<Arc<[u8]>, Timestamp>,
    order: VecDeque<(Timestamp, Arc<[u8]>)>,
}

impl History {
    /// Whether the id was seen within the window; remembers it if not.
    pub(super) fn is_duplicate(&mut self, now: Timestamp, window: Duration, id: Box<[u8]>) -> bool {
        while let Some((at, _)) = self.order.front()
            && after(*at, window) <= now
        {
            if let Some((_, id)) = self.order.pop_front() {
                self.seen.remove(&id);
            }
        }
        if self.seen.contains_key(&*id) {
            return true;
        }
        let id: Arc<[u8]> = id.into();
        self.seen.insert(id.clone(), now);
        self.order.push_back((now, id));
        false
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Which messages are there and expire when the deadline says.
fn expires(messages: &Messages) -> impl Fn(Timestamp, i64) -> bool {
    |at, number| {
        messages
            .get(number)
            .is_some_and(|entry| entry.expires_at == at)
    }
}

/// The messages of one entity.
#[derive(Debug, Default)]
pub(super) struct Log {
    last_number: i64,
    messages: Messages,
    ready: Ready,
    /// Present if every message belongs to a session.
    pub(super) sessions: Option<Sessions>,
    /// Receivers with credit, in the order in which they got it.
    pub(super) waiting: BTreeMap<u64, ConsumerId>,
    /// All receivers.
    pub(super) consumers: BTreeSet<ConsumerId>,
    /// When the locks on the messages end, by slot; but for those that end with a session's.
    pub(super) lock_ends: Deadlines<u32>,
    /// When the messages expire.
    expiries: Deadlines<i64>,
    pub(super) history: History,
    pub(super) active: usize,
    pub(super) deferred: usize,
    pub(super) scheduled: usize,
    pub(super) size: u64,
}

impl Log {
    /// The log of an entity with or without sessions.
    pub(super) fn new(requires_session: bool) -> Self {
        Self {
            sessions: requires_session.then(Sessions::default),
            ..Self::default()
        }
    }

    /// The number of the next message.
    pub(super) fn take_number(&mut self) -> i64 {
        self.last_number += 1;
        self.last_number
    }

    /// The number that the next message will have.
    pub(super) fn next_number(&self) -> i64 {
        self.last_number + 1
    }

    fn count(&mut self, state: MessageState) -> &mut usize {
        match state {
            MessageState::Active => &mut self.active,
            MessageState::Deferred => &mut self.deferred,
            MessageState::Scheduled => &mut self.scheduled,
        }
    }

    /// Stores a message; an active one is ready from now on.
    pub(super) fn insert(&mut self, number: i64, mut entry: Entry) {
        *self.count(entry.state) += 1;
        self.size += entry.content.size();
        let active = entry.state == MessageState::Active;
        if active && let Some(sessions) = &mut self.sessions {
            entry.session = sessions.join(entry.content.session_id().unwrap_or_default());
        }
        self.messages.insert(number, entry);
        if active {
            self.make_ready(number);
        }
    }

    /// Removes a message, which must not be locked.
    pub(super) fn remove(&mut self, number: i64) -> Option<Entry> {
        let entry = self.messages.remove(number)?;
        *self.count(entry.state) -= 1;
        self.size -= entry.content.size();
        if entry.expires_at != NEVER {
            self.expiries.forget(number, expires(&self.messages));
        }
        let discard = entry.is_ready();
        match (&mut self.sessions, entry.session) {
            (Some(sessions), slot) if slot != NONE => {
                if let Some(session) = sessions.get_mut(slot) {
                    if discard {
                        session.ready.discard(number, &self.messages);
                    }
                    session.messages -= 1;
                }
                self.refresh_session(slot);
            }
            _ if discard => self.ready.discard(number, &self.messages),
            _ => {}
        }
        Some(entry)
    }

    /// Sets the timer for the end of a message.
    pub(super) fn set_expiry(&mut self, timers: &mut Timers, id: EntityId, number: i64) {
        let Some(at) = self.messages.get(number).map(|entry| entry.expires_at) else {
            return;
        };
        if at != NEVER && self.expiries.add(at, number) {
            self.expiries.arm(timers, Timer::Expiries(id));
        } else {
            timers.set(at, Timer::Expire(id, number));
        }
    }

    /// Takes a message whose time is up, as far as they are in order; sets the timer for the next.
    pub(super) fn take_expired(
        &mut self,
        timers: &mut Timers,
        id: EntityId,
        now: Timestamp,
    ) -> Option<i64> {
        let number = self.expiries.pop(now, expires(&self.messages));
        if number.is_none() {
            self.expiries.rearm(timers, Timer::Expiries(id));
        }
        number
    }

    /// Takes the timers for locks and expiry back.
    pub(super) fn clear_timers(&mut self, timers: &mut Timers, id: EntityId) {
        self.lock_ends.clear(timers, Timer::Locks(id));
        self.expiries.clear(timers, Timer::Expiries(id));
    }

    /// Removes a message that was just taken with [`take_ready`](Self::take_ready).
    pub(super) fn remove_taken(&mut self, number: i64) -> Option<Entry> {
        if let Some(entry) = self.messages.get_mut(number) {
            // Anything but ready, so that it is not looked for among the ready ones.
            entry.lock = 0;
        }
        self.remove(number)
    }

    pub(super) fn get(&self, number: i64) -> Option<&Entry> {
        self.messages.get(number)
    }

    pub(super) fn get_mut(&mut self, number: i64) -> Option<&mut Entry> {
        self.messages.get_mut(number)
    }

    /// Messages with at least this number, in order.
    pub(super) fn range(&self, from: i64) -> impl Iterator<Item = (i64, &Entry)> {
        self.messages.range(from)
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Makes an active message without lock available.
    pub(super) fn make_ready(&mut self, number: i64) {
        let Some(entry) = self.messages.get(number) else {
            return;
        };
        match &mut self.sessions {
            Some(sessions) => {
                let slot = entry.session;
                if let Some(session) = sessions.get_mut(slot) {
                    session.ready.add(number);
                }
                self.refresh_session(slot);
            }
            None => self.ready.add(number),
        }
    }

    /// Changes the state of a message that is neither ready nor about to be.
    pub(super) fn set_state(&mut self, number: i64, state: MessageState) {
        if let Some(entry) = self.messages.get_mut(number) {
            let old = std::mem::replace(&mut entry.state, state);
            *self.count(old) -= 1;
            *self.count(state) += 1;
        }
    }

    /// Replaces the content of a message.
    pub(super) fn set_content(&mut self, number: i64, content: Content) {
        if let Some(entry) = self.messages.get_mut(number) {
            self.size -= entry.content.size();
            self.size += content.size();
            entry.content = content;
        }
    }

    /// Takes the lowest message that is ready: of the entity, or of one session.
    pub(super) fn take_ready(&mut self, session: u32) -> Option<i64> {
        if session == NONE {
            return self.ready.pop(&self.messages);
        }
        let number = self
            .sessions
            .as_mut()?
            .get_mut(session)?
            .ready
            .pop(&self.messages);
        self.refresh_session(session);
        number
    }

    /// Brings the index of free sessions up to date after a change to one of them; forgets it if nothing is left.
    pub(super) fn refresh_session(&mut self, slot: u32) {
        let Some(sessions) = &mut self.sessions else {
            return;
        };
        let Some(session) = sessions.get_mut(slot) else {
            return;
        };
        let head = if session.holder.is_none() {
            session.ready.first(&self.messages)
        } else {
            None
        };
        sessions.set_head(slot, head);
    }

    /// Forgets all messages, and all sessions that nobody holds.
    pub(super) fn clear(&mut self) -> u64 {
        let count = self.messages.len() as u64;
        self.messages = Messages::default();
        self.ready = Ready::default();
        self.active = 0;
        self.deferred = 0;
        self.scheduled = 0;
        self.size = 0;
        self.history.clear();
        if let Some(sessions) = &mut self.sessions {
            sessions.clear();
        }
        count
    }
}
