use bytes::Bytes;
use bytestring::ByteString;

use super::{
    AmqpError, DeliveryState, Handle, Map, Milliseconds, ReceiverSettleMode, Role,
    SenderSettleMode, Source, Symbol, TargetArchetype,
};

/// One of the nine performatives (AMQP 1.0 §2.7).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Performative {
    /// Negotiates the connection.
    Open(Box<Open>),
    /// Begins a session.
    Begin(Box<Begin>),
    /// Attaches a link.
    Attach(Box<Attach>),
    /// Updates windows and credit.
    Flow(Flow),
    /// Carries a delivery, or a part of one; the payload follows it in the frame.
    Transfer(Transfer),
    /// States what became of deliveries.
    Disposition(Disposition),
    /// Detaches a link.
    Detach(Detach),
    /// Ends a session.
    End(End),
    /// Closes the connection.
    Close(Close),
}

/// `open` (AMQP 1.0 §2.7.1).
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct Open {
    /// The name of the container that speaks.
    pub container_id: ByteString,
    /// The host that the speaker means to reach.
    pub hostname: Option<ByteString>,
    /// The largest frame that the speaker takes, in bytes; 2^32 − 1 when absent on the wire.
    pub max_frame_size: u32,
    /// The highest channel that the speaker takes; 65535 when absent on the wire.
    pub channel_max: u16,
    /// How long the speaker waits for a frame before it gives the connection up; `None` and 0 mean for ever.
    pub idle_time_out: Option<Milliseconds>,
    /// Locales for outgoing text.
    pub outgoing_locales: Vec<Symbol>,
    /// Locales for incoming text.
    pub incoming_locales: Vec<Symbol>,
    /// Extensions that the speaker supports.
    pub offered_capabilities: Vec<Symbol>,
    /// Extensions that the speaker would use.
    pub desired_capabilities: Vec<Symbol>,
    /// Properties of the container.
    pub properties: Option<Map>,
}

/// `begin` (AMQP 1.0 §2.7.2).
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct Begin {
    /// In an answer, the channel of the begin that is answered.
    pub remote_channel: Option<u16>,
    /// The transfer-id of the first transfer to come.
    pub next_outgoing_id: u32,
    /// How many transfer frames the speaker takes.
    pub incoming_window: u32,
    /// How many transfer frames the speaker may have under way.
    pub outgoing_window: u32,
    /// The highest handle that the speaker takes; 2^32 − 1 when absent on the wire.
    pub handle_max: Handle,
    /// Extensions that the speaker supports.
    pub offered_capabilities: Vec<Symbol>,
    /// Extensions that the speaker would use.
    pub desired_capabilities: Vec<Symbol>,
    /// Properties of the session.
    pub properties: Option<Map>,
}

/// `attach` (AMQP 1.0 §2.7.3).
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct Attach {
    /// The name of the link.
    pub name: ByteString,
    /// The speaker's handle for it.
    pub handle: Handle,
    /// The speaker's end.
    pub role: Role,
    /// When the sender settles.
    pub snd_settle_mode: SenderSettleMode,
    /// When the receiver settles.
    pub rcv_settle_mode: ReceiverSettleMode,
    /// Where messages come from; `None` announces a refusal.
    pub source: Option<Box<Source>>,
    /// Where messages go; `None` announces a refusal.
    pub target: Option<TargetArchetype>,
    /// Unsettled deliveries of a link that is resumed.
    pub unsettled: Option<Map>,
    /// Whether `unsettled` is only a part.
    pub incomplete_unsettled: bool,
    /// The sender's first delivery-count; set by senders.
    pub initial_delivery_count: Option<u32>,
    /// The largest message that the speaker takes; `None` and 0 mean no limit.
    pub max_message_size: Option<u64>,
    /// Extensions that the speaker supports.
    pub offered_capabilities: Vec<Symbol>,
    /// Extensions that the speaker would use.
    pub desired_capabilities: Vec<Symbol>,
    /// Properties of the link.
    pub properties: Option<Map>,
}

/// `flow` (AMQP 1.0 §2.7.4).
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct Flow {
    /// The transfer-id that the speaker expects next; `None` before it saw the peer's begin.
    pub next_incoming_id: Option<u32>,
    /// How many transfer frames the speaker takes.
    pub incoming_window: u32,
    /// The transfer-id of the speaker's next transfer.
    pub next_outgoing_id: u32,
    /// How many transfer frames the speaker may send.
    pub outgoing_window: u32,
    /// The link that the rest is about; `None` for the session alone.
    pub handle: Option<Handle>,
    /// The delivery-count; `None` from a receiver that has not seen the sender's attach.
    pub delivery_count: Option<u32>,
    /// How many deliveries the receiver takes beyond the delivery-count.
    pub link_credit: Option<u32>,
    /// How many deliveries the sender has ready.
    pub available: Option<u32>,
    /// Asks the sender to use the credit up.
    pub drain: bool,
    /// Asks for a flow in return.
    pub echo: bool,
    /// Properties of the link's state.
    pub properties: Option<Map>,
}

/// `transfer` (AMQP 1.0 §2.7.5); its payload is the rest of the frame.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct Transfer {
    /// The link.
    pub handle: Handle,
    /// The delivery's number; on the first frame of a delivery.
    pub delivery_id: Option<u32>,
    /// The delivery's tag, at most 32 bytes; on the first frame of a delivery.
    pub delivery_tag: Option<Bytes>,
    /// The format of the message; on the first frame of a delivery.
    pub message_format: Option<u32>,
    /// Whether the sender has settled; `None` keeps what earlier frames of the delivery said.
    pub settled: Option<bool>,
    /// Whether more frames of the delivery follow.
    pub more: bool,
    /// Overrides the link's mode for this delivery.
    pub rcv_settle_mode: Option<ReceiverSettleMode>,
    /// The state of the delivery at the sender.
    pub state: Option<DeliveryState>,
    /// Whether the delivery is resumed.
    pub resume: bool,
    /// Whether the delivery is given up.
    pub aborted: bool,
    /// Whether the receiver may take its time to answer.
    pub batchable: bool,
}

/// `disposition` (AMQP 1.0 §2.7.6).
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct Disposition {
    /// The speaker's end of the links that the deliveries are on.
    pub role: Role,
    /// The first delivery.
    pub first: u32,
    /// The last delivery; `first` when `None`.
    pub last: Option<u32>,
    /// Whether the speaker has settled.
    pub settled: bool,
    /// The state of the deliveries at the speaker.
    pub state: Option<DeliveryState>,
    /// Whether the peer may take its time to answer.
    pub batchable: bool,
}

/// `detach` (AMQP 1.0 §2.7.7).
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct Detach {
    /// The link.
    pub handle: Handle,
    /// Whether the link is closed, and not only detached.
    pub closed: bool,
    /// Why, when something went wrong.
    pub error: Option<Box<AmqpError>>,
}

/// `end` (AMQP 1.0 §2.7.8).
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct End {
    /// Why, when something went wrong.
    pub error: Option<Box<AmqpError>>,
}

/// `close` (AMQP 1.0 §2.7.9).
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct Close {
    /// Why, when something went wrong.
    pub error: Option<Box<AmqpError>>,
}
