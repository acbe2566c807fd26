use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use servicebus_amqp::types::{
    Body, LazyMap, Map, Message as AmqpMessage, MessageId, Properties, Symbol, Value,
};

use super::broker::Annotations;
use super::{BrokerProperties, Message, MessageState};
use crate::error::{Error, ErrorKind, Result};
use crate::lock_token::LockToken;
use crate::names::property;

/// A message as it was received or peeked at.
///
/// What an application sent is read through methods of the names that [`Message`] has for it; what the broker says
/// through those of [`BrokerProperties`]. It can be sent again: [`Message`] is made [`From`] it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedMessage {
    amqp: AmqpMessage,
    annotations: Annotations,
}

/// How a message came to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// On a link or by sequence number, with this lock.
    Locked(LockToken),
    /// On a link or by sequence number, and deleted at the broker.
    Deleted,
    /// It was peeked at.
    Peeked,
}

impl AsRef<Self> for ReceivedMessage {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl ReceivedMessage {
    /// Reads an encoded message. Text, binaries and the body are slices of it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] when it is not an AMQP message.
    pub fn decode(encoded: Bytes, origin: Origin) -> Result<Self> {
        let amqp = AmqpMessage::decode(encoded).map_err(|error| {
            Error::new(ErrorKind::Protocol, "a message cannot be decoded").with_source(error)
        })?;
        let mut annotations = BrokerProperties::read(amqp.message_annotations.as_ref());
        let failed = amqp.header.as_ref().and_then(|h| h.delivery_count);
        let failed = failed.unwrap_or_default();
        let broker = &mut annotations.broker;
        (broker.lock_token, broker.delivery_count) = match origin {
            Origin::Locked(token) => (Some(token), failed.saturating_add(1)),
            Origin::Deleted => (None, failed.saturating_add(1)),
            Origin::Peeked => (None, failed),
        };
        Ok(Self { amqp, annotations })
    }

    /// A message as a broker might deliver it, for tests of code that handles messages.
    pub fn from_parts(message: Message, broker: BrokerProperties) -> Self {
        let created = broker.enqueued_time.unwrap_or(SystemTime::UNIX_EPOCH);
        let annotations = Annotations {
            broker,
            scheduled_enqueue_time: message.scheduled_enqueue_time,
            partition_key: message.partition_key.clone(),
            transaction_partition_key: message.transaction_partition_key.clone(),
        };
        let broker = &annotations.broker;
        let mut amqp = message.into_amqp(created);
        let header = amqp.header.get_or_insert_default();
        header.delivery_count = Some(broker.delivery_count.saturating_sub(1));
        let properties = amqp.properties.get_or_insert_default();
        if broker.enqueued_time.is_none() {
            properties.creation_time = None;
            properties.absolute_expiry_time = None;
        }
        Self { amqp, annotations }
    }

    /// The content.
    pub fn body(&self) -> &Body {
        &self.amqp.body
    }

    /// The bytes of the content: data sections joined, empty when there is no body. `None` when the body is an AMQP
    /// value or a sequence, which [`body`](Self::body) shows.
    pub fn bytes(&self) -> Option<Bytes> {
        match &self.amqp.body {
            Body::Empty => Some(Bytes::new()),
            Body::Data(bytes) => Some(bytes.clone()),
            Body::DataSections(sections) => {
                let mut joined = BytesMut::new();
                sections.iter().for_each(|s| joined.extend_from_slice(s));
                Some(joined.freeze())
            }
            _ => None,
        }
    }

    /// The content as text: data that is UTF-8, or an AMQP string.
    pub fn text(&self) -> Option<ByteString> {
        match &self.amqp.body {
            Body::Value(Value::String(text)) => Some(text.clone()),
            _ => ByteString::try_from(self.bytes()?).ok(),
        }
    }

    fn properties(&self) -> Option<&Properties> {
        self.amqp.properties.as_ref()
    }

    /// The message's id.
    pub fn message_id(&self) -> Option<&MessageId> {
        self.properties()?.message_id.as_ref()
    }

    /// The message that this one answers or belongs to.
    pub fn correlation_id(&self) -> Option<&MessageId> {
        self.properties()?.correlation_id.as_ref()
    }

    /// The session that the message belongs to.
    pub fn session_id(&self) -> Option<&str> {
        self.properties()?.group_id.as_deref()
    }

    /// The session that replies belong to.
    pub fn reply_to_session_id(&self) -> Option<&str> {
        self.properties()?.reply_to_group_id.as_deref()
    }

    /// What the message is about.
    pub fn subject(&self) -> Option<&str> {
        self.properties()?.subject.as_deref()
    }

