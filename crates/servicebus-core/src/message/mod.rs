//! Messages: what is sent, what is received, and what either is on the wire.

mod broker;
mod encode;
#[cfg(feature = "serde_json")]
mod json;
mod property;
mod received;
mod replay;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use bytestring::ByteString;
use servicebus_amqp::types::{Body, Map, MessageId, Uuid, Value};

use crate::error::{Error, ErrorKind, Result};

pub(crate) use encode::{Encoded, too_large};

pub use broker::{BrokerProperties, MessageState};
pub use property::{DateTimeOffset, TimeSpan, Uri};
pub use received::{Origin, ReceivedMessage};

/// The longest message id, session id or partition key, in characters.
const MAX_ID: usize = 128;

/// A message to send.
///
/// The fields can be read and set; the methods of the same names set them in a chain.
///
/// ```
/// use std::time::Duration;
/// use servicebus_core::message::Message;
///
/// let message = Message::new("hello")
///     .message_id("order-17")
///     .subject("greeting")
///     .property("attempt", 1)
///     .time_to_live(Duration::from_secs(3600));
/// assert_eq!(message.subject.as_deref(), Some("greeting"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Message {
    /// The content.
    pub body: Body,
    /// Names the message for the application and for duplicate detection. At most 128 characters when it is text.
    /// The client fills in a new uuid when a message is sent without one, so that a repeated send has the same.
    pub message_id: Option<MessageId>,
    /// The message that this one answers or belongs to.
    pub correlation_id: Option<MessageId>,
    /// The session that the message belongs to, at most 128 characters; the empty text is a session. Required by
    /// entities with sessions.
    pub session_id: Option<ByteString>,
    /// The session that replies belong to, at most 128 characters.
    pub reply_to_session_id: Option<ByteString>,
    /// What the message is about, for the application and for filters.
    pub subject: Option<ByteString>,
    /// The MIME type of the body.
    pub content_type: Option<ByteString>,
    /// Where to reply.
    pub reply_to: Option<ByteString>,
    /// An address for the application's routing; the service ignores it.
    pub to: Option<ByteString>,
    /// Keeps messages of one key on one partition of a partitioned entity, at most 128 characters. Equal to the
    /// session id when both are set.
    pub partition_key: Option<ByteString>,
    /// The partition key at the entity that a transaction sends through, at most 128 characters.
    pub transaction_partition_key: Option<ByteString>,
    /// How long the message lives once it is enqueued; the entity's default when it is `None` or longer. Whole
    /// milliseconds; ends at the year 9999 at the latest.
    pub time_to_live: Option<Duration>,
    /// When the message becomes visible to receivers; at once when it is past.
    pub scheduled_enqueue_time: Option<SystemTime>,
    /// The properties of the application, by name.
    ///
    /// Values have the AMQP type they are given as: `1i32` and `1i64` differ for receivers and filters. .NET's
    /// `TimeSpan`, `DateTimeOffset` and `Uri` are [`TimeSpan`], [`DateTimeOffset`] and [`Uri`].
    pub application_properties: Map,
    /// What else AMQP knows and few need.
    pub amqp: Option<Box<AmqpFields>>,
}

/// Parts of an AMQP message that Service Bus keeps but gives no meaning to.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AmqpFields {
    /// `header.durable`
    pub durable: Option<bool>,
    /// `header.priority`
    pub priority: Option<u8>,
    /// `properties.user-id`
    pub user_id: Option<Bytes>,
    /// `properties.content-encoding`
    pub content_encoding: Option<ByteString>,
    /// `properties.group-sequence`
    pub group_sequence: Option<u32>,
    /// More delivery annotations. Keys are symbols.
    pub delivery_annotations: Map,
    /// More message annotations. Keys are symbols.
    pub message_annotations: Map,
    /// The footer. Keys are symbols.
    pub footer: Map,
}

