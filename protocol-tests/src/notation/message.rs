use servicebus_amqp::codec::DecodeError;
use servicebus_amqp::types::{Body, LazyMap, Message, MessageId};

use super::value::{list, map, value};
use super::{Composite, binary, string, symbol, uint};

/// A message: its sections in the order of the specification.
///
/// # Errors
///
/// When a map in it is malformed.
pub fn message(message: &Message) -> Result<String, DecodeError> {
    let mut sections = Vec::new();
    if let Some(header) = &message.header {
        let section = Composite::new("header")
            .field("durable", header.durable.map(|b| b.to_string()))
            .field("priority", header.priority.map(|p| format!("ubyte:{p}")))
            .field("ttl", header.ttl.map(uint))
            .field(
                "first-acquirer",
                header.first_acquirer.map(|b| b.to_string()),
            )
            .field("delivery-count", header.delivery_count.map(uint));
        sections.push(section.end());
    }
    let mut map_section = |name: &str, section: &Option<LazyMap>| {
        if let Some(section) = section {
            sections.push(format!("{name}{}", map(&section.decode()?)));
        }
        Ok(())
    };
    map_section("delivery-annotations", &message.delivery_annotations)?;
    map_section("message-annotations", &message.message_annotations)?;
    if let Some(properties) = &message.properties {
        let section = Composite::new("properties")
            .field("message-id", properties.message_id.as_ref().map(message_id))
            .field("user-id", properties.user_id.as_ref().map(binary))
            .field("to", properties.to.as_ref().map(string))
            .field("subject", properties.subject.as_ref().map(string))
            .field("reply-to", properties.reply_to.as_ref().map(string))
            .field(
                "correlation-id",
                properties.correlation_id.as_ref().map(message_id),
            )
            .field("content-type", properties.content_type.as_ref().map(symbol))
            .field(
                "content-encoding",
                properties.content_encoding.as_ref().map(symbol),
            )
            .field(
                "absolute-expiry-time",
                properties
                    .absolute_expiry_time
                    .map(|time| value(&time.into())),
            )
            .field(
                "creation-time",
                properties.creation_time.map(|time| value(&time.into())),
            )
            .field("group-id", properties.group_id.as_ref().map(string))
            .field("group-sequence", properties.group_sequence.map(uint))
            .field(
                "reply-to-group-id",
                properties.reply_to_group_id.as_ref().map(string),
            );
        sections.push(section.end());
    }
    if let Some(section) = &message.application_properties {
        sections.push(format!("application-properties{}", map(&section.decode()?)));
    }
    match &message.body {
        Body::Empty => {}
        Body::Data(data) => sections.push(format!("data {}", binary(data))),
        Body::DataSections(data) => {
            sections.extend(data.iter().map(|data| format!("data {}", binary(data))));
        }
        Body::Sequence(sequences) => {
            sections.extend(sequences.iter().map(|s| format!("sequence {}", list(s))));
        }
        Body::Value(body) => sections.push(format!("value {}", value(body))),
        _ => unreachable!("a body that the specification does not have"),
    }
    if let Some(section) = &message.footer {
        sections.push(format!("footer{}", map(&section.decode()?)));
    }
    Ok(sections.join("; "))
}

fn message_id(id: &MessageId) -> String {
    match id {
        MessageId::Ulong(id) => format!("ulong:{id}"),
        MessageId::Uuid(id) => format!("uuid:{id}"),
        MessageId::Binary(id) => binary(id),
        MessageId::String(id) => string(id),
    }
}
