//! Any operations on two engines, as bytes: for property tests here and for a fuzz target.
//!
//! Both engines are correct, so neither may accuse the other, whatever the applications do. What must hold is checked after
//! each step, and more of it once everything that is on its way has arrived.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use servicebus_amqp::engine::{
    Config, Connection, ConnectionError, CreditMode, DeliveryKey, DetachMode, DrainPolicy, Event,
    InitialIds, Intake, LinkError, LinkKey, LinkOptions, OnOutcome, OutgoingDelivery, SessionError,
    SessionKey, SessionOptions, Settle, Side, Transmit,
};
use servicebus_amqp::types::{AmqpError, DeliveryState, Outcome, Role, Source, Target, condition};

/// Reads operations off the bytes, and runs them.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut world = World::new(input.byte());
    while !input.0.is_empty() && !world.is_closed() {
        world.step(&mut input);
        world.collect();
    }
    world.settle_down();
    world.check();
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let index = usize::from(self.byte());
        from.get(index.checked_rem(from.len())?).copied()
    }
}

struct World {
    now: Instant,
    sides: [Peer; 2],
    names: u32,
    /// The ends of each link by name: of the client, of the listener.
    ends: BTreeMap<u32, [Option<LinkKey>; 2]>,
}

struct Peer {
    engine: Connection,
    /// What the other side sent and this one has not read.
    wire: BytesMut,
    input: BytesMut,
    output: Transmit,
    sessions: Vec<SessionKey>,
    requested: Vec<LinkKey>,
    links: Vec<Link>,
    /// Links that the other side asked for and that the world has not heard of.
    news: Vec<(u32, LinkKey)>,
    received: Vec<DeliveryKey>,
    sent: Vec<DeliveryKey>,
    closed: Option<ConnectionError>,
}

struct Link {
    key: LinkKey,
    session: SessionKey,
    detaching: bool,
    /// Deliveries that were sent and neither cancelled nor settled, by their number.
    open: BTreeMap<u64, DeliveryKey>,
    next: u64,
    last_received: Option<u64>,
}

