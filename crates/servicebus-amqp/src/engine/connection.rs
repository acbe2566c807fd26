use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use bytes::{BufMut, BytesMut};
use bytestring::ByteString;

use super::arena::Arena;
use super::disposition::{Incoming, Outgoing};
use super::handshake::Phase;
use super::link::Link;
use super::session::Session;
use super::table::{OwnNumbers, PeerNumbers};
use super::timers::Timers;
use super::trace::{self, Direction};
use super::{Config, ConnectionError, Event, RequestError, Side, Transmit};
use crate::codec::{Frame, decode_frame, encode_empty, encode_frame};
use crate::types::{AmqpError, Close, Performative, Role, condition};

/// One connection, of either side: bytes and time in, bytes and events out.
///
/// A type of many methods; each file of the engine adds those of its noun.
pub struct Connection {
    pub(super) config: Config,
    pub(super) side: Side,
    pub(super) phase: Phase,
    pub(super) timers: Timers,
    pub(super) events: VecDeque<Event>,

    /// Frames that must keep their order: all but flows, dispositions and transfers, which are made when the
    /// transport takes them.
    pub(super) out: BytesMut,
    /// How much of `out` the peer caused.
    pub(super) answer_bytes: usize,
    /// How much input the last call left.
    unread: usize,
    pub(super) open_sent: bool,
    /// 512 until the peer's open is there (AMQP 1.0 §2.7.1).
    pub(super) peer_max_frame_size: u32,
    pub(super) peer_channel_max: u16,

    pub(super) sessions: Arena<Session>,
    pub(super) channels: OwnNumbers,
    pub(super) peer_channels: PeerNumbers,

    pub(super) links: Arena<Link>,
    /// By name and our role (AMQP 1.0 §2.6.1).
    pub(super) names: HashMap<(ByteString, Role), u32>,
    pub(super) outgoing: Arena<Outgoing>,
    pub(super) incoming: Arena<Incoming>,

    /// Links that have something to send, credit for it, and a session window.
    pub(super) ready: VecDeque<u32>,
    /// Links whose flow is due.
    pub(super) flows: VecDeque<u32>,
    /// Sessions whose flow or dispositions are due.
    pub(super) dirty: VecDeque<u32>,
    /// Bytes of deliveries that are received in part.
    pub(super) partial_bytes: usize,
    /// Where chosen tags are cut from.
    pub(super) tags: BytesMut,
}

/// Whether [`Connection::handle_input`] wants to be called again before more bytes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "input may be left that no new bytes will announce"]
#[allow(clippy::exhaustive_enums, reason = "there is no third answer")]
pub enum Intake {
    /// All whole frames were taken, or a SASL verdict is awaited: read more bytes.
    Drained,
    /// Many events wait: take them with [`Connection::poll_event`], then call again with the same buffer.
    Paused,
}

/// What the peer broke, and how far it reaches.
#[derive(Debug)]
pub(super) enum Violation {
    Connection(AmqpError),
    Session(u32, AmqpError),
    Link(u32, AmqpError),
}

/// How many events may wait before input is left alone: a frame can cause as many events as deliveries are unsettled.
const MAX_EVENTS: usize = 1024;

/// A SASL frame is small; the exact number is ours.
const SASL_MAX_FRAME_SIZE: u32 = 16 * 1024;

/// What is worth keeping of an empty buffer.
const SMALL_BUFFER: usize = 4 * 1024;

/// # Transport and time
impl Connection {
    /// A connection whose transport is established now.
    pub fn new(config: Config, side: Side, now: Instant) -> Self {
        let mut connection = Self {
            phase: Phase::start(side, &config.sasl),
            timers: Timers::new(now, config.handshake_timeout),
            config,
            side,
            events: VecDeque::new(),
            out: BytesMut::new(),
            answer_bytes: 0,
            unread: 0,
            open_sent: false,
            peer_max_frame_size: 512,
            peer_channel_max: u16::MAX,
            sessions: Arena::new(),
            channels: OwnNumbers::default(),
            peer_channels: PeerNumbers::default(),
            links: Arena::new(),
            names: HashMap::new(),
            outgoing: Arena::new(),
            incoming: Arena::new(),
            ready: VecDeque::new(),
            flows: VecDeque::new(),
            dirty: VecDeque::new(),
            partial_bytes: 0,
            tags: BytesMut::new(),
        };
        connection.config.max_frame_size = connection.config.max_frame_size.max(512);
        connection.start_handshake();
        connection
    }

    /// Takes whole frames (and protocol headers) off the front of `input` and leaves the rest.
    ///
    /// Never fails: what is wrong with the input becomes an event. After the end of the connection all input is
    /// thrown away.
    pub fn handle_input(&mut self, now: Instant, input: &mut BytesMut) -> Intake {
        // A piece of a frame that was there before is no new sign of life.
        if input.len() > self.unread {
            self.timers.received(now);
        }
        let intake = self.take_frames(now, input);
        self.unread = input.len();
        intake
    }

