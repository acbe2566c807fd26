//! What holds after each step, and at the end.

use std::collections::{BTreeMap, BTreeSet};

use servicebus_emulator::broker::*;

use super::{Held, LEAVES, LOCK, Leaf, Model, SESSIONS};
use crate::message::name;

impl Model {
    /// The deliveries that the broker made; whose session ended is told so.
    pub(super) fn take_effects(&mut self) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        while let Some(effect) = self.broker.poll_effect() {
            match effect {
                Effect::Deliver(delivery) => deliveries.push(delivery),
                Effect::DetachReceiver { consumer, .. } => {
                    let holds = |holder: &Option<(ConsumerId, i64)>| {
                        holder.is_some_and(|(holder, _)| holder == consumer)
                    };
                    assert!(!self.holders.iter().any(holds), "it holds its session");
                }
                Effect::DetachSenders { .. } => {}
                other => panic!("nobody waits: {other:?}"),
            }
        }
        deliveries
    }

    /// Every message is where the model says and nowhere else, in the order in which it was sent; counts agree.
    pub(super) fn check(&self) {
        for leaf in LEAVES {
            let snapshot = self.broker.snapshot(self.ids[&leaf]).unwrap();
            let found: Vec<_> = snapshot
                .messages
                .iter()
                .map(|message| {
                    (
                        name(&message.message),
                        message.message.state() == MessageState::Deferred,
                        message.lock,
                        message.message.delivery_count(),
                    )
                })
                .collect();
            let expected: Vec<_> = self.messages[&leaf]
                .iter()
                .map(|(name, held)| {
                    let lock = held.lock.map(|(token, _)| token);
                    (*name, held.deferred, lock, held.deliveries)
                })
                .collect();
            assert_eq!(found, expected, "{leaf:?}");
            let deferred = found.iter().filter(|(_, deferred, ..)| *deferred).count();
            let counts = snapshot.counts;
            assert_eq!(counts.deferred, deferred);
            assert_eq!(counts.active, found.len() - deferred);
        }
        let nobody = BTreeSet::new();
        for (id, path) in self.broker.entities("ns") {
            let counts = self.broker.counts(id).unwrap();
            let below = self.dead.get(&*path).unwrap_or(&nobody);
            assert_eq!(counts.transfer_dead_letter, 0);
            if !path.contains('$') {
                assert_eq!(counts.dead_letter, below.len(), "{path}");
                assert_eq!(self.dead_letters(&path), *below, "{path}");
            }
            if matches!(
                &*path,
                "in" | "gate" | "ring1" | "ring2" | "news" | "news/Subscriptions/red"
            ) {
                assert_eq!(counts.active + counts.deferred + counts.scheduled, 0);
            }
        }
    }

    fn dead_letters(&self, path: &str) -> BTreeSet<u32> {
        let Ok(id) = self
            .broker
            .resolve("ns", &format!("{path}/$DeadLetterQueue"))
        else {
            return BTreeSet::new();
        };
        let snapshot = self.broker.snapshot(id).unwrap();
        snapshot
            .messages
            .iter()
            .map(|message| name(&message.message))
            .collect()
    }

    /// Whatever happened, everything that is left can be had in the end, in order, and no timer is left.
    pub(super) fn finish(&mut self) {
        self.advance(10 * LOCK);
        self.check();
        for leaf in LEAVES {
            let requests: Vec<_> = match leaf {
                Leaf::Grouped => SESSIONS
                    .map(|session| SessionRequest::Named(session.into()))
                    .into(),
                Leaf::All | Leaf::Out => vec![SessionRequest::None],
            };
            for (session, request) in requests.into_iter().enumerate() {
                let attach = AttachReceiver {
                    entity: self.ids[&leaf],
                    mode: ReceiveMode::ReceiveAndDelete,
                    session: request,
                };
                let Attached::Ready { consumer, .. } = self.apply(attach).unwrap() else {
                    panic!("nobody holds the session")
                };
                let of = |held: &Held| leaf != Leaf::Grouped || held.session == Some(session);
                while self.receive_next(leaf, consumer, None, of) {}
                self.apply(DetachReceiver { consumer }).unwrap();
            }
        }
        self.check();
        let deferred: BTreeMap<_, _> = LEAVES
            .iter()
            .map(|leaf| (leaf, self.broker.counts(self.ids[leaf]).unwrap()))
            .collect();
        assert!(deferred.values().all(|counts| counts.active == 0));
        assert_eq!(self.broker.poll_timeout(), None, "a timer is left");
    }
}
