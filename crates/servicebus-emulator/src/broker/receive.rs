//! Receiving links: attach, credit, delivery.

use super::{
    Attached, Broker, ConsumerId, Delivery, Effect, EntityId, Error, EventKind, LockToken,
    ReceiveMode, SessionRequest,
    command::{AttachReceiver, DetachReceiver, Operation, SetCredit},
    entity::Kind,
    lock::Lock,
    log::NONE,
    session::SessionEnd,
    time::{NEVER, after},
    timer::Timer,
};

impl Broker {
    pub(super) fn attach_receiver(&mut self, command: AttachReceiver) -> Result<Attached, Error> {
        let id = command.entity;
        self.fail_if_asked(id, Operation::Attach)?;
        self.touch(id);
        let entity = self.entity(id)?;
        if matches!(entity.kind, Kind::Topic { .. }) {
            return Err(Error::not_allowed(
                "A message receiver cannot be created on a topic. Create it on one of its subscriptions.",
            ));
        }
        if !entity.policy.status.may_receive() {
            return Err(Self::disabled(entity));
        }
        if entity.policy.forward_to.is_some() {
            return Err(Error::not_allowed(
                "Cannot create a message receiver on an entity with auto-forwarding enabled.",
            ));
        }
        let sessions = entity.log.sessions.is_some();
        match (&command.session, sessions) {
            (SessionRequest::None, true) => {
                return Err(Error::not_allowed(
                    "It is not possible for an entity that requires sessions to create a non-sessionful message receiver.",
                ));
            }
            (SessionRequest::Named(_) | SessionRequest::Next { .. }, false) => {
                return Err(Error::not_allowed(
                    "A sessionful message receiver cannot be created on an entity that does not require sessions.",
                ));
            }
            _ => {}
        }

        let consumer = self.consumers.insert(id, command.mode);
        if let Some(entity) = self.entities.get_mut(id) {
            entity.log.consumers.insert(consumer);
        }
        let granted = match command.session {
            SessionRequest::None => {
                return Ok(Attached::Ready {
                    consumer,
                    session: None,
                });
            }
            SessionRequest::Named(ref name) => self.accept_session(consumer, id, name).map(Some),
            SessionRequest::Next { .. } => self.accept_next_session(consumer, id),
        };
        match (granted, command.session) {
            (Ok(Some(session)), _) => Ok(Attached::Ready {
                consumer,
                session: Some(session),
            }),
            (Ok(None), SessionRequest::Next { wait }) => {
                let until = after(self.now, wait.unwrap_or(self.limits.accept_wait));
                let ticket = self.consumers.ticket();
                let place = *ticket;
                *ticket += 1;
                if let Some(consumer) = self.consumers.get_mut(consumer) {
                    consumer.accepting = Some((place, until));
                }
                if let Some(sessions) = self
                    .entities
                    .get_mut(id)
                    .and_then(|entity| entity.log.sessions.as_mut())
                {
                    sessions.accepting.insert(place, consumer);
                }
                self.timers.set(until, Timer::Accept(consumer));
                Ok(Attached::Waiting { consumer })
            }
            (Ok(None), _) => Err(Error::session_lock_lost()),
            (Err(error), _) => {
                self.remove_consumer(consumer);
                Err(error)
            }
        }
    }

    pub(super) fn detach_receiver(&mut self, command: DetachReceiver) -> Result<(), Error> {
        self.remove_consumer(command.consumer);
        Ok(())
    }

    /// Removes a receiver: its place in line, its session, but not its other locks.
    pub(super) fn remove_consumer(&mut self, id: ConsumerId) {
        let ticket = self.stop_accepting(id);
        let Some(consumer) = self.consumers.get_mut(id) else {
            return;
        };
        let (entity, session) = (consumer.entity, consumer.session);
        if let Some(entity) = self.entities.get_mut(entity) {
            entity.log.consumers.remove(&id);
            self.consumers
                .set_credit(id, 0, Some(&mut entity.log.waiting));
            if let (Some(ticket), Some(sessions)) = (ticket, &mut entity.log.sessions) {
                sessions.accepting.remove(&ticket);
            }
        }
        self.consumers.remove(id);
        if session != NONE {
            self.end_session(entity, session, SessionEnd::Released);
        }
        self.touch(entity);
    }

