//! The steps of a case.

use bytes::Bytes;
use proptest::prelude::*;
use servicebus_amqp::types::Map;
use servicebus_emulator::broker::*;

use super::{
    COLORS, Entry, Held, LEAVES, LOCK, Leaf, Model, SESSIONS, Sent, color_rule, queue_options,
};
use crate::message::{name, pick};

/// One step of a case. Small numbers choose among what is there.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Send { entry: Entry, sent: Sent },
    Receive { leaf: Leaf, delete: bool },
    ReceiveDeferred { leaf: Leaf, pick: u8 },
    Accept { session: usize },
    AcceptNext,
    Release { session: usize },
    ReceiveOfSession { session: usize },
    Settle { leaf: Leaf, pick: u8, how: u8 },
    SettleLost { pick: u8 },
    ChangeRule,
    OpenOrClose,
    Advance { seconds: u8 },
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let session = 0..SESSIONS.len();
    let sent = (0..12u8, 0..COLORS.len(), prop::option::of(session.clone()))
        .prop_map(|(id, color, session)| Sent { id, color, session });
    let entry = prop_oneof![
        4 => Just(Entry::In),
        4 => Just(Entry::News),
        1 => Just(Entry::Ring1),
        1 => Just(Entry::Ring2),
    ];
    let plain = prop::sample::select(vec![Leaf::All, Leaf::Out]);
    let leaf = prop::sample::select(LEAVES.to_vec());
    prop_oneof![
        10 => (entry, sent).prop_map(|(entry, sent)| Op::Send { entry, sent }),
        6 => (plain.clone(), prop::bool::weighted(0.2)).prop_map(|(leaf, delete)| Op::Receive { leaf, delete }),
        2 => (plain, any::<u8>()).prop_map(|(leaf, pick)| Op::ReceiveDeferred { leaf, pick }),
        3 => session.clone().prop_map(|session| Op::Accept { session }),
        2 => Just(Op::AcceptNext),
        2 => session.clone().prop_map(|session| Op::Release { session }),
        6 => session.prop_map(|session| Op::ReceiveOfSession { session }),
        8 => (leaf, any::<u8>(), 0..5u8).prop_map(|(leaf, pick, how)| Op::Settle { leaf, pick, how }),
        1 => any::<u8>().prop_map(|pick| Op::SettleLost { pick }),
        1 => Just(Op::ChangeRule),
        1 => Just(Op::OpenOrClose),
        2 => (0..40u8).prop_map(|seconds| Op::Advance { seconds }),
    ]
}

impl Model {
    pub(super) fn step(&mut self, op: &Op) {
        match *op {
            Op::Send { entry, sent } => self.send(entry, sent),
            Op::Receive { leaf, delete } => self.receive(leaf, delete),
            Op::ReceiveDeferred { leaf, pick } => self.receive_deferred(leaf, pick),
            Op::Accept { session } => self.accept(session),
            Op::AcceptNext => self.accept_next(),
            Op::Release { session } => {
                if let Some((consumer, _)) = self.holders[session] {
                    self.apply(DetachReceiver { consumer }).unwrap();
                    self.end_session(session, false);
                }
            }
            Op::ReceiveOfSession { session } => {
                if let Some((consumer, until)) = self.holders[session] {
                    let of = |held: &Held| held.session == Some(session);
                    self.receive_next(Leaf::Grouped, consumer, Some(until), of);
                }
            }
            Op::Settle { leaf, pick: n, how } => {
                let locked: Vec<_> = self.messages[&leaf]
                    .iter()
                    .filter_map(|(name, held)| Some((*name, held.lock?.0)))
                    .collect();
                if let Some((name, token)) = pick(&locked, n) {
                    self.settle(leaf, *name, *token, how);
                }
            }
            Op::SettleLost { pick: n } => {
                if let Some((leaf, token)) = pick(&self.lost, n).copied() {
                    let expected = match leaf {
                        Leaf::Grouped => ErrorKind::SessionLockLost,
                        Leaf::All | Leaf::Out => ErrorKind::MessageLockLost,
                    };
                    let refused = self.apply(Settle {
                        entity: self.ids[&leaf],
                        token,
                        settlement: Settlement::Complete,
                        transaction: None,
                    });
                    assert_eq!(refused.unwrap_err().kind(), expected);
                }
            }
            Op::ChangeRule => {
                let (old, new) = if self.only_blue {
                    ("blue", Rule::default_rule())
                } else {
                    ("$Default", color_rule("blue", "blue"))
                };
                let subscription = self.ids[&Leaf::All];
                let name = old.into();
                self.apply(RemoveRule { subscription, name }).unwrap();
                self.apply(AddRule {
                    subscription,
                    rule: new,
                })
                .unwrap();
                self.only_blue = !self.only_blue;
            }
            Op::OpenOrClose => {
                self.closed = !self.closed;
                let status = if self.closed {
                    Status::SendDisabled
                } else {
                    Status::Active
                };
                let entity = self.broker.resolve("ns", "gate").unwrap();
                let options = queue_options(Some("out"), status);
                self.apply(UpdateQueue { entity, options }).unwrap();
                self.take_effects();
            }
            Op::Advance { seconds } => self.advance(seconds.into()),
        }
    }

