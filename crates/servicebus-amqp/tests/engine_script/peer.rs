use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use servicebus_amqp::codec::{AMQP_HEADER, Frame, decode_frame, encode_frame, encode_transfer};
use servicebus_amqp::engine::{
    Config, Connection, CreditMode, DeliveryKey, Event, Intake, LinkKey, LinkOptions,
    OutgoingDelivery, SessionKey, SessionOptions, Side, Transmit,
};
use servicebus_amqp::types::{
    AmqpError, Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Performative,
    ReceiverSettleMode, Role, SenderSettleMode, Source, Target, Transfer,
};

/// A script that plays the peer of one engine.
pub(crate) struct Peer {
    pub(crate) engine: Connection,
    pub(crate) now: Instant,
    input: BytesMut,
    output: BytesMut,
}

impl Peer {
    /// The peer of a client or a listener of which nothing was read yet.
    pub(crate) fn new(config: Config, side: Side) -> Self {
        #[allow(
            clippy::disallowed_methods,
            reason = "an Instant cannot be made otherwise; only distances from it matter"
        )]
        let now = Instant::now();
        Self {
            engine: Connection::new(config, side, now),
            now,
            input: BytesMut::new(),
            output: BytesMut::new(),
        }
    }

    /// The peer of a client that is connected.
    pub(crate) fn of_client() -> Self {
        Self::of_client_with(Config::new("client"), open())
    }

    pub(crate) fn of_client_with(config: Config, open: Open) -> Self {
        let mut peer = Self::new(config, Side::Client);
        assert_eq!(peer.header(), AMQP_HEADER);
        assert!(matches!(peer.frame(), Performative::Open(_)));
        peer.bytes(&AMQP_HEADER);
        peer.send(0, Performative::Open(Box::new(open)));
        assert!(matches!(peer.event(), Event::Opened(_)));
        peer
    }

    /// The peer of a listener that is connected.
    pub(crate) fn of_listener() -> Self {
        Self::of_listener_with(Config::new("listener"))
    }

    pub(crate) fn of_listener_with(config: Config) -> Self {
        let mut peer = Self::new(config, Side::Listener);
        peer.bytes(&AMQP_HEADER);
        peer.send(0, Performative::Open(Box::new(open())));
        assert_eq!(peer.header(), AMQP_HEADER);
        assert!(matches!(peer.frame(), Performative::Open(_)));
        assert!(matches!(peer.event(), Event::Opened(_)));
        peer
    }

    /// A session that the engine begins and this peer answers on channel 3.
    pub(crate) fn session(&mut self, answer: Begin) -> SessionKey {
        let session = self.engine.begin(SessionOptions::default()).unwrap();
        assert!(matches!(self.frame(), Performative::Begin(_)));
        self.send(CHANNEL, Performative::Begin(Box::new(answer)));
        assert!(matches!(self.event(), Event::SessionBegun { .. }));
        session
    }

    /// A session that this peer begins and the engine answers.
    pub(crate) fn begin_session(&mut self) -> SessionKey {
        let begin = Begin {
            remote_channel: None,
            ..begin()
        };
        self.send(CHANNEL, Performative::Begin(Box::new(begin)));
        let Event::SessionRequested { session, .. } = self.event() else {
            panic!("no request");
        };
        assert!(matches!(self.frame(), Performative::Begin(_)));
        session
    }

    /// A link that the engine attaches and this peer has not answered.
    pub(crate) fn attaching(
        &mut self,
        session: SessionKey,
        name: &str,
        role: Role,
        options: LinkOptions,
    ) -> LinkKey {
        let link = self.engine.attach(session, name.into(), role, options);
        assert!(matches!(self.frame(), Performative::Attach(_)));
        link.unwrap()
    }

    /// A link that the engine attaches and this peer answers with the handle.
    pub(crate) fn link(
        &mut self,
        session: SessionKey,
        role: Role,
        handle: u32,
        options: LinkOptions,
    ) -> LinkKey {
        let name = format!("link-{handle}");
        let link = self.attaching(session, &name, role, options);
        self.send(
            CHANNEL,
            Performative::Attach(attach(&name, handle, role.opposite())),
        );
        assert!(matches!(self.event(), Event::Attached { .. }));
        link
    }

    /// A link that this peer asks for and the engine accepts.
    pub(crate) fn request(&mut self, role: Role, handle: u32, options: LinkOptions) -> LinkKey {
        self.send(
            CHANNEL,
            Performative::Attach(attach(&format!("link-{handle}"), handle, role)),
        );
        let Event::AttachRequested { link, attach, .. } = self.event() else {
            panic!("no request");
        };
        let mut options = options;
        options.source = attach.source;
        options.target = attach.target;
        self.engine.accept_attach(link, options).unwrap();
        assert!(matches!(self.frame(), Performative::Attach(_)));
        link
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let _ = self.intake();
    }

    pub(crate) fn intake(&mut self) -> Intake {
        self.engine.handle_input(self.now, &mut self.input)
    }

    pub(crate) fn hex(&mut self, hex: &str) {
        let digits: String = hex.split_whitespace().collect();
        let bytes: Vec<u8> = (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
            .collect();
        self.bytes(&bytes);
    }

    pub(crate) fn send(&mut self, channel: u16, performative: Performative) {
        let mut frame = BytesMut::new();
        encode_frame(&mut frame, channel, &performative);
        self.bytes(&frame);
    }

    pub(crate) fn transfer(&mut self, transfer: &Transfer, payload: &[u8]) {
        let mut frame = BytesMut::new();
        encode_transfer(&mut frame, CHANNEL, transfer, payload.len());
        frame.extend_from_slice(payload);
        self.bytes(&frame);
    }

    pub(crate) fn flow(&mut self, flow: Flow) {
        self.send(CHANNEL, Performative::Flow(flow));
    }

    pub(crate) fn disposition(&mut self, disposition: Disposition) {
        self.send(CHANNEL, Performative::Disposition(disposition));
    }

    pub(crate) fn detach(&mut self, handle: u32, error: Option<AmqpError>) {
        self.send(
            CHANNEL,
            Performative::Detach(Detach {
                handle,
                closed: true,
                error: error.map(Box::new),
            }),
        );
    }

    pub(crate) fn end(&mut self) {
        self.send(CHANNEL, Performative::End(End::default()));
    }

    pub(crate) fn close(&mut self) {
        self.send(0, Performative::Close(Close::default()));
    }

    /// The next event; panics when there is none.
    #[track_caller]
    pub(crate) fn event(&mut self) -> Event {
        self.engine.poll_event().expect("an event")
    }

    /// Panics when there is an event.
    #[track_caller]
    pub(crate) fn quiet(&mut self) {
        let event = self.engine.poll_event();
        assert!(event.is_none(), "unexpected: {event:?}");
    }

    /// Reads what the engine wants to send.
    fn read(&mut self) {
        let mut transmit = Transmit::default();
        loop {
            self.engine.poll_transmit(self.now, &mut transmit);
            if transmit.is_empty() {
                return;
            }
            self.output
                .extend_from_slice(&transmit.copy_to_bytes(transmit.remaining()));
        }
    }

    pub(crate) fn output(&mut self) -> Bytes {
        self.read();
        self.output.split().freeze()
    }

    pub(crate) fn header(&mut self) -> [u8; 8] {
        self.read();
        self.output.split_to(8)[..].try_into().unwrap()
    }

    pub(crate) fn raw_frame(&mut self) -> Option<Frame> {
        self.read();
        decode_frame(&mut self.output, u32::MAX).unwrap()
    }

    /// The next frame that is not empty, if there is one.
    pub(crate) fn try_frame(&mut self) -> Option<(Performative, Bytes)> {
        loop {
            match self.raw_frame()? {
                Frame::Amqp {
                    performative,
                    payload,
                    ..
                } => return Some((performative, payload)),
                Frame::Empty { .. } => {}
                frame @ Frame::Sasl(_) => panic!("unexpected: {frame:?}"),
            }
        }
    }

    #[track_caller]
    pub(crate) fn frame(&mut self) -> Performative {
        self.try_frame().expect("a frame").0
    }

    #[track_caller]
    pub(crate) fn sent_flow(&mut self) -> Flow {
        match self.frame() {
            Performative::Flow(flow) => flow,
            other => panic!("not a flow: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn sent_transfer(&mut self) -> (Transfer, Bytes) {
        match self.try_frame().expect("a frame") {
            (Performative::Transfer(transfer), payload) => (transfer, payload),
            (other, _) => panic!("not a transfer: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn sent_disposition(&mut self) -> Disposition {
        match self.frame() {
            Performative::Disposition(disposition) => disposition,
            other => panic!("not a disposition: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn sent_detach(&mut self) -> Detach {
        match self.frame() {
            Performative::Detach(detach) => detach,
            other => panic!("not a detach: {other:?}"),
        }
    }

    /// All frames that wait.
    pub(crate) fn frames(&mut self) -> Vec<Performative> {
        std::iter::from_fn(|| self.try_frame().map(|(frame, _)| frame)).collect()
    }

    /// Panics when the engine wants to send something.
    #[track_caller]
    pub(crate) fn silent(&mut self) {
        let frame = self.try_frame();
        assert!(frame.is_none(), "unexpected: {frame:?}");
    }

    /// Time passes, and timers fire.
    pub(crate) fn advance(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(at) = self.engine.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.engine.handle_timeout(self.now);
        }
        self.now = end;
    }
}

/// The channel of this peer.
pub(crate) const CHANNEL: u16 = 3;

pub(crate) fn open() -> Open {
    Open {
        container_id: "peer".into(),
        hostname: None,
        max_frame_size: u32::MAX,
        channel_max: u16::MAX,
        idle_time_out: None,
        outgoing_locales: Vec::new(),
        incoming_locales: Vec::new(),
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    }
}

/// An answer to the engine's begin on channel 0.
pub(crate) fn begin() -> Begin {
    Begin {
        remote_channel: Some(0),
        next_outgoing_id: 0,
        incoming_window: 1000,
        outgoing_window: 1000,
        handle_max: u32::MAX,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    }
}

pub(crate) fn attach(name: &str, handle: u32, role: Role) -> Box<Attach> {
    Box::new(Attach {
        name: name.to_owned().into(),
        handle,
        role,
        snd_settle_mode: SenderSettleMode::Mixed,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(Box::new(Source::new("source"))),
        target: Some(Target::new("target").into()),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: (role == Role::Sender).then_some(0),
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    })
}

/// A whole unsettled delivery.
pub(crate) fn transfer(handle: u32, id: u32) -> Transfer {
    Transfer {
        handle,
        delivery_id: Some(id),
        delivery_tag: Some(Bytes::copy_from_slice(&id.to_be_bytes())),
        message_format: Some(0),
        settled: Some(false),
        ..Transfer::default()
    }
}

/// A flow of a receiver with so much credit.
pub(crate) fn credit(handle: u32, delivery_count: u32, credit: u32) -> Flow {
    Flow {
        next_incoming_id: Some(0),
        incoming_window: 1_000_000,
        next_outgoing_id: 0,
        outgoing_window: 1000,
        handle: Some(handle),
        delivery_count: Some(delivery_count),
        link_credit: Some(credit),
        ..Flow::default()
    }
}

/// The options of a link, without credit.
pub(crate) fn options() -> LinkOptions {
    LinkOptions::new(Source::new("source"), Target::new("target"))
}

/// A condition and a description.
pub(crate) fn error(condition: &'static str) -> AmqpError {
    AmqpError::new(condition, "for a test")
}

/// The options of a link with this much credit.
pub(crate) fn exactly(n: u32) -> LinkOptions {
    let mut options = options();
    options.credit = CreditMode::Exact(n);
    options
}

/// The peer of a client that receives from it with this much credit.
pub(crate) fn receiver(credit: u32) -> (Peer, SessionKey, LinkKey) {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    let link = peer.link(session, Role::Receiver, 0, exactly(credit));
    if credit > 0 {
        assert_eq!(peer.sent_flow().link_credit, Some(credit));
    }
    (peer, session, link)
}

/// The peer of a client that sends to it.
pub(crate) fn sender(options: LinkOptions) -> (Peer, LinkKey) {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    let link = peer.link(session, Role::Sender, 0, options);
    (peer, link)
}

/// Queues a small message in the engine.
pub(crate) fn send(peer: &mut Peer, link: LinkKey, context: u64) -> DeliveryKey {
    peer.engine
        .send(
            link,
            OutgoingDelivery::new(Bytes::from_static(b"m")),
            context,
        )
        .unwrap()
}

/// Takes the events of so many deliveries.
#[track_caller]
pub(crate) fn deliveries(peer: &mut Peer, count: u32) {
    for _ in 0..count {
        assert!(matches!(peer.event(), Event::Delivery(_)));
    }
}
