//! Looking at messages without receiving them, and deleting many at once.

use std::sync::Arc;

use servicebus_amqp::types::{ByteString, Timestamp};

use super::{
    Broker, ConsumerId, EntityId, Error, LockToken, MessageState, StoredMessage,
    command::{BatchDelete, Operation, Peek},
    entity::Entity,
    log::NONE,
    timer::Timer,
};

/// How many messages an entity holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "plain figures")]
pub struct Counts {
    /// Active messages, locked ones included.
    pub active: usize,
    /// Deferred messages.
    pub deferred: usize,
    /// Scheduled messages.
    pub scheduled: usize,
    /// Messages in the dead-letter queue.
    pub dead_letter: usize,
    /// Messages in the transfer dead-letter queue.
    pub transfer_dead_letter: usize,
    /// Bytes of all these messages.
    pub size: u64,
}

/// An entity at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// The entity's path.
    pub path: Arc<str>,
    /// How many messages there are.
    pub counts: Counts,
    /// The messages in the order of their numbers.
    pub messages: Vec<MessageSnapshot>,
    /// The sessions in the order of their ids.
    pub sessions: Vec<SessionSnapshot>,
    /// The receivers in the order in which they were attached.
    pub receivers: Vec<ReceiverSnapshot>,
}

/// A message at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MessageSnapshot {
    /// The message.
    pub message: StoredMessage,
    /// Its lock, if there is one.
    pub lock: Option<LockToken>,
}

/// A session at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSnapshot {
    /// The session.
    pub id: ByteString,
    /// How many messages belong to it.
    pub messages: usize,
    /// Until when it is locked, if it is.
    pub locked_until: Option<Timestamp>,
}

/// A receiver at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiverSnapshot {
    /// The receiver.
    pub consumer: ConsumerId,
    /// How many more messages it takes.
    pub credit: u32,
    /// The session that it holds, if any.
    pub session: Option<ByteString>,
}

impl Broker {
    pub(super) fn peek(&mut self, command: Peek) -> Result<Vec<StoredMessage>, Error> {
        self.fail_if_asked(command.entity, Operation::Manage)?;
        self.touch(command.entity);
        let entity = self.entity(command.entity)?;
        if command.session.is_none() && entity.log.sessions.is_some() {
            return Err(Error::not_allowed(
                "It is not possible for an entity that requires sessions to create a non-sessionful message receiver.",
            ));
        }
        Ok(entity
            .log
            .range(command.from)
            .filter(|(_, entry)| {
                command
                    .session
                    .as_ref()
                    .is_none_or(|session| entry.content.session_id() == Some(session))
            })
            .take(command.count.min(self.limits.peek))
            .map(|(number, entry)| entry.stored(number, None))
            .collect())
    }

    pub(super) fn batch_delete(&mut self, command: BatchDelete) -> Result<u32, Error> {
        let id = command.entity;
        self.fail_if_asked(id, Operation::Manage)?;
        self.touch(id);
        let before = command.before.unwrap_or(self.now);
        let count = command.count.min(self.limits.batch_delete);
        let entity = self.entities.get_mut(id).ok_or_else(Error::entity_gone)?;
        let numbers: Vec<_> = entity
            .log
            .range(i64::MIN)
            .filter(|(_, entry)| entry.is_ready() && entry.enqueued_at <= before)
            .filter(|(_, entry)| {
                command
                    .session
                    .as_ref()
                    .is_none_or(|session| entry.content.session_id() == Some(session))
            })
            .take(count as usize)
            .map(|(number, _)| number)
            .collect();
        for number in &numbers {
            if let Some(entry) = entity.log.remove(*number) {
                self.timers
                    .cancel(entry.expires_at, Timer::Expire(id, *number));
            }
        }
        Ok(u32::try_from(numbers.len()).unwrap_or(u32::MAX))
    }

    /// How many messages an entity holds.
    ///
    /// # Errors
    ///
    /// When there is no such entity.
    pub fn counts(&self, id: EntityId) -> Result<Counts, Error> {
        let entity = self.entity(id)?;
        let below = |id: Option<EntityId>| {
            id.and_then(|id| self.entities.get(id))
                .map_or(0, |entity| entity.log.len())
        };
        Ok(Counts {
            active: entity.log.active,
            deferred: entity.log.deferred,
            scheduled: entity.log.scheduled,
            dead_letter: below(entity.dead_letter()),
            transfer_dead_letter: below(entity.transfer_dead_letter()),
            size: self.stored_size(entity),
        })
    }

    /// Everything about an entity at this moment. Costs what it answers: meant for tests.
    ///
    /// # Errors
    ///
    /// When there is no such entity.
    pub fn snapshot(&self, id: EntityId) -> Result<Snapshot, Error> {
        let entity = self.entity(id)?;
        let messages = entity
            .log
            .range(i64::MIN)
            .map(|(number, entry)| {
                let lock = self
                    .locks
                    .get(entry.lock as usize)
                    .filter(|_| entry.lock != NONE);
                let until = lock.map(|lock| lock.until);
                MessageSnapshot {
                    message: entry.stored(number, until),
                    lock: lock.map(|lock| lock.token),
                }
            })
            .collect();
        Ok(Snapshot {
            path: entity.path.clone(),
            counts: self.counts(id)?,
            messages,
            sessions: session_snapshots(entity),
            receivers: self.receiver_snapshots(entity),
        })
    }

    fn receiver_snapshots(&self, entity: &Entity) -> Vec<ReceiverSnapshot> {
        let mut receivers: Vec<_> = entity
            .log
            .consumers
            .iter()
            .filter_map(|id| self.consumers.get(*id))
            .map(|consumer| ReceiverSnapshot {
                consumer: consumer.id,
                credit: consumer.credit(),
                session: entity
                    .log
                    .sessions
                    .as_ref()
                    .and_then(|sessions| sessions.get(consumer.session))
                    .map(|session| ByteString::from(&*session.id)),
            })
            .collect();
        receivers.sort_by_key(|receiver| receiver.consumer.generation);
        receivers
    }
}

fn session_snapshots(entity: &Entity) -> Vec<SessionSnapshot> {
    let mut sessions: Vec<_> = entity
        .log
        .sessions
        .iter()
        .flat_map(|sessions| sessions.iter())
        .map(|session| SessionSnapshot {
            id: ByteString::from(&*session.id),
            messages: session.messages,
            locked_until: session.holder.map(|_| session.locked_until),
        })
        .collect();
    sessions.sort_by(|a, b| a.id.cmp(&b.id));
    sessions
}

/// States of stored messages, as the wire numbers them.
impl From<MessageState> for i32 {
    fn from(state: MessageState) -> Self {
        match state {
            MessageState::Active => 0,
            MessageState::Deferred => 1,
            MessageState::Scheduled => 2,
        }
    }
}
