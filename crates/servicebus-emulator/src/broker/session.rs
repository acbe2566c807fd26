//! Sessions: who holds them, what they remember, which are free.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use servicebus_amqp::types::{ByteString, Timestamp};
use slab::Slab;

use super::{
    Broker, ConsumerId, Effect, EntityId, Error, ErrorKind, EventKind, ReceiveMode, SessionGrant,
    command::{
        ExpireSession, ListSessions, Operation, ReadSessionState, RenewSessionLock,
        WriteSessionState,
    },
    log::{NONE, Ready},
    settle::Return,
    time::after,
    timer::Timer,
};

/// The sessions of one entity.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_id: HashMap<Arc<str>, u32>,
    slots: Slab<Session>,
    /// Free sessions with something to deliver, by their oldest message.
    available: BTreeSet<(i64, u32)>,
    /// Receivers that wait for a free session, in order.
    pub(super) accepting: BTreeMap<u64, ConsumerId>,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: Arc<str>,
    pub(super) ready: Ready,
    /// How many messages belong to it, whatever their state.
    pub(super) messages: usize,
    /// Its place in `available`.
    head: Option<i64>,
    pub(super) holder: Option<ConsumerId>,
    /// When the lock of the holder ends.
    pub(super) locked_until: Timestamp,
    /// Messages that the holder has not settled.
    pub(super) in_flight: BTreeSet<i64>,
    state: Option<Bytes>,
    state_set_at: Timestamp,
}

impl Sessions {
    /// The slot of a session, for one more message.
    pub(super) fn join(&mut self, id: &str) -> u32 {
        let slot = self.open(id);
        if let Some(session) = self.get_mut(slot) {
            session.messages += 1;
        }
        slot
    }

    /// The slot of a session, which comes into being if need be.
    fn open(&mut self, id: &str) -> u32 {
        if let Some(slot) = self.by_id.get(id) {
            return *slot;
        }
        let id: Arc<str> = id.into();
        let slot = self.slots.insert(Session {
            id: id.clone(),
            ready: Ready::default(),
            messages: 0,
            head: None,
            holder: None,
            locked_until: Timestamp::default(),
            in_flight: BTreeSet::new(),
            state: None,
            state_set_at: Timestamp::default(),
        });
        let slot = u32::try_from(slot).unwrap_or(NONE);
        self.by_id.insert(id, slot);
        slot
    }