impl Message {
    /// A message of these bytes: a static text, a `String`, a `Vec<u8>`, or [`Bytes`].
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self::with_body(Body::Data(body.into()))
    }

    /// A message whose body is one AMQP value.
    pub fn with_value(value: impl Into<Value>) -> Self {
        Self::with_body(Body::Value(value.into()))
    }

    /// A message with a body of any kind that AMQP has.
    pub fn with_body(body: Body) -> Self {
        Self {
            body,
            ..Self::default()
        }
    }

    /// Sets [`message_id`](Self#structfield.message_id).
    #[must_use]
    pub fn message_id(mut self, id: impl Into<MessageId>) -> Self {
        self.message_id = Some(id.into());
        self
    }

    /// Sets [`correlation_id`](Self#structfield.correlation_id).
    #[must_use]
    pub fn correlation_id(mut self, id: impl Into<MessageId>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// Sets [`session_id`](Self#structfield.session_id).
    #[must_use]
    pub fn session_id(mut self, id: impl Into<ByteString>) -> Self {
        self.session_id = Some(id.into());
        self
    }

    /// Sets [`reply_to_session_id`](Self#structfield.reply_to_session_id).
    #[must_use]
    pub fn reply_to_session_id(mut self, id: impl Into<ByteString>) -> Self {
        self.reply_to_session_id = Some(id.into());
        self
    }

    /// Sets [`subject`](Self#structfield.subject).
    #[must_use]
    pub fn subject(mut self, subject: impl Into<ByteString>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Sets [`content_type`](Self#structfield.content_type).
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<ByteString>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// Sets [`reply_to`](Self#structfield.reply_to).
    #[must_use]
    pub fn reply_to(mut self, address: impl Into<ByteString>) -> Self {
        self.reply_to = Some(address.into());
        self
    }

    /// Sets [`to`](Self#structfield.to).
    #[must_use]
    pub fn to(mut self, address: impl Into<ByteString>) -> Self {
        self.to = Some(address.into());
        self
    }

    /// Sets [`partition_key`](Self#structfield.partition_key).
    #[must_use]
    pub fn partition_key(mut self, key: impl Into<ByteString>) -> Self {
        self.partition_key = Some(key.into());
        self
    }

    /// Sets [`transaction_partition_key`](Self#structfield.transaction_partition_key).
    #[must_use]
    pub fn transaction_partition_key(mut self, key: impl Into<ByteString>) -> Self {
        self.transaction_partition_key = Some(key.into());
        self
    }

    /// Sets [`time_to_live`](Self#structfield.time_to_live).
    #[must_use]
    pub fn time_to_live(mut self, life: Duration) -> Self {
        self.time_to_live = Some(life);
        self
    }

    /// Sets [`scheduled_enqueue_time`](Self#structfield.scheduled_enqueue_time).
    #[must_use]
    pub fn scheduled_enqueue_time(mut self, time: SystemTime) -> Self {
        self.scheduled_enqueue_time = Some(time);
        self
    }

    /// Sets one of the [`application_properties`](Self#structfield.application_properties), in the place of one of
    /// the same name.
    #[must_use]
    pub fn property(mut self, name: impl Into<ByteString>, value: impl Into<Value>) -> Self {
        let name = name.into();
        let pairs = &mut self.application_properties.0;
        match pairs
            .iter_mut()
            .find(|(key, _)| key.as_text() == Some(&name))
        {
            Some((_, old)) => *old = value.into(),
            None => pairs.push((name.into(), value.into())),
        }
        self
    }

    /// Sets [`amqp`](Self#structfield.amqp).
    #[must_use]
    pub fn amqp(mut self, fields: AmqpFields) -> Self {
        self.amqp = Some(Box::new(fields));
        self
    }

    /// Gives the message a new uuid for an id, if it has none.
    pub fn assign_message_id(&mut self) {
        self.message_id.get_or_insert_with(new_message_id);
    }

    /// Checks what the service refuses: ids and keys of more than 128 characters, and a partition key that differs
    /// from the session id.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`], naming the field.
    pub fn check(&self) -> Result<()> {
        if let Some(MessageId::String(id)) = &self.message_id {
            check_length("message id", id, MAX_ID)?;
        }
        let texts = [
            ("session id", &self.session_id),
            ("reply-to session id", &self.reply_to_session_id),
            ("partition key", &self.partition_key),
            ("transaction partition key", &self.transaction_partition_key),
        ];
        for (what, text) in texts {
            if let Some(text) = text {
                check_length(what, text, MAX_ID)?;
            }
        }
        match (&self.session_id, &self.partition_key) {
            (Some(session), Some(key)) if session != key => Err(Error::new(
                ErrorKind::InvalidArgument,
                "the partition key differs from the session id",
            )),
            _ => Ok(()),
        }
    }

    /// What decides about the partition: the session or the partition key.
    pub(crate) fn group(&self) -> Option<&ByteString> {
        self.session_id.as_ref().or(self.partition_key.as_ref())
    }
}

/// A uuid that no other message has: random bits of this process, and a count. Asking the system for random bits each
/// time costs more than encoding a message.
fn new_message_id() -> MessageId {
    static PROCESS: OnceLock<u128> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // The lowest 62 bits of a random uuid are its own.
    const COUNTED: u128 = (1 << 62) - 1;
    let process = *PROCESS.get_or_init(|| Uuid::new_v4().as_u128());
    let count = u128::from(COUNT.fetch_add(1, Ordering::Relaxed));
    let counted = process.wrapping_add(count) & COUNTED;
    let id = Uuid::from_u128(process & !COUNTED | counted);
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    MessageId::String(ByteString::from(&*id.hyphenated().encode_lower(&mut text)))
}

macro_rules! message_from {
    ($($type:ty),* $(,)?) => {
        $(impl From<$type> for Message {
            fn from(body: $type) -> Self {
                Self::new(body)
            }
        })*
    };
}

message_from!(&'static str, String, &'static [u8], Vec<u8>, Bytes);

/// Checks the length of a text in characters.
pub(crate) fn check_length(what: &str, text: &str, max: usize) -> Result<()> {
    // Most texts are short enough even in bytes.
    if text.len() <= max || text.chars().count() <= max {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        format!(
            "the {what} has {} characters, {max} are allowed",
            text.chars().count()
        ),
    ))
}

#[cfg(test)]
mod tests;
