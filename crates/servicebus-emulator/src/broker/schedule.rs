//! Messages that become active later.

use super::{
    Broker, EntityId, Error, ErrorKind, EventKind, MessageState,
    command::{CancelScheduled, Operation, Schedule},
    log::{Entry, NONE},
    message::Content,
    send::{Origin, check_size},
    time::NEVER,
    timer::Timer,
    transaction::Step,
};

impl Broker {
    pub(super) fn schedule(&mut self, command: Schedule) -> Result<Vec<i64>, Error> {
        let transaction = command.transaction;
        self.try_schedule(command)
            .inspect_err(|_| self.poison(transaction))
    }

    fn try_schedule(&mut self, command: Schedule) -> Result<Vec<i64>, Error> {
        let id = command.entity;
        self.fail_if_asked(id, Operation::Send)?;
        let mut contents = Vec::with_capacity(command.messages.len().min(1024));
        for message in &command.messages {
            check_size(message.len(), self.limits.message_size)?;
            contents.push(Content::parse(message)?);
        }
        self.check(id, &contents)?;
        let entity = self.entities.get_mut(id).ok_or_else(Error::entity_gone)?;
        let scheduled: Vec<_> = contents
            .into_iter()
            .map(|content| (entity.log.take_number(), content))
            .collect();
        let numbers = scheduled.iter().map(|(number, _)| *number).collect();
        match command.transaction {
            None => self.store_scheduled(id, scheduled),
            Some(transaction) => {
                let count = scheduled.len();
                let step = Step::Schedule {
                    entity: id,
                    messages: scheduled,
                };
                self.enlist(transaction, id, count, step)?;
            }
        }
        Ok(numbers)
    }

    /// Stores messages under numbers that were promised.
    pub(super) fn store_scheduled(&mut self, id: EntityId, messages: Vec<(i64, Content)>) {
        for (number, content) in messages {
            if self.is_duplicate(id, &content) {
                continue;
            }
            if content.scheduled_at().is_some_and(|at| at > self.now) {
                self.keep_for_later(id, number, content, Origin::default());
            } else {
                let origin = Origin {
                    number,
                    ..Origin::default()
                };
                self.publish(id, content, origin);
            }
        }
    }

    /// Stores a message that becomes active later.
    pub(super) fn keep_for_later(
        &mut self,
        id: EntityId,
        number: i64,
        content: Content,
        origin: Origin,
    ) {
        let now = self.now;
        let at = content.scheduled_at().unwrap_or(now);
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        entity.log.insert(
            number,
            Entry {
                content,
                enqueued_at: now,
                expires_at: NEVER,
                enqueued_sequence_number: origin.number,
                lock: NONE,
                session: NONE,
                delivery_count: 0,
                state: MessageState::Scheduled,
                hops: origin.hops,
            },
        );
        self.timers.set(at, Timer::Activate(id, number));
        self.record(id, || EventKind::Scheduled {
            sequence_number: number,
        });
    }

    /// The time of a scheduled message has come.
    pub(super) fn on_activation(&mut self, id: EntityId, number: i64) {
        let now = self.now;
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        entity.used_at = now;
        let Some(entry) = entity.log.remove(number) else {
            return;
        };
        let origin = Origin {
            hops: entry.hops,
            number: entry.first_number(number),
            time_to_live: None,
        };
        self.publish(id, entry.content, origin);
    }

    pub(super) fn cancel_scheduled(&mut self, command: CancelScheduled) -> Result<(), Error> {
        let id = command.entity;
        self.fail_if_asked(id, Operation::Manage)?;
        self.touch(id);
        let entity = self.entities.get_mut(id).ok_or_else(Error::entity_gone)?;
        let mut seen = std::collections::HashSet::new();
        for number in &command.sequence_numbers {
            let scheduled = entity
                .log
                .get(*number)
                .is_some_and(|entry| entry.state == MessageState::Scheduled);
            if !scheduled || !seen.insert(*number) {
                return Err(Error::new(
                    ErrorKind::MessageNotFound,
                    format!("The scheduled message with sequence number {number} was not found."),
                ));
            }
        }
        for number in command.sequence_numbers {
            let Some(entity) = self.entities.get_mut(id) else {
                break;
            };
            if let Some(entry) = entity.log.remove(number) {
                let at = entry.content.scheduled_at().unwrap_or(NEVER);
                self.timers.cancel(at, Timer::Activate(id, number));
                self.record(id, || EventKind::Cancelled {
                    sequence_number: number,
                });
            }
        }
        Ok(())
    }
}
