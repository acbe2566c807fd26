use bytes::Bytes;

use crate::types::{
    Attach, DeliveryState, Map, ReceiverSettleMode, Role, SenderSettleMode, Source, Symbol,
    TargetArchetype,
};

/// The settings of a session that is begun here, or by the peer
/// ([`Config::accepted_sessions`](super::Config::accepted_sessions)).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionOptions {
    /// How many transfer frames to take before the window is renewed; at least 1. Default 5000.
    ///
    /// The window is renewed whenever half of it is used, whatever the links do.
    pub incoming_window: u32,
    /// The highest handle to accept, so that the peer can attach `handle_max + 1` links; at most 2^32 − 2. Default 16 383.
    pub handle_max: u32,
    /// Properties to state in begin.
    pub properties: Option<Map>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            incoming_window: 5000,
            handle_max: 16_383,
            properties: None,
        }
    }
}

/// What our attach says, and how the engine treats the link.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LinkOptions {
    /// Where messages come from.
    pub source: Option<Box<Source>>,
    /// Where messages go.
    pub target: Option<TargetArchetype>,
    /// When the sender settles. Default mixed.
    pub snd_settle_mode: SenderSettleMode,
    /// When the receiver settles. Default first.
    pub rcv_settle_mode: ReceiverSettleMode,
    /// Sender: where the delivery-count starts. Default 0.
    pub initial_delivery_count: u32,
    /// Receiver: the largest message to take, in bytes; a larger one detaches the link. Default `None`, no limit of the
    /// link ([`Limits::partial_bytes`](super::Limits::partial_bytes) holds anyway). Senders state it too.
    pub max_message_size: Option<u64>,
    /// Capabilities to offer.
    pub offered_capabilities: Vec<Symbol>,
    /// Capabilities to desire.
    pub desired_capabilities: Vec<Symbol>,
    /// Properties of the link.
    pub properties: Option<Map>,
    /// Receiver: the credit. Default exactly none.
    pub credit: CreditMode,
    /// Sender: what a drain request does. Default automatic.
    pub drain: DrainPolicy,
    /// Sender: what the peer's unsettled outcome does. Default settle.
    pub on_outcome: OnOutcome,
}

/// How a receiving link gives credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum CreditMode {
    /// Just this many deliveries, until [`set_credit`](super::Connection::set_credit) or
    /// [`add_credit`](super::Connection::add_credit).
    Exact(u32),
    /// At most this many deliveries that are on their way or that the application has not reported with
    /// [`release`](super::Connection::release); credit follows on its own once half of the window is free.
    Window(u32),
}

/// What a sending link does when the peer asks it to use its credit up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum DrainPolicy {
    /// Sends what is queued in the engine, then gives the rest of the credit back.
    #[default]
    Automatic,
    /// Makes a [`DrainRequested`](super::Event::DrainRequested) and waits for
    /// [`drained`](super::Connection::drained).
    Manual,
}

/// What a sending link does when the peer states a terminal outcome and does not settle (receiver settle mode *second*).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum OnOutcome {
    /// Settles with the same state at once; the [`Outcome`](super::Event::Outcome) is a settled one.
    #[default]
    Settle,
    /// Reports an unsettled [`Outcome`](super::Event::Outcome); the application answers with
    /// [`settle`](super::Connection::settle). For those who drive the engine themselves: a `net::SenderLink` has no way to
    /// answer, so its deliveries stay unsettled.
    Report,
}

/// How to state the outcome of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_enums,
    reason = "the specification fixes the choices"
)]
pub enum Settle {
    /// Settled now: the delivery is forgotten and its key is stale.
    First,
    /// Unsettled: the peer answers with an [`Outcome`](super::Event::Outcome).
    Second,
}

/// How to take a link down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_enums,
    reason = "the specification fixes the choices"
)]
pub enum DetachMode {
    /// The link is gone for good: `closed` is true.
    #[default]
    Close,
    /// The terminus may live on and be attached again.
    Detach,
}

/// A message to send.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OutgoingDelivery {
    /// The encoded message, or its front part. Sent without a copy when it is large.
    pub payload: Bytes,
    /// What follows `payload` in the encoded message: lets a body go out without being copied to the sections before it.
    /// Default empty.
    pub tail: Bytes,
    /// The delivery-tag, at most 32 bytes, unique among the unsettled deliveries of the link. `None` lets the engine
    /// choose; do not mix the two on one link.
    pub tag: Option<Bytes>,
    /// The message-format; 0 for AMQP messages.
    pub message_format: u32,
    /// Whether to send it settled. Such a delivery makes an [`Outcome`](super::Event::Outcome) without a state once it is
    /// written.
    pub settled: bool,
    /// The state at the sender, as the transaction it belongs to.
    pub state: Option<DeliveryState>,
    /// Whether the peer may take its time to answer.
    pub batchable: bool,
}

impl OutgoingDelivery {
    /// An unsettled AMQP message with a tag that the engine chooses.
    pub fn new(payload: Bytes) -> Self {
        Self {
            payload,
            ..Self::default()
        }
    }
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            source: None,
            target: None,
            snd_settle_mode: SenderSettleMode::default(),
            rcv_settle_mode: ReceiverSettleMode::default(),
            initial_delivery_count: 0,
            max_message_size: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
            credit: CreditMode::Exact(0),
            drain: DrainPolicy::default(),
            on_outcome: OnOutcome::default(),
        }
    }
}

impl LinkOptions {
    /// Options with these termini and the defaults of each other field.
    pub fn new(source: Source, target: impl Into<TargetArchetype>) -> Self {
        Self {
            source: Some(Box::new(source)),
            target: Some(target.into()),
            ..Self::default()
        }
    }

    /// The plain answer to a peer's attach: its termini and its settle modes.
    pub fn answer(attach: &Attach) -> Self {
        Self {
            source: attach.source.clone(),
            target: attach.target.clone(),
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: attach.rcv_settle_mode,
            ..Self::default()
        }
    }
}

/// A look at a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkStatus {
    /// Our end.
    pub role: Role,
    /// The session of the link.
    pub session: super::SessionKey,
    /// Sender: the credit that the peer gave and that is not used. Receiver: the credit that the peer has from us.
    pub credit: u32,
    /// Sender: deliveries that wait in the engine.
    pub queued: usize,
    /// Deliveries that are transferred and not settled.
    pub unsettled: usize,
    /// The delivery-count.
    pub delivery_count: u32,
    /// The largest message that the peer takes; `None` for no limit.
    pub peer_max_message_size: Option<u64>,
}
