use std::fmt;
use std::time::Duration;

use bytestring::ByteString;

use super::SessionOptions;
use crate::types::{Map, Symbol};

/// Which side of the connection the engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a connection has two sides")]
pub enum Side {
    /// Opened the transport and speaks first.
    Client,
    /// Accepted the transport.
    Listener,
}

/// The settings of a connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The name of this container.
    pub container_id: ByteString,
    /// The host that the client means to reach: `open.hostname` and the SASL hostname. Default none.
    pub hostname: Option<ByteString>,
    /// The largest frame to accept, in bytes; at least 512. Default 1 MiB.
    ///
    /// A peer can make the engine hold one frame of this size before it knows what is in it.
    pub max_frame_size: u32,
    /// The highest channel to accept, so that the peer can begin `channel_max + 1` sessions. Default 8191.
    pub channel_max: u16,
    /// How long the peer may be silent before the connection is given up. Default 60 s; `None` waits for ever.
    ///
    /// The peer is told half of it, as AMQP 1.0 §2.4.5 recommends.
    pub idle_timeout: Option<Duration>,
    /// How long headers, SASL and open may take. Default 30 s.
    pub handshake_timeout: Duration,
    /// How long to wait for the peer's close after ours. Default 5 s.
    pub close_timeout: Duration,
    /// Capabilities to offer in open.
    pub offered_capabilities: Vec<Symbol>,
    /// Capabilities to desire in open.
    pub desired_capabilities: Vec<Symbol>,
    /// Properties to state in open. Whole, an open should have at most 512 bytes: the peer need not take more before it has
    /// stated its limit (AMQP 1.0 §2.4.1). Nothing checks that.
    pub properties: Option<Map>,
    /// The settings of sessions that the peer begins.
    pub accepted_sessions: SessionOptions,
    /// Authentication. Default none: plain AMQP.
    pub sasl: Sasl,
    /// What to hold at most for the peer.
    pub limits: Limits,
    /// Where serial numbers start; for tests of their wrap.
    #[doc(hidden)]
    pub initial_ids: InitialIds,
}

/// What the engine holds at most for the peer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of deliveries that are received in part, over all links. A link whose frame would exceed it is detached.
    /// Default 64 MiB.
    pub partial_bytes: usize,
    /// Links, over all sessions, those included that wait for an answer. A session whose peer asks for more is ended.
    /// Default 32 768.
    pub links: usize,
    /// Bytes of answers (to begins, attaches, ends …) that wait because the peer does not read. Beyond it the
    /// connection is closed. Default 4 MiB.
    pub unsent_bytes: usize,
}

/// How the connection authenticates.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Sasl {
    /// Not at all: plain AMQP.
    #[default]
    None,
    /// As a client: the first of these that the peer offers is used.
    Client(Vec<Credentials>),
    /// As a listener: offers these mechanisms.
    Listener {
        /// The names, the preferred one first.
        mechanisms: Vec<Symbol>,
        /// What to do with a client that begins with the AMQP header.
        plain_amqp: PlainAmqp,
    },
}

/// What a listener with SASL does with a client that skips it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum PlainAmqp {
    /// Answers with the SASL header and closes.
    #[default]
    Refuse,
    /// Goes on without authentication.
    Accept,
}

/// A client's means for one SASL mechanism.
#[derive(Clone)]
#[non_exhaustive]
pub enum Credentials {
    /// `ANONYMOUS`
    Anonymous,
    /// `EXTERNAL`: the transport (a TLS client certificate) tells who this is.
    External,
    /// `MSSBCBS`: like `ANONYMOUS`; claims follow on the `$cbs` node.
    Mssbcbs,
    /// `PLAIN`
    Plain {
        /// Who this is.
        username: ByteString,
        /// The proof. `Debug` does not show it.
        password: ByteString,
    },
}

/// Where serial numbers start.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "for tests only")]
pub struct InitialIds {
    /// The first transfer-id of each session.
    pub next_outgoing_id: u32,
    /// The first delivery-id of each session.
    pub delivery_id: u32,
}

impl Config {
    /// Settings with the defaults of each field.
    pub fn new(container_id: impl Into<ByteString>) -> Self {
        Self {
            container_id: container_id.into(),
            hostname: None,
            max_frame_size: 1024 * 1024,
            channel_max: 8191,
            idle_timeout: Some(Duration::from_secs(60)),
            handshake_timeout: Duration::from_secs(30),
            close_timeout: Duration::from_secs(5),
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
            accepted_sessions: SessionOptions::default(),
            sasl: Sasl::None,
            limits: Limits::default(),
            initial_ids: InitialIds::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            partial_bytes: 64 * 1024 * 1024,
            links: 32_768,
            unsent_bytes: 4 * 1024 * 1024,
        }
    }
}

impl Credentials {
    /// The name of the mechanism.
    pub const fn mechanism(&self) -> &'static str {
        match self {
            Self::Anonymous => "ANONYMOUS",
            Self::External => "EXTERNAL",
            Self::Mssbcbs => "MSSBCBS",
            Self::Plain { .. } => "PLAIN",
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mechanism())
    }
}
