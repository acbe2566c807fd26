use std::time::Instant;

use super::connection::{Connection, Violation};
use super::trace::{self, Direction};
use super::{Config, ConnectionError, Event, PlainAmqp, RequestError, Sasl, Side};
use crate::codec::{AMQP_HEADER, SASL_HEADER, encode_sasl};
use crate::types::{
    AmqpError, Close, Open, Performative, SaslCode, SaslFrame, SaslMechanisms, SaslOutcome,
    condition,
};

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Listener: any header may come.
    AnyHeader,
    /// Client: the SASL header was sent.
    SaslHeader,
    SaslMechanisms,
    SaslOutcome,
    /// Listener: the mechanisms were sent.
    SaslInit,
    /// Listener: the application has the client's init and owes a verdict.
    SaslVerdict,
    AmqpHeader,
    /// The peer's open must come.
    Opening,
    Open,
    /// Our close was sent.
    Closing,
    Closed,
}

impl Phase {
    pub(super) fn start(side: Side, sasl: &Sasl) -> Self {
        match (side, sasl) {
            (Side::Listener, _) => Self::AnyHeader,
            (Side::Client, Sasl::Client(_)) => Self::SaslHeader,
            (Side::Client, _) => Self::AmqpHeader,
        }
    }

    /// What should have come instead of what came.
    pub(super) fn expects(self) -> &'static str {
        match self {
            Self::Opening => "an open is expected",
            Self::Open | Self::Closing | Self::Closed => "the connection is open already",
            _ => "a frame of the SASL layer is expected",
        }
    }
}

impl Connection {
    pub(super) fn start_handshake(&mut self) {
        match self.phase {
            Phase::SaslHeader => self.emit_header(SASL_HEADER),
            Phase::AmqpHeader => self.start_amqp(),
            _ => {}
        }
    }

    /// The client's half of the AMQP layer's beginning: header and open need no answer in between.
    fn start_amqp(&mut self) {
        self.phase = Phase::AmqpHeader;
        self.emit_header(AMQP_HEADER);
        self.send_open();
        self.begin_waiting();
    }

    pub(super) fn on_header(&mut self, header: [u8; 8]) {
        let listener = self.side == Side::Listener;
        match (self.phase, header) {
            (Phase::SaslHeader, SASL_HEADER) => self.phase = Phase::SaslMechanisms,
            (Phase::AmqpHeader, AMQP_HEADER) => {
                if listener {
                    self.emit_header(AMQP_HEADER);
                }
                self.phase = Phase::Opening;
            }
            (Phase::AnyHeader, SASL_HEADER) if self.offers_sasl() => {
                self.emit_header(SASL_HEADER);
                if let Sasl::Listener { mechanisms, .. } = &self.config.sasl {
                    let mechanisms = mechanisms.clone();
                    self.emit_sasl(&SaslFrame::Mechanisms(SaslMechanisms { mechanisms }));
                }
                self.phase = Phase::SaslInit;
            }
            (Phase::AnyHeader, AMQP_HEADER) if self.accepts_plain() => {
                self.emit_header(AMQP_HEADER);
                self.phase = Phase::Opening;
            }
            _ => {
                // AMQP 1.0 §2.2: a listener answers with the header that it would take.
                if listener && self.phase == Phase::AnyHeader && self.offers_sasl() {
                    self.emit_header(SASL_HEADER);
                } else if listener {
                    self.emit_header(AMQP_HEADER);
                }
                self.finish(ConnectionError::ProtocolHeader(header));
            }
        }
    }

    fn offers_sasl(&self) -> bool {
        matches!(self.config.sasl, Sasl::Listener { .. })
    }

    fn accepts_plain(&self) -> bool {
        !matches!(
            self.config.sasl,
            Sasl::Listener {
                plain_amqp: PlainAmqp::Refuse,
                ..
            }
        )
    }

    fn emit_sasl(&mut self, frame: &SaslFrame) {
        trace::sasl(Direction::Out, frame);
        encode_sasl(&mut self.out, frame);
    }

