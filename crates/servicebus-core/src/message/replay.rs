use bytestring::ByteString;
use servicebus_amqp::types::{Header, LazyMap, Map, Symbol, Value};

use super::{AmqpFields, Message, ReceivedMessage};
use crate::names::{annotation, property};

/// Annotations of the broker, or ones that have a field of their own.
const ANNOTATIONS: [&str; 10] = [
    annotation::ENQUEUED_TIME,
    annotation::SEQUENCE_NUMBER,
    annotation::ENQUEUED_SEQUENCE_NUMBER,
    annotation::LOCKED_UNTIL,
    annotation::SCHEDULED_ENQUEUE_TIME,
    annotation::PARTITION_KEY,
    annotation::VIA_PARTITION_KEY,
    annotation::DEAD_LETTER_SOURCE,
    annotation::MESSAGE_STATE,
    annotation::PARTITION_ID,
];

/// Properties that tell of the message's past and not of its content.
const PROPERTIES: [&str; 5] = [
    property::DEAD_LETTER_REASON,
    property::DEAD_LETTER_ERROR_DESCRIPTION,
    property::DIAGNOSTIC_ID,
    property::TRACE_PARENT,
    property::TRACE_STATE,
];

impl From<ReceivedMessage> for Message {
    fn from(received: ReceivedMessage) -> Self {
        Self::from(&received)
    }
}

impl From<&ReceivedMessage> for Message {
    /// The same message, to be sent again: what its sender gave it, with its id and its life.
    ///
    /// Dropped is what the broker added (sequence numbers, times, lock, delivery count, state, dead-letter reason,
    /// description and source), the time it was scheduled for, the trace context of its first journey, and delivery
    /// annotations. Set another [`message_id`](Message::message_id) where duplicate detection would drop the copy.
    fn from(received: &ReceivedMessage) -> Self {
        let amqp = received.amqp();
        let properties = amqp.properties.clone().unwrap_or_default();
        let header = amqp.header.as_ref();
        let rare = AmqpFields {
            durable: header.and_then(|header: &Header| header.durable),
            priority: header.and_then(|header| header.priority),
            user_id: properties.user_id,
            content_encoding: properties.content_encoding.map(Symbol::into_inner),
            group_sequence: properties.group_sequence,
            delivery_annotations: Map::new(),
            message_annotations: without(amqp.message_annotations.as_ref(), &ANNOTATIONS),
            footer: without(amqp.footer.as_ref(), &[]),
        };
        Self {
            body: amqp.body.clone(),
            message_id: properties.message_id,
            correlation_id: properties.correlation_id,
            session_id: properties.group_id,
            reply_to_session_id: properties.reply_to_group_id,
            subject: properties.subject,
            content_type: properties.content_type.map(Symbol::into_inner),
            reply_to: properties.reply_to,
            to: properties.to,
            partition_key: received.partition_key().map(ByteString::from),
            transaction_partition_key: received.transaction_partition_key().map(ByteString::from),
            time_to_live: received.time_to_live(),
            scheduled_enqueue_time: None,
            application_properties: without(amqp.application_properties.as_ref(), &PROPERTIES),
            amqp: (rare != AmqpFields::default()).then(|| Box::new(rare)),
        }
    }
}

/// The pairs of other names; up to the first one that cannot be decoded.
fn without(map: Option<&LazyMap>, names: &[&str]) -> Map {
    let kept = |(key, _): &(Value, Value)| !key.as_text().is_some_and(|key| names.contains(&key));
    let pairs = map.into_iter().flat_map(LazyMap::iter);
    pairs.map_while(Result::ok).filter(kept).collect()
}
