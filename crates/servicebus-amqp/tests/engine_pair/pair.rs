use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use servicebus_amqp::engine::{
    Config, Connection, ConnectionError, CreditMode, Event, Intake, LinkKey, LinkOptions,
    SessionKey, SessionOptions, Side, Transmit,
};
use servicebus_amqp::types::{Role, Source, Target};

/// The beginning of virtual time.
pub(crate) fn epoch() -> Instant {
    #[allow(
        clippy::disallowed_methods,
        reason = "an Instant cannot be made otherwise; only distances from it matter"
    )]
    Instant::now()
}

/// One side: an engine, what is on its way to it, and what it said.
pub(crate) struct Endpoint {
    pub(crate) engine: Connection,
    in_flight: VecDeque<(Instant, Bytes)>,
    input: BytesMut,
    events: VecDeque<Event>,
    /// All bytes that it sent, write by write.
    pub(crate) sent: Vec<Bytes>,
}

/// Two engines back to back.
pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) latency: Duration,
    /// Input is handed over in pieces of at most this size.
    pub(crate) chunk: usize,
    pub(crate) client: Endpoint,
    pub(crate) listener: Endpoint,
}

impl Endpoint {
    pub(crate) fn new(config: Config, side: Side, now: Instant) -> Self {
        Self {
            engine: Connection::new(config, side, now),
            in_flight: VecDeque::new(),
            input: BytesMut::new(),
            events: VecDeque::new(),
            sent: Vec::new(),
        }
    }

    /// The next event, if there is one.
    pub(crate) fn event(&mut self) -> Option<Event> {
        self.collect();
        self.events.pop_front()
    }

    /// The next event; panics when there is none.
    #[track_caller]
    pub(crate) fn expect(&mut self) -> Event {
        self.event().expect("an event")
    }

    /// Panics when there is an event.
    #[track_caller]
    pub(crate) fn quiet(&mut self) {
        let event = self.event();
        assert!(event.is_none(), "unexpected: {event:?}");
    }

    /// All events so far, in the short form of [`brief`].
    pub(crate) fn briefs(&mut self) -> Vec<String> {
        self.collect();
        self.events.drain(..).map(|event| brief(&event)).collect()
    }

    fn collect(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            self.events.push_back(event);
        }
    }

    pub(crate) fn take(&mut self, now: Instant) -> Bytes {
        let mut transmit = Transmit::with_limit(64 * 1024);
        let mut all = BytesMut::new();
        loop {
            self.engine.poll_transmit(now, &mut transmit);
            if transmit.is_empty() {
                break;
            }
            all.extend_from_slice(&transmit.copy_to_bytes(transmit.remaining()));
        }
        let all = all.freeze();
        if !all.is_empty() {
            self.sent.push(all.clone());
        }
        all
    }

    pub(crate) fn feed(&mut self, now: Instant, bytes: &[u8], chunk: usize) {
        for piece in bytes.chunks(chunk) {
            self.input.extend_from_slice(piece);
            self.resume(now);
        }
    }

    /// Lets the engine go on with what it left.
    pub(crate) fn resume(&mut self, now: Instant) {
        while self.engine.handle_input(now, &mut self.input) == Intake::Paused {
            self.collect();
        }
    }

    fn deliver(&mut self, now: Instant, chunk: usize) -> bool {
        let mut any = false;
        while self.in_flight.front().is_some_and(|(at, _)| *at <= now) {
            let (_, bytes) = self.in_flight.pop_front().unwrap();
            self.feed(now, &bytes, chunk);
            any = true;
        }
        any
    }
}

impl Pair {
    pub(crate) fn new(client: Config, listener: Config) -> Self {
        let now = epoch();
        Self {
            now,
            latency: Duration::ZERO,
            chunk: usize::MAX,
            client: Endpoint::new(client, Side::Client, now),
            listener: Endpoint::new(listener, Side::Listener, now),
        }
    }

    /// A pair with the defaults, connected, the opening events taken.
    pub(crate) fn connected() -> Self {
        Self::connected_with(Config::new("client"), Config::new("listener"))
    }

    pub(crate) fn connected_with(client: Config, listener: Config) -> Self {
        let mut pair = Self::new(client, listener);
        pair.drive();
        assert!(matches!(pair.client.expect(), Event::Opened(_)));
        assert!(matches!(pair.listener.expect(), Event::Opened(_)));
        pair
    }