    fn take_frames(&mut self, now: Instant, input: &mut BytesMut) -> Intake {
        loop {
            if self.events.len() >= MAX_EVENTS && !input.is_empty() {
                return Intake::Paused;
            }
            let answered = self.out.len();
            let max_frame_size = match self.phase {
                Phase::Closed => {
                    input.clear();
                    return Intake::Drained;
                }
                // What the client sends without waiting stays in the input, up to what one frame may be.
                Phase::SaslVerdict if input.len() <= self.config.max_frame_size as usize => {
                    return Intake::Drained;
                }
                Phase::SaslVerdict => {
                    self.protocol_error(AmqpError::new(
                        condition::RESOURCE_LIMIT_EXCEEDED,
                        "too much was sent before the outcome of SASL",
                    ));
                    continue;
                }
                Phase::AnyHeader | Phase::SaslHeader | Phase::AmqpHeader => {
                    let Some(&header) = input.first_chunk::<8>() else {
                        return Intake::Drained;
                    };
                    let _ = input.split_to(8);
                    trace::header(Direction::In, header);
                    self.on_header(header);
                    continue;
                }
                Phase::SaslMechanisms | Phase::SaslInit | Phase::SaslOutcome => SASL_MAX_FRAME_SIZE,
                Phase::Opening | Phase::Open | Phase::Closing => self.config.max_frame_size,
            };
            match decode_frame(input, max_frame_size) {
                Ok(None) => return Intake::Drained,
                Ok(Some(frame)) => self.on_frame(now, frame),
                Err(error) => {
                    self.protocol_error(AmqpError::new(error.condition(), error.to_string()));
                }
            }
            self.count_answer(answered);
        }
    }

    /// The transport is gone: [`ConnectionError::Lost`] after an orderly end of the byte stream, or what broke it.
    ///
    /// Makes the [`Closed`](Event::Closed) event, if there was none yet.
    pub fn handle_disconnect(&mut self, error: ConnectionError) {
        match self.phase {
            Phase::Closed => {}
            Phase::Closing => self.finish(ConnectionError::ClosedLocally),
            _ => self.finish(error),
        }
        self.out.clear();
    }

    /// Appends bytes for the peer, up to about the limit of `out`; what remains comes with the next call.
    ///
    /// Call it whenever `out` was written and something happened since: input, a request, a time-out.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Transmit) {
        let before = out.len();
        if !self.out.is_empty() {
            out.buffer().extend_from_slice(&self.out);
            self.out.clear();
            if self.out.capacity() > SMALL_BUFFER {
                self.out = BytesMut::new();
            }
            self.answer_bytes = 0;
        }
        if self.phase == Phase::Open {
            self.transmit_session_state(out);
            self.transmit_link_flows(out);
            self.pump(out);
        }
        if out.len() == before {
            if !self.timers.take_heartbeat() {
                return;
            }
            trace::empty(Direction::Out);
            encode_empty(out.buffer());
        }
        self.timers.sent(now);
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if event.is_none() && self.events.capacity() > MAX_EVENTS {
            self.events = VecDeque::new();
        }
        event
    }

    /// When to call [`handle_timeout`](Self::handle_timeout); may change with every other call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.timers.deadline_passed(now) {
            match self.phase {
                Phase::Closing => self.finish(ConnectionError::ClosedLocally),
                _ => self.finish(ConnectionError::HandshakeTimeout),
            }
        } else if self.timers.peer_is_silent(now) {
            self.emit(
                0,
                &Performative::Close(Close {
                    error: Some(Box::new(AmqpError::new(
                        condition::RESOURCE_LIMIT_EXCEEDED,
                        "nothing came within the idle time-out",
                    ))),
                }),
            );
            self.finish(ConnectionError::IdleTimeout);
        } else {
            self.timers.heartbeat(now);
        }
    }

    /// Gives back memory that a burst of traffic left unused, for a connection that goes idle.
    pub fn release_memory(&mut self) {
        self.events.shrink_to_fit();
        self.ready.shrink_to_fit();
        self.flows.shrink_to_fit();
        self.dirty.shrink_to_fit();
        self.outgoing.shrink();
        self.incoming.shrink();
        if self.out.is_empty() {
            self.out = BytesMut::new();
        }
        self.tags = BytesMut::new();
        self.sessions.for_each(Session::shrink);
    }

    /// Whether the [`Closed`](Event::Closed) event has been made.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }
}