impl World {
    fn new(flags: u8) -> Self {
        #[allow(
            clippy::disallowed_methods,
            reason = "an Instant cannot be made otherwise; only distances from it matter"
        )]
        let now = Instant::now();
        let peer = |side, name: &'static str, flag: u8| {
            let mut config = Config::new(name);
            config.idle_timeout = None;
            if flags & flag != 0 {
                config.max_frame_size = 512;
            }
            let mut ids = InitialIds::default();
            if flags & 4 != 0 {
                ids.next_outgoing_id = u32::MAX - 1;
                ids.delivery_id = u32::MAX - 2;
            }
            config.initial_ids = ids;
            Peer {
                engine: Connection::new(config, side, now),
                wire: BytesMut::new(),
                input: BytesMut::new(),
                output: Transmit::with_limit(if flags & 8 != 0 { 100 } else { 10_000 }),
                sessions: Vec::new(),
                requested: Vec::new(),
                links: Vec::new(),
                news: Vec::new(),
                received: Vec::new(),
                sent: Vec::new(),
                closed: None,
            }
        };
        let mut world = Self {
            now,
            sides: [
                peer(Side::Client, "client", 1),
                peer(Side::Listener, "listener", 2),
            ],
            names: 0,
            ends: BTreeMap::new(),
        };
        if flags & 16 != 0 {
            world.settle_down();
        }
        world
    }

    fn is_closed(&self) -> bool {
        self.sides.iter().all(|side| side.closed.is_some())
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let operation = input.byte();
        let at = usize::from(operation >> 7);
        let now = self.now;
        let Some(side) = self.sides.get_mut(at) else {
            return;
        };
        match operation & 0x1f {
            0 | 1 => {
                let mut options = SessionOptions::default();
                options.incoming_window = u32::from(input.byte() % 8);
                options.handle_max = u32::from(input.byte());
                if let Ok(session) = side.engine.begin(options) {
                    side.sessions.push(session);
                }
            }
            2 => {
                if let Some(session) = input.pick(&side.sessions) {
                    let error = (input.byte() & 1 == 0).then(error);
                    if side.engine.end(session, error).is_ok() {
                        side.forget_session(session);
                    }
                }
            }
            3..=6 => self.attach(at, input),
            7 | 8 => {
                if let Some(link) = input.pick(&side.requested) {
                    side.requested.retain(|other| *other != link);
                    if side.engine.accept_attach(link, options(input)).is_err() {
                        let _ = side.engine.refuse_attach(link, error());
                        side.links.retain(|other| other.key != link);
                    }
                }
            }
            9 => {
                if let Some(link) = input.pick(&side.requested) {
                    side.requested.retain(|other| *other != link);
                    side.links.retain(|other| other.key != link);
                    let _ = side.engine.refuse_attach(link, error());
                }
            }
            10 => {
                if let Some(link) = side.pick_link(input) {
                    let error = (input.byte() & 1 == 0).then(error);
                    if side.engine.detach(link, DetachMode::Close, error).is_ok() {
                        side.requested.retain(|other| *other != link);
                        side.link(link).detaching = true;
                    }
                }
            }
            11..=15 => side.send(input),
            16 => {
                if let Some(delivery) = input.pick(&side.sent) {
                    let cancelled = side.engine.cancel(delivery).is_ok();
                    if cancelled {
                        side.forget_sent(delivery);
                    }
                }
            }
            17..=19 => {
                if let Some(delivery) = input.pick(&side.received) {
                    let settle = if input.byte() & 1 == 0 {
                        Settle::First
                    } else {
                        Settle::Second
                    };
                    let state = match input.byte() % 3 {
                        0 => DeliveryState::RELEASED,
                        1 => DeliveryState::Outcome(Outcome::Rejected(Some(Box::new(error())))),
                        _ => DeliveryState::ACCEPTED,
                    };
                    let _ = side.engine.settle(delivery, state, settle);
                    if settle == Settle::First {
                        side.received.retain(|other| *other != delivery);
                    }
                }
            }
            20 => {
                // The sender settles: what was reported as unsettled, or anything it likes.
                if let Some(delivery) = input.pick(&side.sent) {
                    let accepted = DeliveryState::ACCEPTED;
                    if side
                        .engine
                        .settle(delivery, accepted, Settle::First)
                        .is_ok()
                    {
                        side.forget_sent(delivery);
                    }
                }
            }
            21 | 22 => {
                if let Some(link) = side.pick_link(input) {
                    let credit = u32::from(input.byte() % 32);
                    let _ = match input.byte() % 3 {
                        0 => side.engine.set_credit(link, CreditMode::Exact(credit)),
                        1 => side.engine.set_credit(link, CreditMode::Window(credit)),
                        _ => side.engine.add_credit(link, credit),
                    };
                }
            }
            23 => {
                if let Some(link) = side.pick_link(input) {
                    let _ = side.engine.release(link, u32::from(input.byte() % 16));
                }
            }
            24 => {
                if let Some(link) = side.pick_link(input) {
                    let _ = side.engine.drain(link);
                }
            }
            25 => {
                if let Some(link) = side.pick_link(input) {
                    let _ = side.engine.drained(link);
                }
            }
            26 => {
                self.now += Duration::from_millis(u64::from(input.byte()));
                side.engine.handle_timeout(self.now);
            }
            27 if input.byte() == 77 => side.engine.close(now, Some(error())),
            28 => self.settle_down(),
            _ => {
                self.transport(at, 1 + usize::from(input.byte()) * 16);
            }
        }
    }

    fn attach(&mut self, at: usize, input: &mut Input<'_>) {
        let Some(side) = self.sides.get_mut(at) else {
            return;
        };
        let Some(session) = input.pick(&side.sessions) else {
            return;
        };
        let role = if input.byte() & 1 == 0 {
            Role::Sender
        } else {
            Role::Receiver
        };
        let options = options(input);
        self.names += 1;
        let name = self.names;
        if let Ok(link) = side
            .engine
            .attach(session, name.to_string().into(), role, options)
        {
            side.links.push(Link::new(link, session));
            if let Some(end) = self.ends.entry(name).or_default().get_mut(at) {
                *end = Some(link);
            }
        }
    }

    /// Lets one side write, and the other read at most so many bytes.
    fn transport(&mut self, from: usize, count: usize) -> bool {
        let now = self.now;
        let (client, listener) = self.sides.split_at_mut(1);
        let (Some(client), Some(listener)) = (client.first_mut(), listener.first_mut()) else {
            return false;
        };
        let (from, to) = if from == 0 {
            (client, listener)
        } else {
            (listener, client)
        };
        from.engine.poll_transmit(now, &mut from.output);
        let written = from.output.remaining();
        to.wire
            .extend_from_slice(&from.output.copy_to_bytes(written));
        let count = count.min(to.wire.len());
        to.input.extend_from_slice(&to.wire.split_to(count));
        while to.engine.handle_input(now, &mut to.input) == Intake::Paused {
            to.drain_events();
        }
        written > 0 || count > 0
    }

    /// Delivers everything until nobody has anything to say.
    fn settle_down(&mut self) {
        for _ in 0..100_000 {
            let client = self.transport(0, usize::MAX);
            let listener = self.transport(1, usize::MAX);
            self.collect();
            if !client && !listener {
                return;
            }
        }
        panic!("two engines talk without end");
    }

    fn collect(&mut self) {
        for at in [0, 1] {
            let Some(side) = self.sides.get_mut(at) else {
                return;
            };
            side.drain_events();
            for (name, link) in std::mem::take(&mut side.news) {
                if let Some(end) = self.ends.entry(name).or_default().get_mut(at) {
                    *end = Some(link);
                }
            }
        }
    }

    /// What must hold once everything has arrived.
    fn check(&self) {
        let [client, listener] = &self.sides;
        for side in [client, listener] {
            for link in side.links.iter().filter(|link| !link.detaching) {
                let Ok(status) = side.engine.link(link.key) else {
                    panic!("a link went without an event");
                };
                if status.role == Role::Sender {
                    assert_eq!(
                        link.open.len(),
                        status.queued + status.unsettled,
                        "a delivery is lost or counted twice"
                    );
                }
            }
        }
        for (name, ends) in &self.ends {
            let [Some(one), Some(two)] = ends else {
                continue;
            };
            let (Ok(one), Ok(two)) = (client.engine.link(*one), listener.engine.link(*two)) else {
                continue;
            };
            let requested = [client, listener]
                .into_iter()
                .zip(ends)
                .any(|(side, end)| end.is_some_and(|end| side.requested.contains(&end)));
            if !requested {
                assert_eq!(one.credit, two.credit, "the credit of link {name}");
                assert_eq!(
                    one.delivery_count, two.delivery_count,
                    "the count of link {name}"
                );
                let sender = if one.role == Role::Sender { one } else { two };
                assert!(
                    sender.queued == 0 || sender.credit == 0,
                    "link {name} has credit and deliveries and does not send"
                );
            }
        }
    }
}

