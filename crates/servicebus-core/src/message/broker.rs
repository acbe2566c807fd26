use std::time::SystemTime;

use bytestring::ByteString;
use servicebus_amqp::types::{LazyMap, Timestamp, Value};

use crate::lock_token::LockToken;
use crate::names::annotation;
use crate::setters::setters;

/// What the broker says about a message.
///
/// Received messages have it from the wire. In tests it can be made by hand:
///
/// ```
/// use servicebus_core::message::{BrokerProperties, Message, ReceivedMessage};
///
/// let message = ReceivedMessage::from_parts(
///     Message::new("hello"),
///     BrokerProperties::new().sequence_number(7).delivery_count(2),
/// );
/// assert_eq!(message.sequence_number(), 7);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BrokerProperties {
    /// The number of the message in its entity; the top 16 bits are the partition. Zero when the broker did not say.
    pub sequence_number: i64,
    /// The number it had in the entity it was first sent to, before it was forwarded.
    pub enqueued_sequence_number: Option<i64>,
    /// When it was enqueued.
    pub enqueued_time: Option<SystemTime>,
    /// When its lock ends, by the broker's clock.
    pub locked_until: Option<SystemTime>,
    /// Its lock.
    pub lock_token: Option<LockToken>,
    /// How often it was delivered, this delivery included. For a message that was peeked at: how often so far.
    pub delivery_count: u32,
    /// Active, deferred or scheduled.
    pub state: MessageState,
    /// The entity in whose dead-letter queue it was, if it was forwarded from there.
    pub dead_letter_source: Option<ByteString>,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MessageState {
    /// It can be received.
    #[default]
    Active,
    /// It can be received by its sequence number.
    Deferred,
    /// It becomes active later.
    Scheduled,
    /// A state that this client does not know.
    Other(i64),
}

impl BrokerProperties {
    /// Of a message that is active and was not delivered before.
    pub fn new() -> Self {
        Self {
            delivery_count: 1,
            ..Self::default()
        }
    }

    setters! {
        sequence_number: i64,
        enqueued_sequence_number: into Option<i64>,
        enqueued_time: into Option<SystemTime>,
        locked_until: into Option<SystemTime>,
        lock_token: into Option<LockToken>,
        delivery_count: u32,
        state: MessageState,
        dead_letter_source: into Option<ByteString>,
    }

    /// Reads the annotations. A value of a wrong type, or one behind bytes that cannot be read, counts as absent: a
    /// message is not withheld for it.
    pub(super) fn read(annotations: Option<&LazyMap>) -> Annotations {
        let mut found = Annotations::default();
        let Some(annotations) = annotations else {
            return found;
        };
        // What cannot be read ends it; what was read before is kept.
        let _ = annotations.for_each_text(|key, value| {
            let broker = &mut found.broker;
            match key {
                annotation::SEQUENCE_NUMBER => {
                    broker.sequence_number = value.as_i64().unwrap_or_default();
                }
                annotation::ENQUEUED_SEQUENCE_NUMBER => {
                    broker.enqueued_sequence_number = value.as_i64();
                }
                annotation::ENQUEUED_TIME => broker.enqueued_time = time(&value),
                annotation::LOCKED_UNTIL => broker.locked_until = time(&value),
                annotation::MESSAGE_STATE => broker.state = state(&value),
                annotation::DEAD_LETTER_SOURCE => broker.dead_letter_source = text(value),
                annotation::SCHEDULED_ENQUEUE_TIME => found.scheduled_enqueue_time = time(&value),
                annotation::PARTITION_KEY => found.partition_key = text(value),
                annotation::VIA_PARTITION_KEY => found.transaction_partition_key = text(value),
                _ => {}
            }
        });
        found
    }
}

/// What the message annotations of a message say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Annotations {
    pub(super) broker: BrokerProperties,
    pub(super) scheduled_enqueue_time: Option<SystemTime>,
    pub(super) partition_key: Option<ByteString>,
    pub(super) transaction_partition_key: Option<ByteString>,
}

/// 0001-01-01, which stands for "not set".
const UNSET: Timestamp = Timestamp::from_millis(-62_135_596_800_000);

pub(super) fn time(value: &Value) -> Option<SystemTime> {
    value
        .as_timestamp()
        .filter(|&time| time != UNSET)?
        .to_system_time()
}

fn text(value: Value) -> Option<ByteString> {
    match value {
        Value::String(text) => Some(text),
        Value::Symbol(symbol) => Some(symbol.into_inner()),
        _ => None,
    }
}

fn state(value: &Value) -> MessageState {
    match value.as_i64() {
        None | Some(0) => MessageState::Active,
        Some(1) => MessageState::Deferred,
        Some(2) => MessageState::Scheduled,
        Some(other) => MessageState::Other(other),
    }
}