impl Connection {
    fn on_frame(&mut self, now: Instant, frame: Frame) {
        let (channel, performative, payload) = match frame {
            Frame::Empty { .. } => {
                trace::empty(Direction::In);
                return;
            }
            Frame::Sasl(frame) => return self.on_sasl(frame),
            Frame::Amqp {
                channel,
                performative,
                payload,
            } => (channel, performative, payload),
        };
        trace::performative(Direction::In, channel, &performative, payload.len());
        let result = match (self.phase, performative) {
            (Phase::Opening, Performative::Open(open)) => self.on_open(now, open),
            (Phase::Open | Phase::Closing | Phase::Opening, Performative::Close(close)) => {
                self.on_close(close);
                Ok(())
            }
            (Phase::Closing, _) => Ok(()),
            (Phase::Open, Performative::Begin(begin)) => self.on_begin(channel, begin),
            (Phase::Open, Performative::Attach(attach)) => self.on_attach(channel, attach),
            (Phase::Open, Performative::Flow(flow)) => self.on_flow(channel, &flow),
            (Phase::Open, Performative::Transfer(transfer)) => {
                self.on_transfer(channel, transfer, payload)
            }
            (Phase::Open, Performative::Disposition(disposition)) => {
                self.on_disposition(channel, disposition)
            }
            (Phase::Open, Performative::Detach(detach)) => self.on_detach(channel, detach),
            (Phase::Open, Performative::End(end)) => self.on_end(channel, end),
            (phase, _) => Err(Violation::Connection(AmqpError::new(
                condition::ILLEGAL_STATE,
                format!("a frame that does not belong here: {}", phase.expects()),
            ))),
        };
        match result {
            Ok(()) => {}
            Err(Violation::Connection(error)) => self.protocol_error(error),
            Err(Violation::Session(session, error)) => self.session_error(session, error),
            Err(Violation::Link(link, error)) => self.link_error(link, error),
        }
    }

    /// Appends a frame to the ordered ones.
    pub(super) fn emit(&mut self, channel: u16, performative: &Performative) {
        trace::performative(Direction::Out, channel, performative, 0);
        encode_frame(&mut self.out, channel, performative);
    }

    /// Appends a frame if the peer takes one of its size.
    pub(super) fn emit_within_limit(
        &mut self,
        channel: u16,
        performative: &Performative,
    ) -> Result<(), RequestError> {
        let before = self.out.len();
        encode_frame(&mut self.out, channel, performative);
        if self.out.len() - before > self.peer_max_frame_size as usize {
            self.out.truncate(before);
            return Err(RequestError::FrameTooLarge {
                max_frame_size: self.peer_max_frame_size,
            });
        }
        trace::performative(Direction::Out, channel, performative, 0);
        Ok(())
    }

    /// An error that fits a frame of the peer: without its details where they are too long.
    pub(super) fn fitting(&self, error: Option<AmqpError>) -> Option<Box<AmqpError>> {
        let mut error = error?;
        let length = |error: &AmqpError| {
            let mut frame = BytesMut::new();
            let close = Close {
                error: Some(Box::new(error.clone())),
            };
            encode_frame(&mut frame, 0, &Performative::Close(close));
            // A detach has two fields more.
            frame.len() + 16
        };
        let limit = self.peer_max_frame_size as usize;
        if length(&error) > limit {
            error.info = None;
        }
        if length(&error) > limit {
            error.description = None;
        }
        Some(Box::new(error))
    }

    /// Counts what was appended since `before` as caused by the peer.
    pub(super) fn count_answer(&mut self, before: usize) {
        self.answer_bytes += self.out.len().saturating_sub(before);
        if self.answer_bytes > self.config.limits.unsent_bytes && self.phase == Phase::Open {
            self.answer_bytes = 0;
            self.protocol_error(AmqpError::new(
                condition::RESOURCE_LIMIT_EXCEEDED,
                "too many answers wait to be read",
            ));
        }
    }

    /// Closes the connection because of the peer.
    pub(super) fn protocol_error(&mut self, error: AmqpError) {
        if matches!(self.phase, Phase::Opening | Phase::Open) {
            self.send_open();
            let error = self.fitting(Some(error.clone()));
            self.emit(0, &Performative::Close(Close { error }));
        }
        self.finish(ConnectionError::Protocol(Box::new(error)));
    }

    /// The end of the connection.
    pub(super) fn finish(&mut self, error: ConnectionError) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        self.timers.stop();
        self.report_all_unsent();
        self.forget_all();
        self.events.push_back(Event::Closed(error));
    }

    /// Drops all sessions and what is in them; their keys are stale.
    pub(super) fn forget_all(&mut self) {
        self.sessions = Arena::new();
        self.channels = OwnNumbers::default();
        self.peer_channels = PeerNumbers::default();
        self.links = Arena::new();
        self.names = HashMap::new();
        self.outgoing = Arena::new();
        self.incoming = Arena::new();
        self.ready = VecDeque::new();
        self.flows = VecDeque::new();
        self.dirty = VecDeque::new();
        self.partial_bytes = 0;
    }

    /// Appends a protocol header.
    pub(super) fn emit_header(&mut self, header: [u8; 8]) {
        trace::header(Direction::Out, header);
        self.out.put_slice(&header);
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.side)
            .field("phase", &self.phase)
            .field("sessions", &self.sessions.len())
            .field("links", &self.links.len())
            .field("events", &self.events.len())
            .finish_non_exhaustive()
    }
}
