use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use servicebus_amqp::codec::{Frame, decode_frame, encode_frame};
use servicebus_amqp::engine::{
    Config, Connection, Credentials, CreditMode, Event, Intake, LinkOptions, OutgoingDelivery,
    PlainAmqp, RequestError, Sasl, SessionOptions, Settle, Side, Transmit,
};
use servicebus_amqp::types::{
    AmqpError, Attach, Begin, DeliveryState, Open, Performative, ReceiverSettleMode, Role,
    SaslCode, SenderSettleMode, Source, Symbol, Target, condition,
};

#[path = "../../crates/servicebus-amqp/tests/engine_pair/operations.rs"]
mod operations;

/// Any operations on two engines that talk to one another.
pub fn connection_ops(data: &[u8]) {
    operations::run(data);
}

/// Any bytes from a peer, to a client or a listener whose application takes what it gets.
///
/// The first byte chooses the side, whether the connection is open already, and the size of the pieces.
pub fn connection_bytes(data: &[u8]) {
    let Some((&flags, data)) = data.split_first() else {
        return;
    };
    let mut application = Application::new(flags);
    let piece = match flags >> 4 & 3 {
        0 => usize::MAX,
        1 => 1,
        2 => 7,
        _ => 64,
    };
    for piece in data.chunks(piece) {
        application.feed(piece);
    }
    application.finish();
}

/// Reacts to events in the plainest way, and checks what the engine promises.
struct Application {
    engine: Connection,
    now: Instant,
    input: BytesMut,
    output: BytesMut,
    /// How many protocol headers were read off `output`.
    headers: usize,
    fed: usize,
    written: usize,
    own_bytes: usize,
    closed: bool,
}

/// No peer makes us answer a byte with more than this many, after a start.
const AMPLIFICATION: usize = 64;
const START: usize = 64 * 1024;

