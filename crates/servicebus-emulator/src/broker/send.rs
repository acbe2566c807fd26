//! Sending: what is refused, where messages go, and what happens to them on arrival.

use super::{
    Broker, EntityId, Error, ErrorKind, EventKind, MessageState,
    command::{AttachSender, Duplicate, Operation, Send, SenderTerms},
    entity::{Entity, Kind},
    log::{Entry, NONE},
    message::{BATCH_FORMAT, Content},
    time::{NEVER, after},
    transaction::Step,
};
use crate::names::dead_letter;

/// Where a message comes from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Origin {
    /// How often it was forwarded.
    pub(super) hops: u8,
    /// Its number where it first entered; 0 here.
    pub(super) number: i64,
    /// The longest life that the topic above grants.
    pub(super) time_to_live: Option<std::time::Duration>,
}

impl Broker {
    pub(super) fn attach_sender(&mut self, command: AttachSender) -> Result<SenderTerms, Error> {
        self.fail_if_asked(command.entity, Operation::Attach)?;
        self.sendable(command.entity)?;
        Ok(SenderTerms {
            max_message_size: self.limits.message_size,
            max_batch_size: self.limits.batch_size,
        })
    }

    /// The entity, if messages can be sent to it.
    pub(super) fn sendable(&self, id: EntityId) -> Result<&Entity, Error> {
        let entity = self.entity(id)?;
        match entity.kind {
            Kind::Subscription { .. } => Err(Error::not_allowed(
                "Cannot create a message sender for a subscription. Send to its topic.",
            )),
            Kind::DeadLetter { .. } => Err(Error::not_allowed(
                "Cannot create a message sender for a dead-letter queue.",
            )),
            Kind::Queue { .. } | Kind::Topic { .. } if !entity.policy.status.may_send() => {
                Err(Self::disabled(entity))
            }
            Kind::Queue { .. } | Kind::Topic { .. } => Ok(entity),
        }
    }

    pub(super) fn send(&mut self, command: Send) -> Result<(), Error> {
        let transaction = command.transaction;
        self.try_send(command)
            .inspect_err(|_| self.poison(transaction))
    }

    fn try_send(&mut self, command: Send) -> Result<(), Error> {
        let id = command.entity;
        self.fail_if_asked(id, Operation::Send)?;
        let limit = match command.format {
            BATCH_FORMAT => self.limits.batch_size,
            _ => self.limits.message_size,
        };
        check_size(command.payload.len(), limit)?;
        self.sendable(id)?;
        if command.format != BATCH_FORMAT && command.transaction.is_none() {
            let content = Content::parse(&command.payload)?;
            self.check(id, [&content])?;
            self.admit(id, content, Origin::default());
            return Ok(());
        }
        let contents = Content::parse_transfer(&command.payload, command.format)?;
        self.check(id, &contents)?;
        match command.transaction {
            None => {
                for content in contents {
                    self.admit(id, content, Origin::default());
                }
                Ok(())
            }
            Some(transaction) => {
                let count = contents.len();
                let step = Step::Send {
                    entity: id,
                    contents,
                };
                self.enlist(transaction, id, count, step)
            }
        }
    }

