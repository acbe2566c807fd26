//! What holds after each step, and at the end.

use std::collections::{BTreeMap, BTreeSet};

use servicebus_amqp::types::Timestamp;
use servicebus_emulator::broker::*;

use super::{MAX_DELIVERIES, Model, Place, SESSIONS};
use crate::message::name;

impl Model {
    /// Takes in what the broker did.
    pub(super) fn drain_effects(&mut self) {
        while let Some(effect) = self.broker.poll_effect() {
            match effect {
                Effect::Deliver(delivery) => self.on_delivery(delivery),
                Effect::SessionAccepted { consumer, .. } => {
                    assert!(self.consumers.contains(&consumer));
                }
                Effect::SessionRefused { consumer, .. }
                | Effect::DetachReceiver { consumer, .. } => {
                    self.consumers.retain(|other| *other != consumer);
                }
                Effect::DetachSenders { .. } => panic!("nothing asks for that here"),
            }
        }
    }

    fn on_delivery(&mut self, delivery: Delivery) {
        let name = name(&delivery.message);
        if self.places[&name] == Place::DeadLetter && delivery.token.is_none() {
            self.places.insert(name, Place::Gone);
            return;
        }
        // A message that was scheduled may have become active since; nothing else comes out of the queue.
        assert!(
            matches!(self.places[&name], Place::Active | Place::Scheduled),
            "{name} was delivered from {:?}",
            self.places[&name]
        );
        assert!(delivery.message.delivery_count() < MAX_DELIVERIES);
        if self.sessions && delivery.message.delivery_count() == 0 {
            // First deliveries to one holder of a session come in order.
            let last = self.order.entry(delivery.consumer.unwrap()).or_insert(0);
            assert!(*last < delivery.message.sequence_number());
            *last = delivery.message.sequence_number();
        }
        if delivery.token.is_some() {
            self.places.insert(name, Place::Active);
            self.held.push((name, delivery));
        } else {
            self.places.insert(name, Place::Gone);
        }
    }

    /// Every message is where the model says, or where time may have taken it; counts agree.
    pub(super) fn check(&mut self) {
        let queue = self.broker.snapshot(self.queue).unwrap();
        let dead: BTreeSet<_> = self.names(self.dead_letters);
        let here = self.names(self.queue);
        assert!(here.is_disjoint(&dead), "a message is in two places");
        let states: BTreeMap<_, _> = queue
            .messages
            .iter()
            .map(|message| (name(&message.message), message.message.state()))
            .collect();
        assert!(
            here.iter().all(|name| self.places.contains_key(name)),
            "a message from nowhere"
        );
        let worn: BTreeSet<_> = self
            .broker
            .snapshot(self.dead_letters)
            .unwrap()
            .messages
            .iter()
            .filter(|message| message.message.delivery_count() >= MAX_DELIVERIES)
            .map(|message| name(&message.message))
            .collect();
        for (name, place) in &mut self.places {
            let found = match states.get(name) {
                Some(MessageState::Active) => Place::Active,
                Some(MessageState::Deferred) => Place::Deferred,
                Some(MessageState::Scheduled) => Place::Scheduled,
                None if dead.contains(name) => Place::DeadLetter,
                None => Place::Gone,
            };
            let expired = self.mortal.get(name).is_some_and(|end| *end <= self.now);
            // What the broker does by itself, as time passes and deliveries fail.
            let explained = match (*place, found) {
                (before, after) if before == after => true,
                (Place::Scheduled, Place::Active) => true,
                (Place::Scheduled | Place::Active, Place::DeadLetter) => {
                    worn.contains(name) || (expired && self.dead_letter_on_expiration)
                }
                (Place::Deferred, Place::DeadLetter) => worn.contains(name),
                (Place::Active, Place::Gone) => expired && !self.dead_letter_on_expiration,
                _ => false,
            };
            assert!(explained, "{name} is {found:?}, and not {place:?}");
            *place = found;
        }
        let count = |wanted| {
            self.places
                .values()
                .filter(|place| **place == wanted)
                .count()
        };
        let counts = queue.counts;
        assert_eq!(count(Place::Active), counts.active);
        assert_eq!(count(Place::Deferred), counts.deferred);
        assert_eq!(count(Place::Scheduled), counts.scheduled);
        assert_eq!(count(Place::DeadLetter), counts.dead_letter);
        for (place, entity) in [(here.len(), self.queue), (dead.len(), self.dead_letters)] {
            let counts = self.broker.counts(entity).unwrap();
            assert_eq!(place, counts.active + counts.deferred + counts.scheduled);
        }
    }

    /// Whatever happened, everything that is left can be had in the end, and nothing is left of it then.
    pub(super) fn finish(&mut self) {
        self.end_transaction(false);
        while let Some(consumer) = self.consumers.pop() {
            self.apply(DetachReceiver { consumer }).unwrap();
            self.drain_effects();
        }
        // Longer than every lock and every schedule.
        self.now = Timestamp::from_millis(self.now.as_millis() + 1_000_000);
        self.broker.handle_timeout(self.now);
        self.drain_effects();
        self.check();
        let sessions: &[&str] = if self.sessions { &SESSIONS } else { &[""] };
        let before = self.broker.counts(self.queue).unwrap();
        assert_eq!(before.scheduled, 0);
        for session in sessions {
            let attach = AttachReceiver {
                entity: self.queue,
                mode: ReceiveMode::ReceiveAndDelete,
                session: if self.sessions {
                    SessionRequest::Named((*session).into())
                } else {
                    SessionRequest::None
                },
            };
            let Attached::Ready { consumer, .. } = self.apply(attach).unwrap() else {
                panic!("nobody holds the session")
            };
            self.apply(SetCredit {
                consumer,
                credit: 10_000,
                drain: true,
            })
            .unwrap();
            while let Some(number) = self
                .stored(MessageState::Deferred)
                .first()
                .map(|(number, _)| *number)
            {
                let received = self.apply(ReceiveDeferred {
                    entity: self.queue,
                    sequence_numbers: vec![number],
                    mode: ReceiveMode::ReceiveAndDelete,
                    session: self.sessions.then(|| (*session).into()),
                });
                match received {
                    Ok(received) => {
                        self.places.insert(name(&received[0].message), Place::Gone);
                    }
                    // It belongs to another session.
                    Err(error) => {
                        assert!(self.sessions, "{error}");
                        break;
                    }
                }
            }
            self.apply(DetachReceiver { consumer }).unwrap();
        }
        self.drain_effects();
        self.check();
        if !self.sessions {
            assert_eq!(self.broker.counts(self.queue).unwrap().deferred, 0);
            assert_eq!(self.broker.poll_timeout(), None, "a timer is left");
        }
        let counts = self.broker.counts(self.queue).unwrap();
        assert_eq!(counts.active, 0);
    }
}
