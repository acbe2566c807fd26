//! What becomes of messages that were delivered.

use servicebus_amqp::types::Map;

use super::{
    Broker, Delivery, EntityId, Error, ErrorKind, EventKind, LockToken, MessageState, Settlement,
    SettlementKind,
    command::{Operation, ReceiveDeferred, Settle, UpdateDispositions},
    dead_letter,
    entity::Kind,
    log::{Entry, NONE},
    timer::Timer,
    transaction::Step,
};
use crate::names::dead_letter::{EXPIRED, EXPIRED_DESCRIPTION, MAX_DELIVERY_COUNT};

/// How a message comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Return {
    /// Its delivery failed and counts.
    Failed,
    /// Its delivery does not count.
    Uncounted,
}

impl Broker {
    pub(super) fn settle(&mut self, command: Settle) -> Result<(), Error> {
        let transaction = command.transaction;
        self.try_settle(command)
            .inspect_err(|_| self.poison(transaction))
    }

    fn try_settle(&mut self, command: Settle) -> Result<(), Error> {
        self.fail_if_asked(command.entity, Operation::Settle)?;
        let lock = self.settleable(command.entity, command.token, &command.settlement)?;
        match command.transaction {
            None => self.settle_now(command.entity, lock, command.settlement),
            Some(transaction) => {
                self.check_settlement(lock, &command.settlement)?;
                let step = Step::Settle {
                    entity: command.entity,
                    token: command.token,
                    settlement: command.settlement,
                };
                self.enlist(transaction, command.entity, 0, step)?;
                self.bind_lock(lock, transaction);
                Ok(())
            }
        }
    }

    pub(super) fn update_dispositions(&mut self, command: UpdateDispositions) -> Result<(), Error> {
        let id = command.entity;
        self.fail_if_asked(id, Operation::Settle)?;
        let mut seen = std::collections::HashSet::new();
        for token in &command.tokens {
            let lock = self.settleable(id, *token, &command.settlement)?;
            self.check_settlement(lock, &command.settlement)?;
            if !seen.insert(*token) {
                return Err(Error::invalid("A lock token is given twice."));
            }
        }
        for token in command.tokens {
            self.settle(Settle {
                entity: id,
                token,
                settlement: command.settlement.clone(),
                transaction: command.transaction,
            })?;
        }
        Ok(())
    }

    /// The lock that a token stands for, if the message may be settled like this.
    fn settleable(
        &self,
        id: EntityId,
        token: LockToken,
        settlement: &Settlement,
    ) -> Result<u32, Error> {
        let entity = self.entity(id)?;
        let slot = self.find_lock(id, token);
        let lock = slot.and_then(|slot| self.locks.get(slot as usize));
        let (Some(slot), Some(lock)) = (slot, lock) else {
            return Err(if entity.log.sessions.is_some() {
                Error::session_lock_lost()
            } else {
                Error::message_lock_lost()
            });
        };
        if lock.transaction != NONE {
            return Err(Error::not_allowed(
                "The message is already settled within a transaction.",
            ));
        }
        if matches!(settlement, Settlement::DeadLetter { .. })
            && matches!(entity.kind, Kind::DeadLetter { .. })
        {
            return Err(Error::not_allowed(
                "A message of a dead-letter queue cannot be dead-lettered.",
            ));
        }
        Ok(slot)
    }

    /// Whether the properties that a settlement sets can be written into the message.
    fn check_settlement(&self, lock: u32, settlement: &Settlement) -> Result<(), Error> {
        let changes = match settlement {
            Settlement::Complete | Settlement::Release => return Ok(()),
            Settlement::Abandon { properties } | Settlement::Defer { properties } => {
                properties.clone()
            }
            Settlement::DeadLetter {
                reason,
                description,
                properties,
            } => dead_letter::properties(reason.clone(), description.clone(), properties.clone()),
        };
        let entry = self
            .locks
            .get(lock as usize)
            .and_then(|lock| self.entities.get(lock.entity)?.log.get(lock.number));
        match entry {
            Some(entry) => entry
                .content
                .with_application_properties(&changes)
                .map(drop),
            None => Err(Error::message_lock_lost()),
        }
    }

    /// Carries a settlement out.
    pub(super) fn settle_now(
        &mut self,
        id: EntityId,
        lock: u32,
        settlement: Settlement,
    ) -> Result<(), Error> {
        let Some(lock) = self.locks.get(lock as usize) else {
            return Err(Error::message_lock_lost());
        };
        let number = lock.number;
        let session = self
            .entity(id)?
            .log
            .get(number)
            .map_or(NONE, |entry| entry.session);
        let kind = match settlement {
            Settlement::Complete => {
                self.unlock(id, number);
                self.take_out(id, number);
                SettlementKind::Completed
            }
            Settlement::Abandon { properties } => {
                self.modify(id, number, &properties)?;
                self.unlock(id, number);
                self.give_back(id, number, Return::Failed);
                SettlementKind::Abandoned
            }
            Settlement::Release => {
                self.unlock(id, number);
                self.give_back(id, number, Return::Uncounted);
                SettlementKind::Released
            }
            Settlement::Defer { properties } => {
                self.modify(id, number, &properties)?;
                self.unlock(id, number);
                if let Some(entity) = self.entities.get_mut(id) {
                    let counts = entity.policy.max_delivery_count.is_some();
                    entity.log.set_state(number, MessageState::Deferred);
                    if let Some(entry) = entity.log.get_mut(number).filter(|_| counts) {
                        entry.delivery_count = entry.delivery_count.saturating_add(1);
                    }
                }
                SettlementKind::Deferred
            }
            Settlement::DeadLetter {
                reason,
                description,
                properties,
            } => {
                let changes = dead_letter::properties(reason.clone(), description, properties);
                // Found before anything changes: a property that cannot be encoded refuses the settlement.
                let content = self
                    .entity(id)?
                    .log
                    .get(number)
                    .map(|entry| entry.content.with_application_properties(&changes))
                    .transpose()?;
                self.unlock(id, number);
                if let Some(entity) = self.entities.get_mut(id)
                    && let Some(content) = content
                {
                    entity.log.set_content(number, content);
                }
                self.move_to_dead_letter(id, number, reason);
                SettlementKind::DeadLettered
            }
        };
        self.record(id, || EventKind::Settled {
            sequence_number: number,
            settlement: kind,
        });
        self.dispatch(id, session);
        Ok(())
    }

