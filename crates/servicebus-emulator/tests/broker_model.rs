//! Random commands against a small model of a queue: nothing is lost, nothing is in two places, counts are right, and
//! sessions keep their order.
//!
//! `BROKER_CASES` sets how many cases are run.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use proptest::prelude::*;
use servicebus_amqp::types::{Map, Timestamp};
use servicebus_emulator::broker::*;

const LOCK: u64 = 30;
const MAX_DELIVERIES: u32 = 3;
const SESSIONS: [&str; 3] = ["a", "b", "c"];

/// One step of a case. Small numbers choose among what is there.
#[derive(Clone, Debug)]
enum Op {
    Send { session: usize, ttl: Option<u8> },
    Batch { count: u8 },
    Schedule { session: usize, delay: u8 },
    Cancel { pick: u8 },
    Attach { session: usize, delete: bool },
    AcceptNext,
    Detach { pick: u8 },
    Credit { pick: u8, credit: u8, drain: bool },
    Settle { pick: u8, how: u8 },
    SettleOverManagement { pick: u8 },
    ReceiveDeferred { pick: u8, delete: bool },
    Renew { pick: u8 },
    RenewSession { pick: u8 },
    Begin,
    SettleIn { pick: u8, how: u8 },
    SendIn { session: usize },
    End { commit: bool },
    BatchDelete { count: u8 },
    ExpireLock { pick: u8 },
    Advance { seconds: u8 },
    DrainDeadLetters,
}

fn op() -> impl Strategy<Value = Op> {
    let session = 0..SESSIONS.len();
    prop_oneof![
        8 => (session.clone(), prop::option::weighted(0.3, 1..60u8)).prop_map(|(session, ttl)| Op::Send { session, ttl }),
        1 => (1..4u8).prop_map(|count| Op::Batch { count }),
        2 => (session.clone(), 0..60u8).prop_map(|(session, delay)| Op::Schedule { session, delay }),
        1 => any::<u8>().prop_map(|pick| Op::Cancel { pick }),
        3 => (session.clone(), prop::bool::weighted(0.2)).prop_map(|(session, delete)| Op::Attach { session, delete }),
        2 => Just(Op::AcceptNext),
        2 => any::<u8>().prop_map(|pick| Op::Detach { pick }),
        6 => (any::<u8>(), 0..4u8, prop::bool::weighted(0.3))
            .prop_map(|(pick, credit, drain)| Op::Credit { pick, credit, drain }),
        8 => (any::<u8>(), 0..5u8).prop_map(|(pick, how)| Op::Settle { pick, how }),
        1 => any::<u8>().prop_map(|pick| Op::SettleOverManagement { pick }),
        2 => (any::<u8>(), prop::bool::weighted(0.2)).prop_map(|(pick, delete)| Op::ReceiveDeferred { pick, delete }),
        1 => any::<u8>().prop_map(|pick| Op::Renew { pick }),
        1 => any::<u8>().prop_map(|pick| Op::RenewSession { pick }),
        1 => Just(Op::Begin),
        2 => (any::<u8>(), 0..5u8).prop_map(|(pick, how)| Op::SettleIn { pick, how }),
        1 => session.prop_map(|session| Op::SendIn { session }),
        1 => any::<bool>().prop_map(|commit| Op::End { commit }),
        1 => (0..4u8).prop_map(|count| Op::BatchDelete { count }),
        1 => any::<u8>().prop_map(|pick| Op::ExpireLock { pick }),
        3 => (0..40u8).prop_map(|seconds| Op::Advance { seconds }),
        1 => Just(Op::DrainDeadLetters),
    ]
}

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

/// An encoded message: header with time to live, scheduled time, session, and its name as body.
fn encode(name: u32, session: Option<&str>, ttl: Option<u32>, at: Option<Timestamp>) -> Bytes {
    let mut out = Vec::new();
    if let Some(ttl) = ttl {
        out.extend([0x00, 0x53, 0x70, 0xc0, 8, 3, 0x40, 0x40, 0x70]);
        out.extend(ttl.to_be_bytes());
    }
    if let Some(at) = at {
        let key = b"x-opt-scheduled-enqueue-time";
        out.extend([
            0x00,
            0x53,
            0x72,
            0xc1,
            key.len() as u8 + 12,
            2,
            0xa3,
            key.len() as u8,
        ]);
        out.extend(key);
        out.push(0x83);
        out.extend(at.as_millis().to_be_bytes());
    }
    if let Some(session) = session {
        out.extend([0x00, 0x53, 0x73, 0xc0, session.len() as u8 + 13, 11]);
        out.extend([0x40; 10]);
        out.extend([0xa1, session.len() as u8]);
        out.extend(session.as_bytes());
    }
    out.extend([0x00, 0x53, 0x75, 0xa0, 4]);
    out.extend(name.to_be_bytes());
    out.into()
}