    /// Whether an entity takes these messages, all together.
    pub(super) fn check<'a>(
        &self,
        id: EntityId,
        contents: impl IntoIterator<Item = &'a Content>,
    ) -> Result<(), Error> {
        let entity = self.sendable(id)?;
        let mut size = 0u64;
        for content in contents {
            let session = content.session_id();
            if session.is_none() && entity.log.sessions.is_some() {
                return Err(Error::not_allowed(
                    "The SessionId was not set on a message, and it cannot be sent to the entity. Entities that have session \
                     support enabled can only receive messages that have the SessionId set to a valid value.",
                ));
            }
            if let Some(partition_key) = content.partition_key() {
                if session.is_some_and(|session| session != partition_key) {
                    return Err(Error::not_allowed(
                        "The SessionId and the PartitionKey of a message must be equal when both are set.",
                    ));
                }
                self.check_id("PartitionKey", partition_key)?;
            }
            if let Some(session) = session {
                self.check_id("SessionId", session)?;
            }
            if self.limits.id_length.is_some()
                && let Some(message_id) = content.message_id_text()
            {
                self.check_id("MessageId", &message_id)?;
            }
            size = size.saturating_add(content.size());
        }
        if let Some(limit) = entity.policy.max_size.or(self.limits.entity_size) {
            let stored = self.stored_size(entity);
            if stored.saturating_add(size) > limit {
                let kind = match entity.kind {
                    Kind::Topic { .. } => "Topic",
                    _ => "Queue",
                };
                return Err(Error::new(
                    ErrorKind::QuotaExceeded,
                    format!(
                        "The maximum entity size has been reached or exceeded for {kind}: '{}'. Size of entity in bytes:{stored}, \
                         Max entity size in bytes:{limit}.",
                        entity.path
                    ),
                ));
            }
        }
        Ok(())
    }

    fn check_id(&self, name: &str, id: &str) -> Result<(), Error> {
        match self.limits.id_length {
            // Characters are at most as many as bytes.
            Some(limit) if id.len() > limit && id.chars().count() > limit => Err(Error::new(
                ErrorKind::ArgumentOutOfRange,
                format!("The {name} of a message is longer than {limit} characters."),
            )),
            _ => Ok(()),
        }
    }

    /// The bytes of messages in an entity and under it.
    pub(super) fn stored_size(&self, entity: &Entity) -> u64 {
        let below = |id: &EntityId| {
            self.entities
                .get(*id)
                .map_or(0, |below| self.stored_size(below))
        };
        let size = entity.log.size;
        match &entity.kind {
            Kind::Queue {
                dead_letter,
                transfer_dead_letter,
            }
            | Kind::Subscription {
                dead_letter,
                transfer_dead_letter,
                ..
            } => size + below(dead_letter) + below(transfer_dead_letter),
            Kind::Topic { subscriptions } => size + subscriptions.iter().map(below).sum::<u64>(),
            Kind::DeadLetter { .. } => size,
        }
    }

    /// Takes a message that was checked: drops it as a duplicate, keeps it for later, or publishes it.
    pub(super) fn admit(&mut self, id: EntityId, content: Content, origin: Origin) {
        if self.is_duplicate(id, &content) {
            return;
        }
        match content.scheduled_at() {
            Some(at) if at > self.now => {
                let number = self
                    .entities
                    .get_mut(id)
                    .map_or(0, |entity| entity.log.take_number());
                self.keep_for_later(id, number, content, origin);
            }
            _ => self.publish(id, content, origin),
        }
    }

    pub(super) fn is_duplicate(&mut self, id: EntityId, content: &Content) -> bool {
        let now = self.now;
        let Some(entity) = self.entities.get_mut(id) else {
            return false;
        };
        entity.used_at = now;
        let Some(window) = entity.policy.duplicate_detection else {
            return false;
        };
        let duplicate = content
            .message_id_key()
            .is_some_and(|key| entity.log.history.is_duplicate(now, window, key));
        if duplicate {
            self.record(id, || EventKind::DuplicateDropped {
                message_id: content.message_id_text(),
            });
        }
        duplicate
    }

    /// Makes a message active: in a queue, or in the subscriptions of a topic.
    pub(super) fn publish(&mut self, id: EntityId, content: Content, origin: Origin) {
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        if let Kind::Topic { subscriptions } = &entity.kind {
            let subscriptions = subscriptions.clone();
            let number = entity.log.take_number();
            let origin = Origin {
                number: if origin.number == 0 {
                    number
                } else {
                    origin.number
                },
                time_to_live: entity.policy.time_to_live,
                ..origin
            };
            self.fan_out(&subscriptions, &content, origin);
        } else {
            self.arrive(id, content, origin);
        }
    }

    /// A message reaches a queue or subscription.
    pub(super) fn arrive(&mut self, id: EntityId, content: Content, origin: Origin) {
        let now = self.now;
        let header_size = self.limits.header_size;
        let profile_ttl = self.limits.time_to_live;
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        let number = entity.log.take_number();
        let ttl = [
            content.time_to_live(),
            origin.time_to_live,
            entity.policy.time_to_live,
            profile_ttl,
        ];
        let expires_at = ttl
            .into_iter()
            .flatten()
            .min()
            .map_or(NEVER, |ttl| after(now, ttl));
        let no_session = entity.log.sessions.is_some() && content.session_id().is_none();
        let entry = Entry {
            content,
            enqueued_at: now,
            expires_at,
            enqueued_sequence_number: origin.number,
            lock: NONE,
            session: NONE,
            delivery_count: 0,
            state: MessageState::Active,
            hops: origin.hops,
        };
        if header_size.is_some_and(|limit| entry.content.header_size() > limit) {
            let (reason, text) = (
                dead_letter::HEADER_SIZE,
                dead_letter::HEADER_SIZE_DESCRIPTION,
            );
            return self.dead_letter_entry(id, number, entry, reason, text);
        }
        if no_session {
            let (reason, text) = (
                dead_letter::SESSION_ID_NULL,
                dead_letter::SESSION_ID_NULL_DESCRIPTION,
            );
            return self.dead_letter_entry(id, number, entry, reason, text);
        }
        if entity.policy.forward_to.is_some() {
            return self.forward_entry(id, number, entry);
        }

        let message_id = self
            .events
            .is_some()
            .then(|| entry.content.message_id_text())
            .flatten();
        entity.log.insert(number, entry);
        let session = entity.log.get(number).map_or(NONE, |entry| entry.session);
        entity.log.set_expiry(&mut self.timers, id, number);
        self.record(id, || EventKind::Enqueued {
            sequence_number: number,
            message_id,
        });
        self.dispatch(id, session);
    }

    pub(super) fn duplicate(&mut self, command: Duplicate) -> Result<i64, Error> {
        let id = command.entity;
        let entity = self.entity(id)?;
        let entry = entity.log.get(command.sequence_number).ok_or_else(|| {
            Error::new(
                ErrorKind::MessageNotFound,
                format!("There is no message {}.", command.sequence_number),
            )
        })?;
        let content = entry.content.without_schedule();
        let origin = Origin {
            number: entry.enqueued_sequence_number,
            ..Origin::default()
        };
        let number = entity.log.next_number();
        self.arrive(id, content, origin);
        Ok(number)
    }
}

pub(super) fn check_size(size: usize, limit: Option<u64>) -> Result<(), Error> {
    match limit {
        Some(limit) if size as u64 > limit => Err(Error::new(
            ErrorKind::MessageSizeExceeded,
            format!(
                "The received message (delivery-id:0, size:{size} bytes) exceeds the limit ({limit} bytes) currently allowed on \
                 the link."
            ),
        )),
        _ => Ok(()),
    }
}