    /// The MIME type of the body.
    pub fn content_type(&self) -> Option<&str> {
        let content_type = self.properties()?.content_type.as_ref();
        content_type.map(Symbol::as_str)
    }

    /// Where to reply.
    pub fn reply_to(&self) -> Option<&str> {
        self.properties()?.reply_to.as_deref()
    }

    /// An address for the application's routing.
    pub fn to(&self) -> Option<&str> {
        self.properties()?.to.as_deref()
    }

    /// What decides about the partition.
    pub fn partition_key(&self) -> Option<&str> {
        self.annotations.partition_key.as_deref()
    }

    /// What decides about the partition at the entity that a transaction sends through.
    pub fn transaction_partition_key(&self) -> Option<&str> {
        self.annotations.transaction_partition_key.as_deref()
    }

    /// How long the message lives from when it was enqueued; exact also past 49.7 days. `None` when it has no end.
    pub fn time_to_live(&self) -> Option<Duration> {
        let ttl = self.amqp.header.as_ref()?.ttl?;
        // The most that the header can say: creation and expiry may say more.
        let span = self
            .properties()
            .filter(|_| ttl == u32::MAX)
            .and_then(|p| p.absolute_expiry_time.zip(p.creation_time))
            .and_then(|(end, start)| end.as_millis().checked_sub(start.as_millis()))
            .and_then(|millis| u64::try_from(millis).ok());
        let millis = u64::from(ttl).max(span.unwrap_or_default());
        Some(Duration::from_millis(millis))
    }

    /// When the message expires. `None` when it does not, or past what the platform's clock can show.
    pub fn expires_at(&self) -> Option<SystemTime> {
        let stated = self.properties().and_then(|p| p.absolute_expiry_time);
        match stated {
            Some(end) => end.to_system_time(),
            None => self.enqueued_time()?.checked_add(self.time_to_live()?),
        }
    }

    /// When a scheduled message becomes active, or became.
    pub fn scheduled_enqueue_time(&self) -> Option<SystemTime> {
        self.annotations.scheduled_enqueue_time
    }

    /// One property of the application. `None` when there is none of this name, or when the properties in front of it
    /// cannot be decoded.
    pub fn property(&self, name: &str) -> Option<Value> {
        let properties = self.amqp.application_properties.as_ref()?;
        properties.get(name).ok().flatten()
    }

    /// All properties of the application.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] when they cannot be decoded.
    pub fn application_properties(&self) -> Result<Map> {
        let properties = self.amqp.application_properties.as_ref();
        let decoded = properties.map(LazyMap::decode).transpose();
        decoded.map(Option::unwrap_or_default).map_err(|error| {
            Error::new(
                ErrorKind::Protocol,
                "the application properties cannot be decoded",
            )
            .with_source(error)
        })
    }

    /// Why the message was dead-lettered, in short.
    pub fn dead_letter_reason(&self) -> Option<String> {
        let value = self.property(property::DEAD_LETTER_REASON)?;
        value.as_text().map(str::to_owned)
    }

    /// Why the message was dead-lettered, in more words.
    pub fn dead_letter_error_description(&self) -> Option<String> {
        let value = self.property(property::DEAD_LETTER_ERROR_DESCRIPTION)?;
        value.as_text().map(str::to_owned)
    }

    /// The entity in whose dead-letter queue the message was, if it was forwarded from there.
    pub fn dead_letter_source(&self) -> Option<&str> {
        self.broker().dead_letter_source.as_deref()
    }

    /// What the broker says about the message.
    pub fn broker(&self) -> &BrokerProperties {
        &self.annotations.broker
    }

    /// The number of the message in its entity.
    pub fn sequence_number(&self) -> i64 {
        self.broker().sequence_number
    }

    /// The number it had in the entity it was first sent to.
    pub fn enqueued_sequence_number(&self) -> Option<i64> {
        self.broker().enqueued_sequence_number
    }

    /// When it was enqueued.
    pub fn enqueued_time(&self) -> Option<SystemTime> {
        self.broker().enqueued_time
    }

    /// When its lock ends, by the broker's clock and as of when it was received.
    pub fn locked_until(&self) -> Option<SystemTime> {
        self.broker().locked_until
    }

    /// Its lock. `None` when it was peeked at or is already deleted.
    pub fn lock_token(&self) -> Option<LockToken> {
        self.broker().lock_token
    }

    /// How often it was delivered, this delivery included: 1 at first. For a message that was peeked at: how often so
    /// far.
    pub fn delivery_count(&self) -> u32 {
        self.broker().delivery_count
    }

    /// Active, deferred or scheduled.
    pub fn state(&self) -> MessageState {
        self.broker().state
    }

    /// The message as AMQP has it: header, annotations, footer.
    pub fn amqp(&self) -> &AmqpMessage {
        &self.amqp
    }
}