    pub(super) fn advance(&mut self, seconds: i64) {
        self.now += seconds;
        self.broker
            .handle_timeout(servicebus_amqp::types::Timestamp::from_millis(
                self.now * 1000,
            ));
        self.on_time();
        self.take_effects();
    }

    fn send(&mut self, entry: Entry, sent: Sent) {
        let path = match entry {
            Entry::In => "in",
            Entry::News => "news",
            Entry::Ring1 => "ring1",
            Entry::Ring2 => "ring2",
        };
        let entity = self.broker.resolve("ns", path).unwrap();
        let payload = encode(self.next, sent);
        self.route(entry, sent);
        self.apply(Send {
            entity,
            payload,
            format: 0,
            transaction: None,
        })
        .unwrap();
    }

    fn receive(&mut self, leaf: Leaf, delete: bool) {
        let mode = if delete {
            ReceiveMode::ReceiveAndDelete
        } else {
            ReceiveMode::PeekLock
        };
        let attach = AttachReceiver {
            entity: self.ids[&leaf],
            mode,
            session: SessionRequest::None,
        };
        let Attached::Ready { consumer, .. } = self.apply(attach).unwrap() else {
            panic!("only session receivers wait")
        };
        let until = (!delete).then_some(self.now + LOCK);
        self.receive_next(leaf, consumer, until, |_| true);
        self.apply(DetachReceiver { consumer }).unwrap();
    }

    /// One credit brings the oldest message that is ready, or nothing. `until`: when its lock ends, if it gets one.
    pub(super) fn receive_next(
        &mut self,
        leaf: Leaf,
        consumer: ConsumerId,
        until: Option<i64>,
        of: impl Fn(&Held) -> bool,
    ) -> bool {
        let expected = self.messages[&leaf]
            .iter()
            .find(|(_, held)| !held.deferred && held.lock.is_none() && of(held))
            .map(|(name, held)| (*name, held.deliveries));
        self.apply(SetCredit {
            consumer,
            credit: 1,
            drain: true,
        })
        .unwrap();
        let mut delivered = self.take_effects();
        let found = delivered
            .first()
            .map(|delivery| (name(&delivery.message), delivery.message.delivery_count()));
        assert_eq!(found, expected);
        assert!(delivered.len() <= 1);
        let Some(delivery) = delivered.pop() else {
            return false;
        };
        self.note(leaf, &delivery, until);
        true
    }

    fn note(&mut self, leaf: Leaf, delivery: &Delivery, until: Option<i64>) {
        let name = name(&delivery.message);
        assert_eq!(delivery.token.is_some(), until.is_some());
        match (delivery.token, until) {
            (Some(token), Some(until)) => {
                let locked_until = delivery.message.locked_until().unwrap();
                assert_eq!(locked_until.as_millis(), until * 1000);
                self.leaf(leaf).get_mut(&name).unwrap().lock = Some((token, until));
            }
            _ => {
                self.leaf(leaf).remove(&name);
            }
        }
    }