    pub(super) fn on_sasl(&mut self, frame: SaslFrame) {
        trace::sasl(Direction::In, &frame);
        match (self.phase, frame) {
            (Phase::SaslMechanisms, SaslFrame::Mechanisms(offer)) => {
                match self.config.choose_mechanism(&offer.mechanisms) {
                    Some(init) => {
                        self.emit_sasl(&SaslFrame::Init(init));
                        self.phase = Phase::SaslOutcome;
                    }
                    None => self.finish(ConnectionError::NoMechanism {
                        offered: offer.mechanisms,
                    }),
                }
            }
            (Phase::SaslOutcome, SaslFrame::Outcome(outcome)) => match outcome.code {
                SaslCode::Ok => self.start_amqp(),
                code => self.finish(ConnectionError::Authentication(code)),
            },
            (Phase::SaslInit, SaslFrame::Init(init)) => {
                self.phase = Phase::SaslVerdict;
                let offered = matches!(&self.config.sasl, Sasl::Listener { mechanisms, .. }
                    if mechanisms.contains(&init.mechanism));
                if offered {
                    self.events.push_back(Event::SaslInit(Box::new(init)));
                } else {
                    self.give_verdict(SaslCode::Auth);
                }
            }
            (phase, _) => self.protocol_error(AmqpError::new(
                condition::ILLEGAL_STATE,
                format!(
                    "a SASL frame that does not belong here: {}",
                    phase.expects()
                ),
            )),
        }
    }

    /// Answers an [`Event::SaslInit`]. Call [`handle_input`](Self::handle_input) again afterwards: the client may have sent more
    /// without waiting.
    ///
    /// # Errors
    ///
    /// [`RequestError::WrongState`] when no client waits for a verdict.
    pub fn sasl_outcome(&mut self, code: SaslCode) -> Result<(), RequestError> {
        if self.phase != Phase::SaslVerdict {
            return Err(RequestError::WrongState);
        }
        self.give_verdict(code);
        Ok(())
    }

    fn give_verdict(&mut self, code: SaslCode) {
        self.emit_sasl(&SaslFrame::Outcome(SaslOutcome {
            code,
            additional_data: None,
        }));
        match code {
            SaslCode::Ok => self.phase = Phase::AmqpHeader,
            code => self.finish(ConnectionError::Authentication(code)),
        }
    }

    pub(super) fn send_open(&mut self) {
        if self.open_sent {
            return;
        }
        self.open_sent = true;
        let open = self.config.open();
        self.emit(0, &Performative::Open(Box::new(open)));
    }

    pub(super) fn on_open(&mut self, now: Instant, open: Box<Open>) -> Result<(), Violation> {
        // Below 512 is not legal (§2.7.1); such a peer takes 512 all the same.
        self.peer_max_frame_size = open.max_frame_size.max(512);
        self.peer_channel_max = open.channel_max;
        self.timers
            .opened(now, self.config.idle_timeout, open.idle_time_out);
        self.send_open();
        self.phase = Phase::Open;
        self.events.push_back(Event::Opened(open));
        self.begin_waiting();
        Ok(())
    }

    pub(super) fn on_close(&mut self, close: Close) {
        if self.phase == Phase::Closing {
            self.finish(ConnectionError::ClosedLocally);
        } else {
            self.send_open();
            self.emit(0, &Performative::Close(Close::default()));
            self.finish(ConnectionError::ClosedByPeer(close.error));
        }
    }

    /// Closes the connection, with an error or without. [`Event::Closed`] follows when the peer answered or the
    /// close time-out passed, at once when the connection was never open. Closing twice changes nothing.
    pub fn close(&mut self, now: Instant, error: Option<AmqpError>) {
        match self.phase {
            Phase::Closing | Phase::Closed => return,
            Phase::Open => {
                self.flush_all_dispositions();
                self.timers.closing(now, self.config.close_timeout);
            }
            _ => {}
        }
        if self.open_sent {
            let error = self.fitting(error);
            self.emit(0, &Performative::Close(Close { error }));
        }
        if self.phase == Phase::Open {
            self.phase = Phase::Closing;
            self.report_all_unsent();
            self.forget_all();
        } else {
            self.finish(ConnectionError::ClosedLocally);
        }
    }
}

impl Config {
    fn open(&self) -> Open {
        Open {
            container_id: self.container_id.clone(),
            hostname: self.hostname.clone(),
            max_frame_size: self.max_frame_size,
            channel_max: self.channel_max,
            idle_time_out: self
                .idle_timeout
                .filter(|idle| !idle.is_zero())
                .map(|idle| {
                    u32::try_from(idle.as_millis() / 2)
                        .unwrap_or(u32::MAX)
                        .max(1)
                }),
            outgoing_locales: Vec::new(),
            incoming_locales: Vec::new(),
            offered_capabilities: self.offered_capabilities.clone(),
            desired_capabilities: self.desired_capabilities.clone(),
            properties: self.properties.clone(),
        }
    }
}