impl Link {
    fn new(key: LinkKey, session: SessionKey) -> Self {
        Self {
            key,
            session,
            detaching: false,
            open: BTreeMap::new(),
            next: 0,
            last_received: None,
        }
    }
}

impl Peer {
    fn pick_link(&self, input: &mut Input<'_>) -> Option<LinkKey> {
        let keys: Vec<LinkKey> = self.links.iter().map(|link| link.key).collect();
        input.pick(&keys)
    }

    #[track_caller]
    fn link(&mut self, key: LinkKey) -> &mut Link {
        let link = self.links.iter_mut().find(|link| link.key == key);
        link.expect("an event or a request for a link that is gone")
    }

    /// A link that may make events.
    #[track_caller]
    fn living(&mut self, key: LinkKey) -> &mut Link {
        let link = self.link(key);
        assert!(!link.detaching, "an event of a link that was detached");
        link
    }

    fn forget_session(&mut self, session: SessionKey) {
        self.sessions.retain(|other| *other != session);
        let links = &mut self.links;
        self.requested.retain(|key| {
            links
                .iter()
                .any(|link| link.key == *key && link.session != session)
        });
        links.retain(|link| link.session != session);
    }

    fn forget_sent(&mut self, delivery: DeliveryKey) {
        self.sent.retain(|other| *other != delivery);
        for link in &mut self.links {
            link.open.retain(|_, other| *other != delivery);
        }
    }

