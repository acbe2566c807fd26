//! Messages on their way through topics, rules, forwarding and duplicate detection, to receivers with and without sessions.
//!
//! ```text
//! in ──▶ news ─┬─ all      takes every message, or the blue ones           plain
//!              ├─ grouped  takes every message with a session              by session
//!              └─ red ──▶ gate ──▶ out                                     plain; the gate may be closed
//! ring1 ⇄ ring2, until a message has been passed on too often
//! ```
//!
//! The model says exactly which messages are where, and which one is delivered next.

mod check;
mod ops;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use servicebus_amqp::types::Timestamp;
use servicebus_emulator::broker::*;

use self::ops::op;

/// In seconds.
const LOCK: i64 = 30;
const WINDOW: i64 = 20;
const MAX_DELIVERIES: u32 = 3;
const COLORS: [&str; 2] = ["red", "blue"];
const SESSIONS: [&str; 2] = ["a", "b"];

/// A queue or subscription where messages stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Leaf {
    All,
    Grouped,
    Out,
}

const LEAVES: [Leaf; 3] = [Leaf::All, Leaf::Grouped, Leaf::Out];

/// Where a message is sent to.
#[derive(Clone, Copy, Debug)]
enum Entry {
    In,
    News,
    Ring1,
    Ring2,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    id: u8,
    color: usize,
    session: Option<usize>,
}

/// A message in a leaf, by its name; names grow as sequence numbers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    session: Option<usize>,
    deferred: bool,
    deliveries: u32,
    /// The lock, and when it ends: with that of the session in a leaf with sessions.
    lock: Option<(LockToken, i64)>,
}

struct Model {
    broker: Broker,
    now: i64,
    ids: BTreeMap<Leaf, EntityId>,
    messages: BTreeMap<Leaf, BTreeMap<u32, Held>>,
    /// The dead letters, by the path of their entity.
    dead: BTreeMap<&'static str, BTreeSet<u32>>,
    /// When each id was first seen in the window of the topic.
    seen: BTreeMap<u8, i64>,
    /// Who holds each session, and until when.
    holders: [Option<(ConsumerId, i64)>; SESSIONS.len()],
    /// Locks that ended.
    lost: Vec<(Leaf, LockToken)>,
    only_blue: bool,
    closed: bool,
    next: u32,
}

impl Model {
    fn new() -> Self {
        let mut model = Self {
            broker: Broker::new(Limits::unlimited(), 7),
            now: 1_700_000_000,
            ids: BTreeMap::new(),
            messages: LEAVES.map(|leaf| (leaf, BTreeMap::new())).into(),
            dead: BTreeMap::new(),
            seen: BTreeMap::new(),
            holders: [None; SESSIONS.len()],
            lost: Vec::new(),
            only_blue: false,
            closed: false,
            next: 0,
        };
        let ring2 = model.queue("ring2", None);
        model.queue("ring1", Some("ring2"));
        let close = UpdateQueue {
            entity: ring2,
            options: queue_options(Some("ring1"), Status::Active),
        };
        model.apply(close).unwrap();
        model.take_effects();
        let out = model.queue("out", None);
        model.queue("gate", Some("out"));
        let news = model
            .apply(CreateTopic {
                namespace: "ns".into(),
                name: "news".into(),
                options: TopicOptions {
                    duplicate_detection: Some(Duration::from_secs(WINDOW as u64)),
                    ..TopicOptions::default()
                },
            })
            .unwrap();
        model.queue("in", Some("news"));
        let all = model.subscription(news, "all", false, None, Rule::default_rule());
        let grouped = model.subscription(news, "grouped", true, None, Rule::default_rule());
        let red = color_rule("red", "red");
        model.subscription(news, "red", false, Some("gate"), red);
        model.ids = [(Leaf::All, all), (Leaf::Grouped, grouped), (Leaf::Out, out)].into();
        model
    }

    fn queue(&mut self, name: &str, forward_to: Option<&str>) -> EntityId {
        let command = CreateQueue {
            namespace: "ns".into(),
            name: name.into(),
            options: queue_options(forward_to, Status::Active),
        };
        self.apply(command).unwrap()
    }

    fn subscription(
        &mut self,
        topic: EntityId,
        name: &str,
        requires_session: bool,
        forward_to: Option<&str>,
        rule: Rule,
    ) -> EntityId {
        let command = CreateSubscription {
            topic,
            name: name.into(),
            options: SubscriptionOptions {
                lock_duration: Duration::from_secs(LOCK as u64),
                max_delivery_count: MAX_DELIVERIES,
                requires_session,
                forward_to: forward_to.map(Into::into),
                ..SubscriptionOptions::default()
            },
            rules: Some(vec![rule]),
        };
        self.apply(command).unwrap()
    }