    pub(super) fn find(&self, id: &str) -> Option<u32> {
        self.by_id.get(id).copied()
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Session> {
        self.slots.get(slot as usize)
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Session> {
        self.slots.get_mut(slot as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.slots.iter().map(|(_, session)| session)
    }

    /// States which message a free session offers; forgets the session if it holds nothing.
    pub(super) fn set_head(&mut self, slot: u32, head: Option<i64>) {
        let Some(session) = self.slots.get_mut(slot as usize) else {
            return;
        };
        if session.head != head {
            if let Some(old) = session.head {
                self.available.remove(&(old, slot));
            }
            if let Some(new) = head {
                self.available.insert((new, slot));
            }
            session.head = head;
        }
        if session.messages == 0 && session.state.is_none() && session.holder.is_none() {
            let id = session.id.clone();
            self.slots.remove(slot as usize);
            self.by_id.remove(&id);
        }
    }

    /// The free session whose first message is the oldest.
    fn next_available(&self) -> Option<u32> {
        self.available.first().map(|(_, slot)| *slot)
    }

    /// Forgets messages and state, and every session that nobody holds.
    pub(super) fn clear(&mut self) {
        self.available.clear();
        for (_, session) in &mut self.slots {
            session.ready = Ready::default();
            session.messages = 0;
            session.head = None;
            session.in_flight.clear();
            session.state = None;
        }
        self.slots.retain(|_, session| session.holder.is_some());
        let slots = &self.slots;
        self.by_id.retain(|id, slot| {
            slots
                .get(*slot as usize)
                .is_some_and(|session| session.id == *id)
        });
    }
}

/// Why a session is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// Its lock ran out: deliveries count as failed.
    Expired,
    /// Its receiver is gone: they do not.
    Released,
}

impl Broker {
    /// Locks a named session for a receiver.
    pub(super) fn accept_session(
        &mut self,
        consumer: ConsumerId,
        entity: EntityId,
        id: &str,
    ) -> Result<SessionGrant, Error> {
        let sessions = self.sessions_mut(entity)?;
        let slot = sessions.open(id);
        if sessions.get(slot).is_some_and(|s| s.holder.is_some()) {
            return Err(Error::new(
                ErrorKind::SessionCannotBeLocked,
                format!(
                    "The requested session '{id}' cannot be accepted. It may be locked by another receiver."
                ),
            ));
        }
        self.lock_session(consumer, entity, slot)
    }

    /// Locks the next free session for a receiver.
    pub(super) fn accept_next_session(
        &mut self,
        consumer: ConsumerId,
        entity: EntityId,
    ) -> Result<Option<SessionGrant>, Error> {
        match self.sessions_mut(entity)?.next_available() {
            Some(slot) => self.lock_session(consumer, entity, slot).map(Some),
            None => Ok(None),
        }
    }

    fn lock_session(
        &mut self,
        consumer: ConsumerId,
        id: EntityId,
        slot: u32,
    ) -> Result<SessionGrant, Error> {
        let now = self.now;
        let entity = self.entities.get_mut(id).ok_or_else(Error::entity_gone)?;
        let until = after(now, entity.policy.lock_duration);
        let session = entity
            .log
            .sessions
            .as_mut()
            .and_then(|sessions| sessions.get_mut(slot))
            .ok_or_else(Error::session_lock_lost)?;
        session.holder = Some(consumer);
        session.locked_until = until;
        let session_id = ByteString::from(&*session.id);
        entity.log.refresh_session(slot);
        let mut timed = true;
        if let Some(consumer) = self.consumers.get_mut(consumer) {
            consumer.session = slot;
            timed = is_timed(consumer.mode);
        }
        if timed {
            self.timers.set(until, Timer::Session(id, slot));
        }
        self.record(id, || EventKind::SessionAccepted {
            session: session_id.clone(),
        });
        Ok(SessionGrant {
            id: session_id,
            locked_until: until,
        })
    }

    /// Gives free sessions to the receivers that wait for one.
    pub(super) fn offer_sessions(&mut self, id: EntityId) {
        loop {
            let Some(entity) = self.entities.get_mut(id) else {
                return;
            };
            let Some(sessions) = &mut entity.log.sessions else {
                return;
            };
            let Some(slot) = sessions.next_available() else {
                return;
            };
            let Some((_, consumer)) = sessions.accepting.pop_first() else {
                return;
            };
            self.stop_accepting(consumer);
            if let Ok(session) = self.lock_session(consumer, id, slot) {
                self.effects
                    .push_back(Effect::SessionAccepted { consumer, session });
                self.serve(id, slot);
            }
        }
    }

    /// Takes the accept timer of a receiver back.
    pub(super) fn stop_accepting(&mut self, id: ConsumerId) -> Option<u64> {
        let (ticket, until) = self.consumers.get_mut(id)?.accepting.take()?;
        self.timers.cancel(until, Timer::Accept(id));
        Some(ticket)
    }

    /// Nobody gave a session up in time.
    pub(super) fn on_accept_timeout(&mut self, id: ConsumerId) {
        let Some(consumer) = self.consumers.get(id) else {
            return;
        };
        let entity = consumer.entity;
        let error = self.track(
            entity,
            Error::new(
                ErrorKind::Timeout,
                "The operation did not complete within the allotted timeout. No session was available.",
            ),
        );
        self.remove_consumer(id);
        self.effects.push_back(Effect::SessionRefused {
            consumer: id,
            error,
        });
    }

    /// The lock on a session ran out.
    pub(super) fn on_session_timeout(&mut self, entity: EntityId, slot: u32) {
        let Some(consumer) = self.end_session(entity, slot, SessionEnd::Expired) else {
            return;
        };
        let error = self.track(entity, Error::session_lock_lost());
        self.remove_consumer(consumer);
        self.effects
            .push_back(Effect::DetachReceiver { consumer, error });
    }

    /// Takes a session from its holder and gives its messages back. Answers who held it.
    pub(super) fn end_session(
        &mut self,
        id: EntityId,
        slot: u32,
        end: SessionEnd,
    ) -> Option<ConsumerId> {
        let session = self
            .entities
            .get_mut(id)?
            .log
            .sessions
            .as_mut()?
            .get_mut(slot)?;
        let consumer = session.holder.take()?;
        let in_flight = std::mem::take(&mut session.in_flight);
        let (session_id, until) = (session.id.clone(), session.locked_until);
        self.timers.cancel(until, Timer::Session(id, slot));
        if let Some(consumer) = self.consumers.get_mut(consumer) {
            consumer.session = NONE;
        }
        for number in in_flight {
            self.unlock(id, number);
            self.give_back(
                id,
                number,
                match end {
                    SessionEnd::Expired => Return::Failed,
                    SessionEnd::Released => Return::Uncounted,
                },
            );
        }
        if let Some(entity) = self.entities.get_mut(id) {
            entity.log.refresh_session(slot);
        }
        self.record(id, || {
            let session = ByteString::from(&*session_id);
            match end {
                SessionEnd::Expired => EventKind::SessionExpired { session },
                SessionEnd::Released => EventKind::SessionReleased { session },
            }
        });
        self.offer_sessions(id);
        Some(consumer)
    }

    fn sessions_mut(&mut self, id: EntityId) -> Result<&mut Sessions, Error> {
        let entity = self.entities.get_mut(id).ok_or_else(Error::entity_gone)?;
        entity.log.sessions.as_mut().ok_or_else(|| {
            Error::not_allowed(
                "A sessionful message receiver cannot be created on an entity that does not require sessions.",
            )
        })
    }

    /// The session that must be held by a receiver.
    pub(super) fn held_session(
        &mut self,
        id: EntityId,
        session: &str,
    ) -> Result<(u32, &mut Session), Error> {
        let sessions = self.sessions_mut(id)?;
        let slot = sessions
            .find(session)
            .ok_or_else(Error::session_lock_lost)?;
        match sessions.get_mut(slot) {
            Some(session) if session.holder.is_some() => Ok((slot, session)),
            _ => Err(Error::session_lock_lost()),
        }
    }

    pub(super) fn renew_session_lock(
        &mut self,
        command: RenewSessionLock,
    ) -> Result<Timestamp, Error> {
        let id = command.entity;
        self.fail_if_asked(id, Operation::Renew)?;
        let now = self.now;
        let duration = self.entity(id)?.policy.lock_duration;
        let (slot, session) = self.held_session(id, &command.session)?;
        let old = std::mem::replace(&mut session.locked_until, after(now, duration));
        let (until, holder) = (session.locked_until, session.holder);
        let mode = holder.and_then(|holder| Some(self.consumers.get(holder)?.mode));
        if mode.is_none_or(is_timed) {
            self.timers.cancel(old, Timer::Session(id, slot));
            self.timers.set(until, Timer::Session(id, slot));
        }
        Ok(until)
    }

    pub(super) fn read_session_state(
        &mut self,
        command: ReadSessionState,
    ) -> Result<Option<Bytes>, Error> {
        self.fail_if_asked(command.entity, Operation::Manage)?;
        let (_, session) = self.held_session(command.entity, &command.session)?;
        Ok(session.state.clone())
    }

    pub(super) fn write_session_state(&mut self, command: WriteSessionState) -> Result<(), Error> {
        self.fail_if_asked(command.entity, Operation::Manage)?;
        if let (Some(state), Some(limit)) = (&command.state, self.limits.message_size)
            && state.len() as u64 > limit
        {
            return Err(Error::new(
                ErrorKind::MessageSizeExceeded,
                format!(
                    "The session state of {} bytes exceeds the limit of {limit} bytes.",
                    state.len()
                ),
            ));
        }
        let now = self.now;
        let (_, session) = self.held_session(command.entity, &command.session)?;
        session.state = command.state.map(|state| Bytes::copy_from_slice(&state));
        session.state_set_at = now;
        Ok(())
    }

    pub(super) fn list_sessions(
        &mut self,
        command: ListSessions,
    ) -> Result<Vec<ByteString>, Error> {
        self.fail_if_asked(command.entity, Operation::Manage)?;
        let sessions = self.sessions_mut(command.entity)?;
        let mut ids: Vec<_> = sessions
            .iter()
            .filter(|session| match command.updated_after {
                Some(time) => session.state.is_some() && session.state_set_at > time,
                None => session.messages > 0 || session.state.is_some(),
            })
            .map(|session| &*session.id)
            .collect();
        ids.sort_unstable();
        Ok(ids
            .into_iter()
            .skip(command.skip)
            .take(command.top)
            .map(ByteString::from)
            .collect())
    }

    pub(super) fn expire_session(&mut self, command: ExpireSession) -> Result<(), Error> {
        let (slot, _) = self.held_session(command.entity, &command.session)?;
        self.on_session_timeout(command.entity, slot);
        Ok(())
    }
}

/// Whether a session is taken from its holder when the lock runs out. One that deletes what it receives keeps the session
/// while its link lasts: the official SDK for Python reads for as long as the lock and expects the link to be there still.
fn is_timed(mode: ReceiveMode) -> bool {
    mode == ReceiveMode::PeekLock
}
