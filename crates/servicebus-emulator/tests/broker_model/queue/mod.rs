//! A queue and its dead letters: nothing is lost, nothing is in two places, counts are right, and sessions keep their
//! order.

mod check;
mod ops;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use proptest::prelude::*;
use servicebus_amqp::types::Timestamp;
use servicebus_emulator::broker::*;

use self::ops::{Op, op};
use crate::message::{encode, name, pick};

const LOCK: u64 = 30;
const MAX_DELIVERIES: u32 = 3;
const SESSIONS: [&str; 3] = ["a", "b", "c"];

/// Where the model knows a message to be. The name of a message is its body, which never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Scheduled,
    Active,
    Deferred,
    DeadLetter,
    /// Completed, received and deleted, cancelled, deleted or expired.
    Gone,
}

struct Model {
    broker: Broker,
    now: Timestamp,
    queue: EntityId,
    dead_letters: EntityId,
    sessions: bool,
    places: BTreeMap<u32, Place>,
    /// Deliveries that were not settled, by name of the message; the broker may have taken them back meanwhile.
    held: Vec<(u32, Delivery)>,
    consumers: Vec<ConsumerId>,
    /// Consumers that hold a session, and the number of the last message that was delivered there for the first time.
    order: BTreeMap<ConsumerId, i64>,
    transaction: Option<TransactionId>,
    in_transaction: Vec<(u32, Option<Place>)>,
    /// Messages with a time to live, and when it ends.
    mortal: BTreeMap<u32, Timestamp>,
    dead_letter_on_expiration: bool,
    next: u32,
}

impl Model {
    fn new(sessions: bool, dead_letter_on_expiration: bool) -> Self {
        let mut broker = Broker::new(Limits::unlimited(), 7);
        let now = Timestamp::from_millis(1_700_000_000_000);
        let queue = broker
            .apply(
                now,
                CreateQueue {
                    namespace: "ns".into(),
                    name: "q".into(),
                    options: QueueOptions {
                        lock_duration: Duration::from_secs(LOCK),
                        max_delivery_count: MAX_DELIVERIES,
                        requires_session: sessions,
                        dead_letter_on_expiration,
                        ..QueueOptions::default()
                    },
                },
            )
            .unwrap();
        Self {
            dead_letters: broker.resolve("ns", "q/$DeadLetterQueue").unwrap(),
            broker,
            now,
            queue,
            sessions,
            places: BTreeMap::new(),
            held: Vec::new(),
            consumers: Vec::new(),
            order: BTreeMap::new(),
            transaction: None,
            in_transaction: Vec::new(),
            mortal: BTreeMap::new(),
            dead_letter_on_expiration,
            next: 0,
        }
    }

    fn apply<C: Command>(&mut self, command: C) -> Result<C::Reply, Error> {
        self.broker.apply(self.now, command)
    }

    fn new_message(&mut self, session: usize, ttl: Option<u8>, delay: Option<u8>) -> (u32, Bytes) {
        let name = self.next;
        self.next += 1;
        let session = self.sessions.then_some(SESSIONS[session]);
        let at = delay
            .map(|delay| Timestamp::from_millis(self.now.as_millis() + i64::from(delay) * 1000));
        let ttl = ttl.map(|ttl| u32::from(ttl) * 1000);
        if let Some(ttl) = ttl {
            let end = Timestamp::from_millis(self.now.as_millis() + i64::from(ttl));
            self.mortal.insert(name, end);
        }
        (name, encode(name, session, ttl, at))
    }