impl Application {
    fn new(flags: u8) -> Self {
        #[allow(
            clippy::disallowed_methods,
            reason = "an Instant cannot be made otherwise; only distances from it matter"
        )]
        let now = Instant::now();
        let side = if flags & 1 == 0 {
            Side::Listener
        } else {
            Side::Client
        };
        let open = flags & 2 != 0;
        let mut config = Config::new("fuzzed");
        config.limits.partial_bytes = 1 << 20;
        config.sasl = match (side, open || flags & 4 == 0) {
            (_, true) => Sasl::None,
            (Side::Client, false) => Sasl::Client(vec![
                Credentials::Anonymous,
                Credentials::Plain {
                    username: "user".into(),
                    password: "secret".into(),
                },
            ]),
            (Side::Listener, false) => Sasl::Listener {
                mechanisms: vec![
                    Symbol::from_static("ANONYMOUS"),
                    Symbol::from_static("PLAIN"),
                ],
                plain_amqp: PlainAmqp::Accept,
            },
        };
        let mut application = Self {
            engine: Connection::new(config, side, now),
            now,
            input: BytesMut::new(),
            output: BytesMut::new(),
            headers: 0,
            fed: 0,
            written: 0,
            own_bytes: 0,
            closed: false,
        };
        if side == Side::Client {
            application.ask();
        }
        if open {
            application.feed(&opening(side));
        }
        application
    }

    /// What a client's application wants from the start.
    fn ask(&mut self) {
        let session = self.engine.begin(SessionOptions::default()).unwrap();
        for (name, role) in [("out", Role::Sender), ("in", Role::Receiver)] {
            let mut options = LinkOptions::new(Source::new("source"), Target::new("target"));
            options.credit = CreditMode::Window(10);
            let link = self
                .engine
                .attach(session, name.into(), role, options)
                .unwrap();
            if role == Role::Sender {
                self.send(link, 3000);
            }
        }
    }

    fn send(&mut self, link: servicebus_amqp::engine::LinkKey, size: usize) {
        let payload = Bytes::from(vec![0; size]);
        if self
            .engine
            .send(link, OutgoingDelivery::new(payload), 1)
            .is_ok()
        {
            // In frames of 512 bytes.
            self.own_bytes += 2 * size + 1000;
        }
    }

    fn feed(&mut self, piece: &[u8]) {
        self.fed += piece.len();
        self.input.extend_from_slice(piece);
        self.take();
    }

    fn take(&mut self) {
        loop {
            let intake = self.engine.handle_input(self.now, &mut self.input);
            let mut events = 0;
            while let Some(event) = self.engine.poll_event() {
                events += 1;
                self.on_event(event);
            }
            assert!(events < 20_000, "{events} events at once");
            self.write();
            if intake == Intake::Drained {
                return;
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        assert!(!self.closed, "an event after the last: {event:?}");
        match event {
            Event::SaslInit(_) => {
                self.engine.sasl_outcome(SaslCode::Ok).unwrap();
            }
            Event::AttachRequested { link, attach, .. } => {
                if attach.name.len() % 2 == 0 {
                    let mut options = LinkOptions::answer(&attach);
                    self.own_bytes += 2 * self.fed.min(10_000);
                    options.credit = CreditMode::Window(10);
                    if self.engine.accept_attach(link, options).is_ok() {
                        self.send(link, 10);
                        return;
                    }
                }
                let error = AmqpError::new(condition::NOT_FOUND, "no");
                // Stale when what follows in the same input took the link down.
                let _ = self.engine.refuse_attach(link, error);
            }
            Event::Delivery(delivery) => {
                let settle = if delivery.payload.len() % 2 == 0 {
                    Settle::First
                } else {
                    Settle::Second
                };
                if !delivery.settled {
                    // Stale for the same reason.
                    let _ = self
                        .engine
                        .settle(delivery.delivery, DeliveryState::ACCEPTED, settle);
                }
                let _ = self.engine.release(delivery.link, 1);
            }
            Event::Closed(_) => {
                self.closed = true;
                assert!(self.engine.is_closed());
                assert_eq!(self.engine.poll_timeout(), None);
                assert_eq!(
                    self.engine.begin(SessionOptions::default()),
                    Err(RequestError::Stale)
                );
            }
            _ => {}
        }
    }

    /// Takes the output: it must be headers and whole frames, and not too much of them.
    fn write(&mut self) {
        let mut transmit = Transmit::default();
        loop {
            self.engine.poll_transmit(self.now, &mut transmit);
            if transmit.is_empty() {
                break;
            }
            self.written += transmit.len();
            let length = transmit.remaining();
            self.output
                .extend_from_slice(&transmit.copy_to_bytes(length));
        }
        while !self.output.is_empty() {
            if self.output.starts_with(b"AMQP") {
                self.output.advance(8);
                self.headers += 1;
                continue;
            }
            let frame = decode_frame(&mut self.output, u32::MAX).expect("our own frames decode");
            let frame = frame.expect("our own frames are whole");
            assert!(
                !matches!(&frame, Frame::Sasl(frame) if format!("{frame:?}").contains("secret"))
            );
        }
        assert!(self.headers <= 2);
        assert!(
            self.written <= START + AMPLIFICATION * self.fed + self.own_bytes,
            "{} bytes for {}",
            self.written,
            self.fed
        );
    }

    /// Time runs out for whatever is unfinished.
    fn finish(mut self) {
        let mut timeouts = 0;
        while let Some(at) = self
            .engine
            .poll_timeout()
            .filter(|at| *at < self.now + Duration::from_secs(61))
        {
            self.engine.handle_timeout(at);
            self.write();
            timeouts += 1;
            assert!(timeouts < 10_000, "timers without end");
        }
        self.engine
            .handle_disconnect(servicebus_amqp::engine::ConnectionError::Lost);
        while let Some(event) = self.engine.poll_event() {
            self.on_event(event);
        }
        assert!(self.closed);
    }
}

/// What a peer sends to have the connection open, a session begun and a link attached each way.
fn opening(side: Side) -> BytesMut {
    let mut bytes = BytesMut::from(&b"AMQP\0\x01\0\0"[..]);
    let open = Open {
        container_id: "peer".into(),
        hostname: None,
        max_frame_size: 4096,
        channel_max: 10,
        idle_time_out: None,
        outgoing_locales: Vec::new(),
        incoming_locales: Vec::new(),
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    };
    encode_frame(&mut bytes, 0, &Performative::Open(Box::new(open)));
    let begin = Begin {
        remote_channel: (side == Side::Client).then_some(0),
        next_outgoing_id: 0,
        incoming_window: 100,
        outgoing_window: 100,
        handle_max: 10,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    };
    encode_frame(&mut bytes, 0, &Performative::Begin(Box::new(begin)));
    for (handle, (name, role)) in [("out_", Role::Receiver), ("in", Role::Sender)]
        .into_iter()
        .enumerate()
    {
        let name = if side == Side::Client {
            name.trim_end_matches('_')
        } else {
            name
        };
        let attach = Attach {
            name: name.into(),
            handle: u32::try_from(handle).unwrap(),
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
        };
        encode_frame(&mut bytes, 0, &Performative::Attach(Box::new(attach)));
    }
    bytes
}