fn name(message: &StoredMessage) -> u32 {
    let bare = message.bare();
    u32::from_be_bytes(bare[bare.len() - 4..].try_into().unwrap())
}

fn pick<T>(from: &[T], n: u8) -> Option<&T> {
    from.get(usize::from(n) % from.len().max(1))
}

fn settlement(how: u8) -> (Settlement, Place) {
    let properties = Map::new();
    match how {
        0 | 1 => (Settlement::Complete, Place::Gone),
        2 => (Settlement::Abandon { properties }, Place::Active),
        3 => (Settlement::Defer { properties }, Place::Deferred),
        _ => (
            Settlement::DeadLetter {
                reason: None,
                description: None,
                properties,
            },
            Place::DeadLetter,
        ),
    }
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

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Send { session, ttl } => {
                let (name, payload) = self.new_message(session, ttl, None);
                self.places.insert(name, Place::Active);
                let entity = self.queue;
                self.apply(Send {
                    entity,
                    payload,
                    format: 0,
                    transaction: None,
                })
                .unwrap();
            }
            Op::Batch { count } => {
                let mut payload = Vec::new();
                for _ in 0..count {
                    let (name, inner) = self.new_message(0, None, None);
                    self.places.insert(name, Place::Active);
                    payload.extend([0x00, 0x53, 0x75, 0xa0, inner.len() as u8]);
                    payload.extend(&inner[..]);
                }
                let entity = self.queue;
                let format = 0x8001_3700;
                self.apply(Send {
                    entity,
                    payload: payload.into(),
                    format,
                    transaction: None,
                })
                .unwrap();
            }
            Op::Schedule { session, delay } => {
                let (name, message) = self.new_message(session, None, Some(delay));
                let place = if delay == 0 {
                    Place::Active
                } else {
                    Place::Scheduled
                };
                self.places.insert(name, place);
                let entity = self.queue;
                self.apply(Schedule {
                    entity,
                    messages: vec![message],
                    transaction: None,
                })
                .unwrap();
            }
            Op::Cancel { pick: n } => {
                let scheduled = self.stored(MessageState::Scheduled);
                if let Some((number, name)) = pick(&scheduled, n).copied() {
                    let entity = self.queue;
                    self.apply(CancelScheduled {
                        entity,
                        sequence_numbers: vec![number],
                    })
                    .unwrap();
                    self.places.insert(name, Place::Gone);
                }
            }
            Op::Attach { session, delete } => {
                let entity = self.queue;
                let mode = if delete {
                    ReceiveMode::ReceiveAndDelete
                } else {
                    ReceiveMode::PeekLock
                };
                let session = if self.sessions {
                    SessionRequest::Named(SESSIONS[session].into())
                } else {
                    SessionRequest::None
                };
                match self.apply(AttachReceiver {
                    entity,
                    mode,
                    session,
                }) {
                    Ok(Attached::Ready { consumer, .. }) => self.consumers.push(consumer),
                    Ok(Attached::Waiting { .. }) => panic!("nobody waits for a named session"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::SessionCannotBeLocked),
                }
            }
            Op::AcceptNext if self.sessions => {
                let (entity, mode) = (self.queue, ReceiveMode::PeekLock);
                let session = SessionRequest::Next {
                    wait: Some(Duration::from_secs(20)),
                };
                match self
                    .apply(AttachReceiver {
                        entity,
                        mode,
                        session,
                    })
                    .unwrap()
                {
                    Attached::Ready { consumer, .. } | Attached::Waiting { consumer } => {
                        self.consumers.push(consumer);
                    }
                }
            }
            Op::AcceptNext => {}
            Op::Detach { pick: n } => {
                if let Some(consumer) = pick(&self.consumers, n).copied() {
                    self.apply(DetachReceiver { consumer }).unwrap();
                    self.consumers.retain(|other| *other != consumer);
                }
            }
            Op::Credit {
                pick: n,
                credit,
                drain,
            } => {
                if let Some(consumer) = pick(&self.consumers, n).copied() {
                    let credit = credit.into();
                    self.apply(SetCredit {
                        consumer,
                        credit,
                        drain,
                    })
                    .unwrap();
                }
            }
            Op::Settle { pick: n, how } => {
                if let Some((name, delivery)) = pick(&self.held, n).cloned() {
                    let (settlement, place) = settlement(how);
                    let (entity, token) = (self.queue, delivery.token.unwrap());
                    let settle = Settle {
                        entity,
                        token,
                        settlement,
                        transaction: None,
                    };
                    self.note(name, delivery, place, |model| model.apply(settle));
                }
            }
            Op::SettleOverManagement { pick: n } => {
                if let Some((name, delivery)) = pick(&self.held, n).cloned() {
                    let update = UpdateDispositions {
                        entity: self.queue,
                        tokens: vec![delivery.token.unwrap()],
                        settlement: Settlement::Complete,
                        transaction: None,
                    };
                    self.note(name, delivery, Place::Gone, |model| model.apply(update));
                }
            }
            Op::ReceiveDeferred { pick: n, delete } => self.receive_deferred(n, delete),
            Op::Renew { pick: n } => {
                if let Some((_, delivery)) = pick(&self.held, n) {
                    let tokens = vec![delivery.token.unwrap()];
                    let locked = self.is_locked(tokens[0]);
                    let entity = self.queue;
                    let renewed = self.apply(RenewLocks { entity, tokens });
                    assert_eq!(renewed.is_ok(), locked && !self.sessions);
                }
            }
            Op::RenewSession { pick: n } => {
                let (entity, session) = (self.queue, SESSIONS[usize::from(n) % 3].into());
                let _ = self.apply(RenewSessionLock { entity, session });
            }
            Op::Begin => {
                if self.transaction.is_none() {
                    self.transaction = Some(self.apply(BeginTransaction).unwrap());
                }
            }
            Op::SettleIn { pick: n, how } => {
                let picked = pick(&self.held, n).cloned();
                if let (Some(transaction), Some((name, delivery))) = (self.transaction, picked) {
                    let (settlement, place) = settlement(how);
                    let (entity, token) = (self.queue, delivery.token.unwrap());
                    let settle = Settle {
                        entity,
                        token,
                        settlement,
                        transaction: Some(transaction),
                    };
                    if self.apply(settle).is_ok() {
                        let place = self.place_after(name, place);
                        self.in_transaction.push((name, Some(place)));
                    }
                }
            }
            Op::SendIn { session } => {
                if let Some(transaction) = self.transaction {
                    let (name, payload) = self.new_message(session, None, None);
                    let entity = self.queue;
                    let send = Send {
                        entity,
                        payload,
                        format: 0,
                        transaction: Some(transaction),
                    };
                    if self.apply(send).is_ok() {
                        self.in_transaction.push((name, None));
                    }
                }
            }
            Op::End { commit } => self.end_transaction(commit),
            Op::BatchDelete { count } => {
                let before: BTreeSet<_> = self.names(self.queue);
                let (entity, count) = (self.queue, count.into());
                let deleted = self
                    .apply(BatchDelete {
                        entity,
                        count,
                        before: None,
                        session: None,
                    })
                    .unwrap();
                let after = self.names(self.queue);
                let gone: Vec<_> = before.difference(&after).copied().collect();
                assert_eq!(gone.len(), deleted as usize);
                for name in gone {
                    assert_eq!(self.places[&name], Place::Active);
                    self.places.insert(name, Place::Gone);
                }
            }
            Op::ExpireLock { pick: n } => {
                if !self.sessions
                    && let Some((_, delivery)) = pick(&self.held, n)
                {
                    let (entity, sequence_number) =
                        (self.queue, delivery.message.sequence_number());
                    let _ = self.apply(ExpireLock {
                        entity,
                        sequence_number,
                    });
                }
            }
            Op::Advance { seconds } => {
                let millis = self.now.as_millis() + i64::from(seconds) * 1000;
                self.now = Timestamp::from_millis(millis);
                self.broker.handle_timeout(self.now);
            }
            Op::DrainDeadLetters => {
                let attach = AttachReceiver {
                    entity: self.dead_letters,
                    mode: ReceiveMode::ReceiveAndDelete,
                    session: SessionRequest::None,
                };
                let Attached::Ready { consumer, .. } = self.apply(attach).unwrap() else {
                    panic!("there are no sessions here")
                };
                let before = self.names(self.dead_letters);
                self.apply(SetCredit {
                    consumer,
                    credit: 1000,
                    drain: true,
                })
                .unwrap();
                self.apply(DetachReceiver { consumer }).unwrap();
                assert!(self.names(self.dead_letters).is_empty());
                for name in before {
                    self.places.insert(name, Place::DeadLetter);
                }
            }
        }
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

    /// Takes in what the broker did.
    fn drain_effects(&mut self) {
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
    fn check(&mut self) {
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
    fn finish(&mut self) {
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

fn run(sessions: bool, dead_letter_on_expiration: bool, ops: &[Op]) {
    let mut model = Model::new(sessions, dead_letter_on_expiration);
    for op in ops {
        model.step(op);
        model.drain_effects();
        model.check();
    }
    model.finish();
}

fn cases() -> u32 {
    std::env::var("BROKER_CASES").map_or(256, |cases| cases.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_is_lost_or_doubled(
        sessions: bool,
        dead_letter_on_expiration: bool,
        ops in prop::collection::vec(op(), 1..80),
    ) {
        run(sessions, dead_letter_on_expiration, &ops);
    }
}
