//! Dead letters.

use servicebus_amqp::types::{ByteString, Map};

use super::{
    Broker, EntityId, Error, ErrorKind, EventKind, MessageState,
    command::DeadLetter,
    log::{Entry, NONE},
    settle::Return,
    time::NEVER,
    timer::Timer,
};
use crate::names::{annotation, property};

impl Broker {
    pub(super) fn dead_letter_now(&mut self, command: DeadLetter) -> Result<(), Error> {
        let (id, number) = (command.entity, command.sequence_number);
        let entity = self.entity(id)?;
        if entity.dead_letter().is_none() {
            return Err(Error::not_allowed(
                "Only messages of a queue or subscription can be dead-lettered.",
            ));
        }
        let entry = entity
            .log
            .get(number)
            .filter(|entry| entry.state != MessageState::Scheduled)
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::MessageNotFound,
                    format!("There is no message {number} to dead-letter."),
                )
            })?;
        let reason = Some(command.reason);
        let changes = properties(reason.clone(), Some(command.description), Map::new());
        let content = entry.content.with_application_properties(&changes)?;
        if entry.lock != NONE {
            let bound = self.locks.get(entry.lock as usize);
            if bound.is_some_and(|lock| lock.transaction != NONE) {
                return Err(Error::not_allowed(
                    "The message is already settled within a transaction.",
                ));
            }
            self.unlock(id, number);
            self.give_back(id, number, Return::Uncounted);
        }
        let removed = self
            .entities
            .get_mut(id)
            .and_then(|entity| entity.log.remove(number));
        if let Some(mut entry) = removed {
            self.timers
                .cancel(entry.expires_at, Timer::Expire(id, number));
            entry.content = content;
            self.place_dead_letter(id, number, entry, reason);
        }
        Ok(())
    }

    /// Moves a message that is neither locked nor ready to the dead-letter queue, for a reason of the broker's.
    pub(super) fn dead_letter(
        &mut self,
        id: EntityId,
        number: i64,
        reason: &'static str,
        description: &str,
    ) {
        if let Some(entry) = self.take_out(id, number) {
            self.dead_letter_entry(id, number, entry, reason, description);
        }
    }

    /// Puts a message that is in no log into the dead-letter queue of an entity.
    pub(super) fn dead_letter_entry(
        &mut self,
        id: EntityId,
        number: i64,
        mut entry: Entry,
        reason: &'static str,
        description: &str,
    ) {
        state_reason(&mut entry, reason, description);
        self.place_dead_letter(id, number, entry, Some(ByteString::from_static(reason)));
    }

    pub(super) fn move_to_dead_letter(
        &mut self,
        id: EntityId,
        number: i64,
        reason: Option<ByteString>,
    ) {
        if let Some(entry) = self.take_out(id, number) {
            self.place_dead_letter(id, number, entry, reason);
        }
    }

    fn place_dead_letter(
        &mut self,
        id: EntityId,
        number: i64,
        entry: Entry,
        reason: Option<ByteString>,
    ) {
        self.record(id, || EventKind::DeadLettered {
            sequence_number: number,
            reason,
        });
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        let Some(dead_letter) = entity.dead_letter() else {
            return;
        };
        if let Some(target) = entity.policy.forward_dead_lettered_to.clone() {
            let source = entity.path.clone();
            let content = entry
                .content
                .with_annotation(annotation::DEAD_LETTER_SOURCE, &source);
            if let Ok(content) = content
                && self
                    .forward(id, &target, content, entry.hops, number)
                    .is_ok()
            {
                return;
            }
        }
        self.store_dead_letter(dead_letter, number, entry);
    }

    /// Puts a message into a dead-letter queue, under the number that it had.
    pub(super) fn store_dead_letter(&mut self, queue: EntityId, number: i64, entry: Entry) {
        let Some(queue_entity) = self.entities.get_mut(queue) else {
            return;
        };
        queue_entity.log.insert(
            number,
            Entry {
                expires_at: NEVER,
                lock: NONE,
                session: NONE,
                state: MessageState::Active,
                ..entry
            },
        );
        self.dispatch(queue, NONE);
    }
}

/// States among the application properties why the broker moves a message to a dead-letter queue.
pub(super) fn state_reason(entry: &mut Entry, reason: &'static str, description: &str) {
    let changes = properties(
        Some(ByteString::from_static(reason)),
        Some(description.into()),
        Map::new(),
    );
    // Two short strings can always be encoded; a body that AMQP cannot hold was never taken.
    if let Ok(content) = entry.content.with_application_properties(&changes) {
        entry.content = content;
    }
}

/// What dead-lettering sets among the application properties.
pub(super) fn properties(
    reason: Option<ByteString>,
    description: Option<ByteString>,
    mut properties: Map,
) -> Map {
    if let Some(reason) = reason {
        properties.insert(property::DEAD_LETTER_REASON, reason);
    }
    if let Some(description) = description {
        properties.insert(property::DEAD_LETTER_ERROR_DESCRIPTION, description);
    }
    properties
}