    fn receive_deferred(&mut self, leaf: Leaf, n: u8) {
        let entity = self.ids[&leaf];
        let snapshot = self.broker.snapshot(entity).unwrap();
        let deferred: Vec<_> = snapshot
            .messages
            .iter()
            .filter(|message| message.message.state() == MessageState::Deferred)
            .map(|message| message.message.clone())
            .collect();
        let Some(message) = pick(&deferred, n) else {
            return;
        };
        let free = self.messages[&leaf][&name(message)].lock.is_none();
        let received = self.apply(ReceiveDeferred {
            entity,
            sequence_numbers: vec![message.sequence_number()],
            mode: ReceiveMode::PeekLock,
            session: None,
        });
        assert_eq!(received.is_ok(), free);
        for delivery in received.into_iter().flatten() {
            self.note(leaf, &delivery, Some(self.now + LOCK));
        }
    }

    fn accept(&mut self, session: usize) {
        let attached = self.apply(AttachReceiver {
            entity: self.ids[&Leaf::Grouped],
            mode: ReceiveMode::PeekLock,
            session: SessionRequest::Named(SESSIONS[session].into()),
        });
        match (attached, self.holders[session]) {
            (Ok(Attached::Ready { consumer, .. }), None) => {
                self.holders[session] = Some((consumer, self.now + LOCK));
            }
            (Err(error), Some(_)) => assert_eq!(error.kind(), ErrorKind::SessionCannotBeLocked),
            (attached, holder) => panic!("{attached:?} while {holder:?} holds it"),
        }
    }

    /// The free session with the oldest message that is ready; if there is none, the receiver gives up at once.
    fn accept_next(&mut self) {
        let expected = self.messages[&Leaf::Grouped]
            .values()
            .filter(|held| !held.deferred && held.lock.is_none())
            .filter_map(|held| held.session)
            .find(|session| self.holders[*session].is_none());
        let attached = self.apply(AttachReceiver {
            entity: self.ids[&Leaf::Grouped],
            mode: ReceiveMode::PeekLock,
            session: SessionRequest::Next { wait: None },
        });
        match attached.unwrap() {
            Attached::Ready {
                consumer,
                session: Some(granted),
            } => {
                let session = expected.unwrap();
                assert_eq!(granted.id, SESSIONS[session]);
                self.holders[session] = Some((consumer, self.now + LOCK));
            }
            Attached::Waiting { consumer } => {
                assert_eq!(expected, None);
                self.apply(DetachReceiver { consumer }).unwrap();
            }
            Attached::Ready { session: None, .. } => panic!("no session was granted"),
        }
    }

    fn settle(&mut self, leaf: Leaf, name: u32, token: LockToken, how: u8) {
        let properties = Map::new();
        let settlement = match how {
            0 => Settlement::Complete,
            1 => Settlement::Abandon { properties },
            2 => Settlement::Defer { properties },
            3 => Settlement::Release,
            _ => Settlement::DeadLetter {
                reason: None,
                description: None,
                properties,
            },
        };
        self.apply(Settle {
            entity: self.ids[&leaf],
            token,
            settlement,
            transaction: None,
        })
        .unwrap();
        match how {
            0 => {
                self.leaf(leaf).remove(&name);
            }
            1 => self.give_back(leaf, name, true),
            2 => {
                let held = self.leaf(leaf).get_mut(&name).unwrap();
                held.lock = None;
                held.deferred = true;
                held.deliveries += 1;
                self.lost.push((leaf, token));
            }
            3 => self.give_back(leaf, name, false),
            _ => {
                self.leaf(leaf).remove(&name);
                self.bury(leaf.path(), name);
            }
        }
    }
}

/// An encoded message: its id, subject and session, and its name as body.
fn encode(name: u32, sent: Sent) -> Bytes {
    let mut fields = vec![0xa1, 1, b'A' + sent.id, 0x40, 0x40];
    let color = COLORS[sent.color];
    fields.extend([0xa1, color.len() as u8]);
    fields.extend(color.as_bytes());
    fields.extend([0x40; 6]);
    match sent.session {
        Some(session) => fields.extend([0xa1, 1, SESSIONS[session].as_bytes()[0]]),
        None => fields.push(0x40),
    }
    let mut out = vec![0x00, 0x53, 0x73, 0xc0, fields.len() as u8 + 1, 11];
    out.extend(fields);
    out.extend([0x00, 0x53, 0x75, 0xa0, 4]);
    out.extend(name.to_be_bytes());
    out.into()
}
