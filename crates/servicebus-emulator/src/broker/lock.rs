//! Locks on messages.

use servicebus_amqp::types::Timestamp;
use slab::Slab;

use super::{
    Broker, EntityId, Error, ErrorKind, EventKind, LockToken,
    command::{ExpireLock, Operation, RenewLocks},
    id::slot_of,
    log::NONE,
    settle::Return,
    time::{NEVER, after},
    timer::Timer,
};

/// The lock on a message.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) token: LockToken,
    pub(super) entity: EntityId,
    pub(super) number: i64,
    /// When it ends; `NEVER` when it ends with that of its session.
    pub(super) until: Timestamp,
    /// The slot of the transaction that the message is settled in, or [`NONE`].
    pub(super) transaction: u32,
}

/// A slot may be in use again: then its lock ends at a time of its own.
fn is_live(locks: &Slab<Lock>) -> impl Fn(Timestamp, u32) -> bool {
    |until, slot| {
        locks
            .get(slot as usize)
            .is_some_and(|lock| lock.until == until)
    }
}

impl Broker {
    /// Sets when the lock in a slot ends.
    pub(super) fn set_lock_timer(&mut self, id: EntityId, until: Timestamp, slot: u32) {
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        if entity.log.lock_ends.add(until, slot) {
            entity.log.lock_ends.arm(&mut self.timers, Timer::Locks(id));
        } else {
            self.timers.set(until, Timer::Lock(slot));
        }
    }

    /// Notes that the lock in a slot no longer ends at this time.
    fn cancel_lock_timer(&mut self, id: EntityId, until: Timestamp, slot: u32) {
        self.timers.cancel(until, Timer::Lock(slot));
        if let Some(entity) = self.entities.get_mut(id) {
            entity.log.lock_ends.forget(slot, is_live(&self.locks));
        }
    }

    /// The first lock of an entity may have run out.
    pub(super) fn on_locks_timeout(&mut self, id: EntityId) {
        while let Some(slot) = self.entities.get_mut(id).and_then(|entity| {
            let ends = &mut entity.log.lock_ends;
            ends.pop(self.now, is_live(&self.locks))
        }) {
            self.on_lock_timeout(slot);
        }
        if let Some(entity) = self.entities.get_mut(id) {
            entity
                .log
                .lock_ends
                .rearm(&mut self.timers, Timer::Locks(id));
        }
    }

    /// The lock in a slot ran out.
    pub(super) fn on_lock_timeout(&mut self, slot: u32) {
        let Some(lock) = self.locks.get(slot as usize) else {
            return;
        };
        // What is settled in a transaction stays locked until the transaction ends.
        if lock.transaction != NONE {
            return;
        }
        let (id, number) = (lock.entity, lock.number);
        self.unlock(id, number);
        self.record(id, || EventKind::LockExpired {
            sequence_number: number,
        });
        self.give_back(id, number, Return::Failed);
        self.dispatch(id, NONE);
    }

    pub(super) fn renew_locks(&mut self, command: RenewLocks) -> Result<Vec<Timestamp>, Error> {
        let id = command.entity;
        self.fail_if_asked(id, Operation::Renew)?;
        self.touch(id);
        let entity = self.entity(id)?;
        if entity.log.sessions.is_some() {
            return Err(Error::not_allowed(
                "The lock of a message in a session is that of the session; renew that.",
            ));
        }
        let until = after(self.now, entity.policy.lock_duration);
        let mut slots = Vec::with_capacity(command.tokens.len().min(1024));
        for token in &command.tokens {
            match self.find_lock(id, *token) {
                Some(slot) => slots.push(slot),
                None => return Err(Error::message_lock_lost()),
            }
        }
        for slot in &slots {
            if let Some(lock) = self.locks.get_mut(*slot as usize)
                && lock.until != until
            {
                let old = std::mem::replace(&mut lock.until, until);
                self.cancel_lock_timer(id, old, *slot);
                self.set_lock_timer(id, until, *slot);
            }
        }
        Ok(vec![until; slots.len()])
    }

    pub(super) fn expire_lock(&mut self, command: ExpireLock) -> Result<(), Error> {
        let slot = self
            .entity(command.entity)?
            .log
            .get(command.sequence_number)
            .map(|entry| entry.lock)
            .filter(|slot| *slot != NONE)
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::MessageNotFound,
                    format!("No message {} is locked.", command.sequence_number),
                )
            })?;
        self.on_lock_timeout(slot);
        Ok(())
    }

    /// Whether a message of the entity is locked with this token.
    pub(crate) fn is_locked(&self, id: EntityId, token: LockToken) -> bool {
        self.find_lock(id, token).is_some()
    }

    /// The slot of a lock, if the token is that of a lock on a message of this entity.
    pub(super) fn find_lock(&self, id: EntityId, token: LockToken) -> Option<u32> {
        let slot = slot_of(token.0);
        let lock = self.locks.get(slot)?;
        (lock.token == token && lock.entity == id).then(|| u32::try_from(slot).ok())?
    }

    /// Takes the lock off a message, which is then neither ready nor locked.
    pub(super) fn unlock(&mut self, id: EntityId, number: i64) {
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        let Some(entry) = entity.log.get_mut(number) else {
            return;
        };
        let (slot, session) = (std::mem::replace(&mut entry.lock, NONE), entry.session);
        if let Some(session) = entity
            .log
            .sessions
            .as_mut()
            .and_then(|sessions| sessions.get_mut(session))
        {
            session.in_flight.remove(&number);
        }
        if let Some(lock) = self.locks.try_remove(slot as usize)
            && lock.until != NEVER
        {
            self.cancel_lock_timer(id, lock.until, slot);
        }
    }
}