    fn apply<C: Command>(&mut self, command: C) -> Result<C::Reply, Error> {
        let now = Timestamp::from_millis(self.now * 1000);
        self.broker.apply(now, command)
    }

    fn leaf(&mut self, leaf: Leaf) -> &mut BTreeMap<u32, Held> {
        self.messages.get_mut(&leaf).unwrap()
    }

    fn bury(&mut self, path: &'static str, name: u32) {
        assert!(self.dead.entry(path).or_default().insert(name));
    }

    /// Where a message goes that is sent.
    fn route(&mut self, entry: Entry, sent: Sent) {
        let name = self.next;
        self.next += 1;
        match entry {
            Entry::In | Entry::News => self.publish(name, sent),
            // Passed on four times, which is all that the service allows, it is where it began.
            Entry::Ring1 => self.bury("ring1", name),
            Entry::Ring2 => self.bury("ring2", name),
        }
    }

    fn publish(&mut self, name: u32, sent: Sent) {
        let now = self.now;
        self.seen.retain(|_, at| *at + WINDOW > now);
        if self.seen.contains_key(&sent.id) {
            return;
        }
        self.seen.insert(sent.id, now);
        let held = Held {
            session: sent.session,
            deferred: false,
            deliveries: 0,
            lock: None,
        };
        let color = COLORS[sent.color];
        if !self.only_blue || color == "blue" {
            self.leaf(Leaf::All).insert(name, held);
        }
        match sent.session {
            Some(_) => {
                self.leaf(Leaf::Grouped).insert(name, held);
            }
            None => self.bury(Leaf::Grouped.path(), name),
        }
        match color {
            "red" if self.closed => self.bury("news/Subscriptions/red", name),
            "red" => {
                self.leaf(Leaf::Out).insert(name, held);
            }
            _ => {}
        }
    }

    /// A delivery failed or was given back.
    fn give_back(&mut self, leaf: Leaf, name: u32, counts: bool) {
        let held = self.leaf(leaf).get_mut(&name).unwrap();
        let (token, _) = held.lock.take().unwrap();
        held.deliveries += u32::from(counts);
        // Deferring counts too, but sends nothing to the dead letters.
        let dead = counts && held.deliveries >= MAX_DELIVERIES;
        self.lost.push((leaf, token));
        if dead {
            self.leaf(leaf).remove(&name);
            self.bury(leaf.path(), name);
        }
    }

    fn end_session(&mut self, session: usize, counts: bool) {
        self.holders[session] = None;
        let locked: Vec<_> = self.messages[&Leaf::Grouped]
            .iter()
            .filter(|(_, held)| held.session == Some(session) && held.lock.is_some())
            .map(|(name, _)| *name)
            .collect();
        for name in locked {
            self.give_back(Leaf::Grouped, name, counts);
        }
    }

    /// Locks run out.
    fn on_time(&mut self) {
        for session in 0..SESSIONS.len() {
            if self.holders[session].is_some_and(|(_, until)| until <= self.now) {
                self.end_session(session, true);
            }
        }
        for leaf in [Leaf::All, Leaf::Out] {
            let over: Vec<_> = self.messages[&leaf]
                .iter()
                .filter(|(_, held)| held.lock.is_some_and(|(_, until)| until <= self.now))
                .map(|(name, _)| *name)
                .collect();
            for name in over {
                self.give_back(leaf, name, true);
            }
        }
    }
}

impl Leaf {
    fn path(self) -> &'static str {
        match self {
            Self::All => "news/Subscriptions/all",
            Self::Grouped => "news/Subscriptions/grouped",
            Self::Out => "out",
        }
    }
}

fn queue_options(forward_to: Option<&str>, status: Status) -> QueueOptions {
    QueueOptions {
        lock_duration: Duration::from_secs(LOCK as u64),
        max_delivery_count: MAX_DELIVERIES,
        forward_to: forward_to.map(Into::into),
        status,
        ..QueueOptions::default()
    }
}

/// A rule that takes the messages whose subject is a color.
fn color_rule(name: &str, color: &str) -> Rule {
    let filter = CorrelationFilter {
        label: Some(color.into()),
        ..CorrelationFilter::default()
    };
    Rule::new(
        servicebus_amqp::types::ByteString::from(name),
        Filter::Correlation(Box::new(filter)),
    )
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn every_message_goes_where_it_is_sent(ops in prop::collection::vec(op(), 1..80)) {
        let mut model = Model::new();
        for op in &ops {
            model.step(op);
            model.check();
        }
        model.finish();
    }
}
