//! The steps of a case.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use servicebus_amqp::types::{Map, Timestamp};
use servicebus_emulator::broker::*;

use super::{Model, Place, SESSIONS};
use crate::message::pick;

/// One step of a case. Small numbers choose among what is there.
#[derive(Clone, Debug)]
pub(super) enum Op {
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

pub(super) fn op() -> impl Strategy<Value = Op> {
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
    pub(super) fn step(&mut self, op: &Op) {
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
}
