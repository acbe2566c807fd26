use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use uuid::Uuid;

use super::{Milliseconds, Symbol, Timestamp, Value};

/// A message: its sections (AMQP 1.0 §3.2).
///
/// Decoding one costs no allocation for the maps: they are kept as bytes ([`LazyMap`]) and read on demand, and what was
/// received can be sent again byte for byte.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the sections"
)]
pub struct Message {
    /// How the message is to be transferred.
    pub header: Option<Header>,
    /// Annotations for the next hop.
    pub delivery_annotations: Option<LazyMap>,
    /// Annotations for the infrastructure.
    pub message_annotations: Option<LazyMap>,
    /// The standard properties.
    pub properties: Option<Properties>,
    /// The properties of the application.
    pub application_properties: Option<LazyMap>,
    /// The body.
    pub body: Body,
    /// What can only be computed once the body is known, as signatures.
    pub footer: Option<LazyMap>,
}

/// The body of a message (AMQP 1.0 §3.2.6–3.2.8).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Body {
    /// No body section. Not legal by the letter; seen in the wild.
    #[default]
    Empty,
    /// One data section, by far the most frequent.
    Data(Bytes),
    /// Several data sections.
    DataSections(Vec<Bytes>),
    /// Sequence sections, each a list of values.
    Sequence(Vec<Vec<Value>>),
    /// One value.
    Value(Value),
}

/// `header` (AMQP 1.0 §3.2.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct Header {
    /// Must survive a loss of the broker; `None` means false.
    pub durable: Option<bool>,
    /// The priority; `None` means 4.
    pub priority: Option<u8>,
    /// How long the message lives.
    pub ttl: Option<Milliseconds>,
    /// Whether nobody acquired the message before; `None` means false.
    pub first_acquirer: Option<bool>,
    /// How many earlier deliveries failed; `None` means 0.
    pub delivery_count: Option<u32>,
}

/// `properties` (AMQP 1.0 §3.2.4).
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct Properties {
    /// The message's name within its application.
    pub message_id: Option<MessageId>,
    /// The user who made the message.
    pub user_id: Option<Bytes>,
    /// The node that the message is destined for.
    pub to: Option<ByteString>,
    /// What it is about.
    pub subject: Option<ByteString>,
    /// Where to reply.
    pub reply_to: Option<ByteString>,
    /// The message that this one answers.
    pub correlation_id: Option<MessageId>,
    /// The MIME type of the body.
    pub content_type: Option<Symbol>,
    /// The MIME content encoding of the body.
    pub content_encoding: Option<Symbol>,
    /// When the message is to be regarded as expired.
    pub absolute_expiry_time: Option<Timestamp>,
    /// When the message was made.
    pub creation_time: Option<Timestamp>,
    /// The group that the message belongs to.
    pub group_id: Option<ByteString>,
    /// Its place in the group.
    pub group_sequence: Option<u32>,
    /// The group that a reply belongs to.
    pub reply_to_group_id: Option<ByteString>,
}

/// The id of a message, of any of the legal types (AMQP 1.0 §3.2.11–3.2.14).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(
    clippy::exhaustive_enums,
    reason = "the specification fixes the choices"
)]
pub enum MessageId {
    /// `message-id-ulong`
    Ulong(u64),
    /// `message-id-uuid`
    Uuid(Uuid),
    /// `message-id-binary`
    Binary(Bytes),
    /// `message-id-string`
    String(ByteString),
}

macro_rules! message_id_from {
    ($($type:ty => $variant:ident),* $(,)?) => {
        $(impl From<$type> for MessageId {
            fn from(id: $type) -> Self {
                Self::$variant(id.into())
            }
        })*
    };
}

message_id_from! {
    u64 => Ulong, Uuid => Uuid, Bytes => Binary, ByteString => String, String => String, &str => String,
}

impl fmt::Display for MessageId {
    /// A number in decimal, a uuid with dashes, a binary in hexadecimal digits, a string as it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ulong(number) => number.fmt(f),
            Self::Uuid(uuid) => uuid.fmt(f),
            Self::Binary(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::String(text) => f.write_str(text),
        }
    }
}

/// A map section as the bytes of its value, decoded on demand.
///
/// The outer size and count are checked when the section is met; keys and values when they are read, so a
/// malformed pair is an error of the reader of that map and never makes the message undeliverable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LazyMap {
    pub(crate) encoded: Bytes,
}