    /// Detaches all receivers of an entity.
    pub(super) fn detach_receivers(&mut self, id: EntityId, error: &Error) {
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        let consumers: Vec<_> = entity.log.consumers.iter().copied().collect();
        for consumer in &consumers {
            // Out of the line first, or the session of one would be offered to the next.
            self.consumers.set_credit(
                *consumer,
                0,
                self.entities
                    .get_mut(id)
                    .map(|entity| &mut entity.log.waiting),
            );
        }
        for consumer in consumers {
            let waits = self
                .consumers
                .get(consumer)
                .is_some_and(|consumer| consumer.accepting.is_some());
            self.remove_consumer(consumer);
            let error = error.clone();
            self.effects.push_back(if waits {
                Effect::SessionRefused { consumer, error }
            } else {
                Effect::DetachReceiver { consumer, error }
            });
        }
    }

    /// Detaches all links of an entity.
    pub(super) fn detach_all(&mut self, id: EntityId, error: &Error) {
        let error = self.track(id, error.clone());
        self.detach_receivers(id, &error);
        self.effects
            .push_back(Effect::DetachSenders { entity: id, error });
    }

    pub(super) fn set_credit(&mut self, command: SetCredit) -> Result<(), Error> {
        let id = command.consumer;
        let Some(consumer) = self.consumers.get(id) else {
            return Ok(());
        };
        let (entity_id, session) = (consumer.entity, consumer.session);
        let Some(entity) = self.entities.get_mut(entity_id) else {
            return Ok(());
        };
        entity.used_at = self.now;
        let waiting = entity
            .log
            .sessions
            .is_none()
            .then_some(&mut entity.log.waiting);
        self.consumers.set_credit(id, command.credit, waiting);
        self.dispatch(entity_id, session);
        if command.drain
            && let Some(entity) = self.entities.get_mut(entity_id)
        {
            self.consumers
                .set_credit(id, 0, Some(&mut entity.log.waiting));
        }
        Ok(())
    }

    /// Delivers what can be delivered, of an entity without sessions or of one session, after something changed there.
    pub(super) fn dispatch(&mut self, id: EntityId, session: u32) {
        self.serve(id, session);
        if session != NONE {
            self.offer_sessions(id);
        }
    }

    /// Delivers to the receivers that are there.
    pub(super) fn serve(&mut self, id: EntityId, session: u32) {
        loop {
            let Some(entity) = self.entities.get_mut(id) else {
                return;
            };
            let consumer_id = match &entity.log.sessions {
                None => entity.log.waiting.first_key_value().map(|(_, id)| *id),
                Some(sessions) => sessions.get(session).and_then(|session| session.holder),
            };
            let Some(consumer_id) = consumer_id else {
                break;
            };
            let Some(consumer) = self.consumers.get_mut(consumer_id) else {
                break;
            };
            if consumer.credit() == 0 || !entity.is_receivable() {
                break;
            }
            let Some(number) = entity.log.take_ready(session) else {
                break;
            };
            let mode = consumer.mode;
            if let Some(ticket) = consumer.spend() {
                entity.log.waiting.remove(&ticket);
            }
            if let Some(delivery) = self.hand_out(id, number, Some(consumer_id), mode) {
                self.effects.push_back(Effect::Deliver(delivery));
            }
        }
    }

    /// Locks or removes a message that is not in the ready list.
    pub(super) fn hand_out(
        &mut self,
        id: EntityId,
        number: i64,
        consumer: Option<ConsumerId>,
        mode: ReceiveMode,
    ) -> Option<Delivery> {
        let entity = self.entities.get_mut(id)?;
        if mode == ReceiveMode::ReceiveAndDelete {
            let entry = entity.log.remove_taken(number)?;
            self.timers
                .cancel(entry.expires_at, Timer::Expire(id, number));
            self.record(id, || EventKind::ReceivedAndDeleted {
                sequence_number: number,
            });
            return Some(Delivery {
                consumer,
                token: None,
                message: entry.stored(number, None),
            });
        }
        let until = after(self.now, entity.policy.lock_duration);
        let entry = entity.log.get_mut(number)?;
        let vacant = self.locks.vacant_entry();
        let slot = u32::try_from(vacant.key()).unwrap_or(NONE);
        let token = LockToken(self.ids.uuid_for(slot));
        entry.lock = slot;
        let session = entry.session;
        let mut message = entry.stored(number, Some(until));
        let lock_until = match &mut entity.log.sessions {
            Some(sessions) => {
                if let Some(session) = sessions.get_mut(session) {
                    session.in_flight.insert(number);
                    message.locked_until = Some(session.locked_until);
                }
                NEVER
            }
            None => until,
        };
        vacant.insert(Lock {
            token,
            entity: id,
            number,
            until: lock_until,
            transaction: NONE,
        });
        if lock_until != NEVER {
            self.set_lock_timer(id, lock_until, slot);
        }
        self.record(id, || EventKind::Locked {
            sequence_number: number,
            token,
        });
        Some(Delivery {
            consumer,
            token: Some(token),
            message,
        })
    }
}