    fn send(&mut self, input: &mut Input<'_>) {
        let Some(key) = self.pick_link(input) else {
            return;
        };
        let size = usize::from(input.byte()) * usize::from(input.byte() % 32);
        let settled = input.byte() & 3 == 0;
        let link = self.link(key);
        let number = link.next;
        let mut payload = BytesMut::from(&number.to_be_bytes()[..]);
        payload.resize(8 + size, 0);
        let mut delivery = OutgoingDelivery::new(payload.freeze());
        delivery.settled = settled;
        if settled {
            delivery.tag = Some(Bytes::from_static(b"chosen"));
        }
        if let Ok(delivery) = self.engine.send(key, delivery, number) {
            let link = self.link(key);
            link.next += 1;
            link.open.insert(number, delivery);
            self.sent.push(delivery);
        }
    }

    fn drain_events(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            assert!(self.closed.is_none(), "an event after the last: {event:?}");
            self.on_event(event);
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Opened(_) | Event::SessionBegun { .. } => {}
            Event::Closed(error) => {
                assert!(
                    matches!(
                        error,
                        ConnectionError::ClosedLocally | ConnectionError::ClosedByPeer(_)
                    ),
                    "{error}"
                );
                assert!(self.engine.is_closed() && self.engine.poll_timeout().is_none());
                self.sessions.clear();
                self.links.clear();
                self.requested.clear();
                self.closed = Some(error);
            }
            Event::SessionRequested { session, .. } => self.sessions.push(session),
            Event::SessionEnded { session, error } => {
                assert!(!matches!(error, SessionError::Protocol(_)), "{error}");
                self.forget_session(session);
            }
            Event::Attached { link, .. }
            | Event::Credit { link, .. }
            | Event::DrainRequested { link, .. }
            | Event::Drained { link } => {
                self.living(link);
            }
            Event::AttachRequested {
                session,
                link,
                attach,
            } => {
                self.requested.push(link);
                self.links.push(Link::new(link, session));
                self.news.push((attach.name.parse().unwrap(), link));
            }
            Event::LinkDetached { link, error } => {
                assert!(!matches!(error, LinkError::Protocol(_)), "{error}");
                self.link(link);
                self.links.retain(|other| other.key != link);
                self.requested.retain(|other| *other != link);
            }
            Event::Delivery(delivery) => {
                let link = self.living(delivery.link);
                let number = u64::from_be_bytes(delivery.payload[..8].try_into().unwrap());
                assert!(
                    link.last_received.is_none_or(|last| last < number),
                    "deliveries out of order, or one twice"
                );
                link.last_received = Some(number);
                if !delivery.settled {
                    self.received.push(delivery.delivery);
                }
            }
            Event::Outcome {
                link,
                delivery,
                context,
                settled,
                ..
            } => match delivery.role() {
                Role::Receiver => {
                    self.living(link);
                    self.received.retain(|other| *other != delivery);
                }
                Role::Sender => {
                    let link = self.living(link);
                    assert_eq!(
                        link.open.get(&context),
                        Some(&delivery),
                        "an outcome too many"
                    );
                    if settled {
                        link.open.remove(&context);
                        self.sent.retain(|other| *other != delivery);
                    }
                }
            },
            Event::Unsent { link, context, .. } => {
                // The link may have gone with a session that this side ended.
                if let Some(link) = self.links.iter_mut().find(|other| other.key == link) {
                    assert!(link.open.remove(&context).is_some(), "unsent and done");
                }
            }
            other => panic!("unexpected: {other:?}"),
        }
    }
}

fn error() -> AmqpError {
    AmqpError::new(condition::INTERNAL_ERROR, "because the test wants it")
}

fn options(input: &mut Input<'_>) -> LinkOptions {
    let mut options = LinkOptions::new(Source::new("source"), Target::new("target"));
    let flags = input.byte();
    let credit = u32::from(flags & 15);
    options.credit = if flags & 16 == 0 {
        CreditMode::Window(credit)
    } else {
        CreditMode::Exact(credit)
    };
    options.drain = if flags & 32 == 0 {
        DrainPolicy::Automatic
    } else {
        DrainPolicy::Manual
    };
    options.on_outcome = if flags & 64 == 0 {
        OnOutcome::Settle
    } else {
        OnOutcome::Report
    };
    options.initial_delivery_count = if flags & 128 == 0 { 0 } else { u32::MAX - 3 };
    options
}