    fn receive_deferred(&mut self, n: u8, delete: bool) {
        let deferred = self.stored(MessageState::Deferred);
        let Some((number, name)) = pick(&deferred, n).copied() else {
            return;
        };
        let snapshot = self.broker.snapshot(self.queue).unwrap();
        let message = snapshot
            .messages
            .iter()
            .find(|message| message.message.sequence_number() == number)
            .unwrap();
        let session = message.message.session_id();
        let free = message.lock.is_none()
            && (!self.sessions
                || snapshot
                    .sessions
                    .iter()
                    .any(|held| Some(&held.id) == session.as_ref() && held.locked_until.is_some()));
        let received = self.apply(ReceiveDeferred {
            entity: self.queue,
            sequence_numbers: vec![number],
            mode: if delete {
                ReceiveMode::ReceiveAndDelete
            } else {
                ReceiveMode::PeekLock
            },
            session,
        });
        assert_eq!(received.is_ok(), free);
        for delivery in received.into_iter().flatten() {
            if delete {
                self.places.insert(name, Place::Gone);
            } else {
                self.held.push((name, delivery));
            }
        }
    }

    fn end_transaction(&mut self, commit: bool) {
        let Some(transaction) = self.transaction.take() else {
            return;
        };
        let end = if commit {
            TransactionEnd::Commit
        } else {
            TransactionEnd::Rollback
        };
        // What a settlement in the transaction did before it: dead-lettering by count may change the target place.
        let ended = self.apply(EndTransaction { transaction, end });
        let steps = std::mem::take(&mut self.in_transaction);
        if ended.is_ok() && commit {
            for (name, place) in steps {
                self.places.insert(name, place.unwrap_or(Place::Active));
                if place.is_some() {
                    self.held.retain(|(other, _)| *other != name);
                }
            }
        }
    }

    /// Settles, and notes where the message is then.
    fn note(
        &mut self,
        name: u32,
        delivery: Delivery,
        place: Place,
        settle: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) {
        let token = delivery.token.unwrap();
        let bound = self
            .in_transaction
            .iter()
            .any(|(other, place)| *other == name && place.is_some());
        let locked = self.is_locked(token);
        let place = self.place_after(name, place);
        match settle(self) {
            Ok(()) => {
                assert!(locked, "a lock that is gone was accepted");
                self.held.retain(|(_, held)| held.token != Some(token));
                self.places.insert(name, place);
            }
            Err(error) => {
                assert!(
                    !locked || bound,
                    "a lock that is there was refused: {error}"
                );
                if !bound {
                    self.held.retain(|(_, held)| held.token != Some(token));
                }
            }
        }
    }

    /// A deferred message that is abandoned stays deferred.
    fn place_after(&self, name: u32, place: Place) -> Place {
        match (self.places[&name], place) {
            (Place::Deferred, Place::Active) => Place::Deferred,
            _ => place,
        }
    }

    fn is_locked(&self, token: LockToken) -> bool {
        self.broker
            .snapshot(self.queue)
            .unwrap()
            .messages
            .iter()
            .any(|message| message.lock == Some(token))
    }

    fn stored(&self, state: MessageState) -> Vec<(i64, u32)> {
        self.broker
            .snapshot(self.queue)
            .unwrap()
            .messages
            .iter()
            .filter(|message| message.message.state() == state)
            .map(|message| (message.message.sequence_number(), name(&message.message)))
            .collect()
    }

    fn names(&self, entity: EntityId) -> BTreeSet<u32> {
        let snapshot = self.broker.snapshot(entity).unwrap();
        let names: BTreeSet<_> = snapshot
            .messages
            .iter()
            .map(|message| name(&message.message))
            .collect();
        assert_eq!(
            names.len(),
            snapshot.messages.len(),
            "a message is there twice"
        );
        names
    }
}

fn run(sessions: bool, dead_letter_on_expiration: bool, ops: &[Op]) {
    let mut model = Model::new(sessions, dead_letter_on_expiration);
    for op in ops {
        model.step(op);
        model.drain_effects();
        model.check();
    }
    model.finish();
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn nothing_is_lost_or_doubled(
        sessions: bool,
        dead_letter_on_expiration: bool,
        ops in prop::collection::vec(op(), 1..80),
    ) {
        run(sessions, dead_letter_on_expiration, &ops);
    }
}