    fn modify(&mut self, id: EntityId, number: i64, properties: &Map) -> Result<(), Error> {
        if properties.is_empty() {
            return Ok(());
        }
        let entity = self.entities.get_mut(id).ok_or_else(Error::entity_gone)?;
        if let Some(entry) = entity.log.get(number) {
            let content = entry.content.with_application_properties(properties)?;
            entity.log.set_content(number, content);
        }
        Ok(())
    }

    /// Removes a message that is neither locked nor ready.
    pub(super) fn take_out(&mut self, id: EntityId, number: i64) -> Option<Entry> {
        let entity = self.entities.get_mut(id)?;
        let entry = entity.log.remove_taken(number)?;
        self.timers
            .cancel(entry.expires_at, Timer::Expire(id, number));
        Some(entry)
    }

    /// Returns a message that is neither locked nor ready to where it was. The caller delivers what it can then.
    pub(super) fn give_back(&mut self, id: EntityId, number: i64, how: Return) {
        let now = self.now;
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        let limit = entity.policy.max_delivery_count;
        let Some(entry) = entity.log.get_mut(number) else {
            return;
        };
        if how == Return::Failed
            && let Some(limit) = limit
        {
            entry.delivery_count = entry.delivery_count.saturating_add(1);
            if entry.delivery_count >= limit {
                let attempts = entry.delivery_count;
                self.dead_letter(
                    id,
                    number,
                    MAX_DELIVERY_COUNT,
                    &format!("Message could not be consumed after {attempts} delivery attempts."),
                );
                return;
            }
        }
        if entry.state != MessageState::Active {
            return;
        }
        if entry.expires_at <= now {
            self.expire(id, number);
        } else {
            entity.log.make_ready(number);
        }
    }

    /// The first message of an entity may have expired.
    pub(super) fn on_expiries(&mut self, id: EntityId) {
        while let Some(number) = self
            .entities
            .get_mut(id)
            .and_then(|entity| entity.log.take_expired(&mut self.timers, id, self.now))
        {
            self.on_expiry(id, number);
        }
    }

    /// A message's time is up.
    pub(super) fn on_expiry(&mut self, id: EntityId, number: i64) {
        let ready = self
            .entities
            .get_mut(id)
            .and_then(|entity| entity.log.get(number))
            .is_some_and(Entry::is_ready);
        // Locked messages are looked at when their lock ends; deferred ones never expire.
        if ready {
            self.expire_ready(id, number);
        }
    }

    fn expire_ready(&mut self, id: EntityId, number: i64) {
        if let Some(entity) = self.entities.get_mut(id)
            && let Some(entry) = entity.log.remove(number)
        {
            // Out of the ready list; from here on like a message that was locked.
            self.expire_entry(id, number, entry);
        }
    }

    fn expire(&mut self, id: EntityId, number: i64) {
        if let Some(entry) = self.take_out(id, number) {
            self.expire_entry(id, number, entry);
        }
    }

    fn expire_entry(&mut self, id: EntityId, number: i64, entry: Entry) {
        self.record(id, || EventKind::Expired {
            sequence_number: number,
        });
        let dead_letters = self
            .entities
            .get_mut(id)
            .is_some_and(|entity| entity.policy.dead_letter_on_expiration);
        if dead_letters {
            self.dead_letter_entry(id, number, entry, EXPIRED, EXPIRED_DESCRIPTION);
        }
    }

    pub(super) fn receive_deferred(
        &mut self,
        command: ReceiveDeferred,
    ) -> Result<Vec<Delivery>, Error> {
        let id = command.entity;
        self.fail_if_asked(id, Operation::Manage)?;
        self.touch(id);
        let entity = self.entity(id)?;
        if !entity.policy.status.may_receive() {
            return Err(Self::disabled(entity));
        }
        let session = if entity.log.sessions.is_some() {
            let name = command.session.as_ref().ok_or_else(|| {
                Error::not_allowed(
                    "A deferred message of a session is received through its session.",
                )
            })?;
            self.held_session(id, name)?.0
        } else {
            NONE
        };
        let entity = self.entity(id)?;
        let mut seen = std::collections::HashSet::new();
        for number in &command.sequence_numbers {
            let found = entity.log.get(*number).is_some_and(|entry| {
                entry.state == MessageState::Deferred
                    && entry.lock == NONE
                    && entry.session == session
            });
            if !found || !seen.insert(*number) {
                return Err(Error::new(
                    ErrorKind::MessageNotFound,
                    format!(
                        "Failed to lock one or more specified messages: the message with sequence number {number} doesn't \
                         exist, is not deferred, or is currently locked."
                    ),
                ));
            }
        }
        Ok(command
            .sequence_numbers
            .iter()
            .filter_map(|number| self.hand_out(id, *number, None, command.mode))
            .collect())
    }
}