    /// Runs until nothing is on its way. Time passes only as the latency needs it.
    pub(crate) fn drive(&mut self) {
        loop {
            let mut busy = false;
            let arrival = self.now + self.latency;
            let to_listener = self.client.take(self.now);
            let to_client = self.listener.take(self.now);
            for (bytes, to) in [
                (to_listener, &mut self.listener),
                (to_client, &mut self.client),
            ] {
                if !bytes.is_empty() {
                    to.in_flight.push_back((arrival, bytes));
                    busy = true;
                }
            }
            busy |= self.client.deliver(self.now, self.chunk);
            busy |= self.listener.deliver(self.now, self.chunk);
            if busy {
                continue;
            }
            let next = [&self.client, &self.listener]
                .into_iter()
                .filter_map(|side| Some(side.in_flight.front()?.0))
                .min();
            let Some(next) = next else {
                return;
            };
            self.now = next;
        }
    }

    /// Lets time pass, with all timers that fire on the way.
    pub(crate) fn advance(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.drive();
        loop {
            let next = [&self.client, &self.listener]
                .into_iter()
                .filter_map(|side| side.engine.poll_timeout())
                .min();
            match next {
                Some(next) if next <= end => {
                    self.now = self.now.max(next);
                    self.client.engine.handle_timeout(self.now);
                    self.listener.engine.handle_timeout(self.now);
                    self.drive();
                }
                _ => break,
            }
        }
        self.now = self.now.max(end);
    }

    /// The transport breaks: what is on its way is lost, both sides learn of it.
    pub(crate) fn cut(&mut self) {
        for side in [&mut self.client, &mut self.listener] {
            side.in_flight.clear();
            side.engine.handle_disconnect(ConnectionError::Lost);
        }
    }

    /// A session that the client began, seen from both sides.
    pub(crate) fn session(&mut self) -> (SessionKey, SessionKey) {
        let session = self.client.engine.begin(SessionOptions::default()).unwrap();
        self.drive();
        assert!(matches!(self.client.expect(), Event::SessionBegun { .. }));
        let Event::SessionRequested { session: other, .. } = self.listener.expect() else {
            panic!("no session");
        };
        (session, other)
    }

    /// A link that the client asked for and the listener accepted, seen from both sides.
    pub(crate) fn link(&mut self, session: SessionKey, role: Role) -> (LinkKey, LinkKey) {
        self.link_with(session, role, options(), |options| options)
    }

    pub(crate) fn link_with(
        &mut self,
        session: SessionKey,
        role: Role,
        client: LinkOptions,
        listener: impl FnOnce(LinkOptions) -> LinkOptions,
    ) -> (LinkKey, LinkKey) {
        let name = format!("link-{role:?}-{}", self.client.sent.len());
        let link = self
            .client
            .engine
            .attach(session, name.into(), role, client)
            .unwrap();
        self.drive();
        let Event::AttachRequested {
            link: other,
            attach,
            ..
        } = self.listener.expect()
        else {
            panic!("no attach");
        };
        let answer = listener(LinkOptions::answer(&attach));
        self.listener.engine.accept_attach(other, answer).unwrap();
        self.drive();
        assert!(matches!(self.client.expect(), Event::Attached { .. }));
        (link, other)
    }
}

pub(crate) fn options() -> LinkOptions {
    LinkOptions::new(Source::new("source"), Target::new("target"))
}

pub(crate) fn window(window: u32) -> LinkOptions {
    let mut options = options();
    options.credit = CreditMode::Window(window);
    options
}

/// An event in a few words, for lists of what is expected.
pub(crate) fn brief(event: &Event) -> String {
    match event {
        Event::SaslInit(init) => format!("sasl-init {}", init.mechanism),
        Event::Opened(open) => format!("opened {}", open.container_id),
        Event::Closed(error) => format!("closed: {error}"),
        Event::SessionBegun { .. } => "session begun".into(),
        Event::SessionRequested { .. } => "session requested".into(),
        Event::SessionEnded { error, .. } => format!("session ended: {error}"),
        Event::Attached { attach, .. } => format!("attached {}", attach.name),
        Event::AttachRequested { attach, .. } => format!("attach requested {}", attach.name),
        Event::LinkDetached { error, .. } => format!("link detached: {error}"),
        Event::Credit { credit, .. } => format!("credit {credit}"),
        Event::DrainRequested { credit, .. } => format!("drain requested {credit}"),
        Event::Drained { .. } => "drained".into(),
        Event::Unsent { context, .. } => format!("unsent {context}"),
        Event::Delivery(delivery) => format!("delivery {}", delivery.payload.escape_ascii()),
        Event::Outcome {
            context,
            state,
            settled,
            ..
        } => format!("outcome {context} {state:?} settled={settled}"),
        other => format!("{other:?}"),
    }
}
