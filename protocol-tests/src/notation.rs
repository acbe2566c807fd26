//! A compact notation of frames, messages and values, to compare decoded bytes with what they are said to mean.
//!
//! Composite types name their fields, `attach(name="l1", handle=uint:3, …)`; fields at their default are left out, except
//! for those that limit or settle. Values carry their type, except text: `"string"`, `:symbol`, `uint:1`, `bin:00ff`,
//! `[list, …]`, `{key=value, …}`, `array[…]`, `@descriptor value`.

use std::fmt::Display;

use bytes::Bytes;
use servicebus_amqp::codec::{DecodeError, Frame};
use servicebus_amqp::types::{
    AmqpError, Body, DeliveryState, Descriptor, LazyMap, Map, Message, MessageId, Outcome,
    Performative, ReceiverSettleMode, Role, SaslCode, SaslFrame, SenderSettleMode, Source, Symbol,
    TargetArchetype, TerminusDurability, TerminusExpiryPolicy, Value,
};

/// A composite type that is being written.
struct Composite {
    name: &'static str,
    fields: Vec<String>,
}

impl Composite {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            fields: Vec::new(),
        }
    }

    fn field(mut self, name: &str, value: Option<String>) -> Self {
        self.fields
            .extend(value.map(|value| format!("{name}={value}")));
        self
    }

    fn flag(self, name: &str, value: bool) -> Self {
        self.field(name, value.then(|| "true".to_owned()))
    }

    fn symbols(self, name: &str, symbols: &[Symbol]) -> Self {
        let list: Vec<_> = symbols.iter().map(symbol).collect();
        let list = (!list.is_empty()).then(|| format!("[{}]", list.join(", ")));
        self.field(name, list)
    }

    fn end(self) -> String {
        format!("{}({})", self.name, self.fields.join(", "))
    }
}

fn uint(value: impl Display) -> String {
    format!("uint:{value}")
}

fn string(value: impl Display) -> String {
    format!("\"{value}\"")
}

fn symbol(value: &Symbol) -> String {
    format!(":{value}")
}

fn binary(value: &Bytes) -> String {
    format!("bin:{value:x}")
}

/// A frame. The payload of a transfer is decoded as a message.
///
/// # Errors
///
/// When the payload is no message.
pub fn frame(frame: &Frame) -> Result<String, DecodeError> {
    match frame {
        Frame::Empty { .. } => Ok("empty".to_owned()),
        Frame::Sasl(frame) => Ok(sasl(frame)),
        Frame::Amqp {
            performative: transfer,
            payload,
            ..
        } if !payload.is_empty() => {
            let message = message(&Message::decode(payload.clone())?)?;
            Ok(format!("{}; {message}", performative(transfer)))
        }
        Frame::Amqp {
            performative: alone,
            ..
        } => Ok(performative(alone)),
    }
}

/// A SASL frame.
#[must_use]
pub fn sasl(frame: &SaslFrame) -> String {
    match frame {
        SaslFrame::Mechanisms(frame) => Composite::new("sasl-mechanisms")
            .symbols("sasl-server-mechanisms", &frame.mechanisms)
            .end(),
        SaslFrame::Init(init) => Composite::new("sasl-init")
            .field("mechanism", Some(symbol(&init.mechanism)))
            .field(
                "initial-response",
                init.initial_response.as_ref().map(binary),
            )
            .field("hostname", init.hostname.as_ref().map(string))
            .end(),
        SaslFrame::Challenge(bytes) => Composite::new("sasl-challenge")
            .field("challenge", Some(binary(bytes)))
            .end(),
        SaslFrame::Response(bytes) => Composite::new("sasl-response")
            .field("response", Some(binary(bytes)))
            .end(),
        SaslFrame::Outcome(outcome) => {
            let code = match outcome.code {
                SaslCode::Ok => 0,
                SaslCode::Auth => 1,
                SaslCode::Sys => 2,
                SaslCode::SysPerm => 3,
                SaslCode::SysTemp => 4,
                _ => unreachable!("a code that the specification does not have"),
            };
            Composite::new("sasl-outcome")
                .field("code", Some(format!("ubyte:{code}")))
                .field(
                    "additional-data",
                    outcome.additional_data.as_ref().map(binary),
                )
                .end()
        }
        _ => unreachable!("a frame that the specification does not have"),
    }
}

/// A performative.
#[must_use]
pub fn performative(performative: &Performative) -> String {
    match performative {
        Performative::Open(open) => Composite::new("open")
            .field("container-id", Some(string(&open.container_id)))
            .field("hostname", open.hostname.as_ref().map(string))
            .field("max-frame-size", Some(uint(open.max_frame_size)))
            .field("channel-max", Some(format!("ushort:{}", open.channel_max)))
            .field("idle-time-out", open.idle_time_out.map(uint))
            .symbols("outgoing-locales", &open.outgoing_locales)
            .symbols("incoming-locales", &open.incoming_locales)
            .symbols("offered-capabilities", &open.offered_capabilities)
            .symbols("desired-capabilities", &open.desired_capabilities)
            .field("properties", open.properties.as_ref().map(map))
            .end(),
        Performative::Begin(begin) => Composite::new("begin")
            .field(
                "remote-channel",
                begin.remote_channel.map(|c| format!("ushort:{c}")),
            )
            .field("next-outgoing-id", Some(uint(begin.next_outgoing_id)))
            .field("incoming-window", Some(uint(begin.incoming_window)))
            .field("outgoing-window", Some(uint(begin.outgoing_window)))
            .field("handle-max", Some(uint(begin.handle_max)))
            .symbols("offered-capabilities", &begin.offered_capabilities)
            .symbols("desired-capabilities", &begin.desired_capabilities)
            .field("properties", begin.properties.as_ref().map(map))
            .end(),
        Performative::Attach(attach) => Composite::new("attach")
            .field("name", Some(string(&attach.name)))
            .field("handle", Some(uint(attach.handle)))
            .field("role", Some(role(attach.role)))
            .field(
                "snd-settle-mode",
                Some(sender_settle_mode(attach.snd_settle_mode)),
            )
            .field(
                "rcv-settle-mode",
                Some(receiver_settle_mode(attach.rcv_settle_mode)),
            )
            .field("source", attach.source.as_deref().map(source))
            .field("target", attach.target.as_ref().map(target))
            .field("unsettled", attach.unsettled.as_ref().map(map))
            .flag("incomplete-unsettled", attach.incomplete_unsettled)
            .field(
                "initial-delivery-count",
                attach.initial_delivery_count.map(uint),
            )
            .field(
                "max-message-size",
                attach.max_message_size.map(|s| format!("ulong:{s}")),
            )
            .symbols("offered-capabilities", &attach.offered_capabilities)
            .symbols("desired-capabilities", &attach.desired_capabilities)
            .field("properties", attach.properties.as_ref().map(map))
            .end(),
        Performative::Flow(flow) => Composite::new("flow")
            .field("next-incoming-id", flow.next_incoming_id.map(uint))
            .field("incoming-window", Some(uint(flow.incoming_window)))
            .field("next-outgoing-id", Some(uint(flow.next_outgoing_id)))
            .field("outgoing-window", Some(uint(flow.outgoing_window)))
            .field("handle", flow.handle.map(uint))
            .field("delivery-count", flow.delivery_count.map(uint))
            .field("link-credit", flow.link_credit.map(uint))
            .field("available", flow.available.map(uint))
            .flag("drain", flow.drain)
            .flag("echo", flow.echo)
            .field("properties", flow.properties.as_ref().map(map))
            .end(),
        Performative::Transfer(transfer) => Composite::new("transfer")
            .field("handle", Some(uint(transfer.handle)))
            .field("delivery-id", transfer.delivery_id.map(uint))
            .field("delivery-tag", transfer.delivery_tag.as_ref().map(binary))
            .field("message-format", transfer.message_format.map(uint))
            .field(
                "settled",
                transfer.settled.map(|settled| settled.to_string()),
            )
            .flag("more", transfer.more)
            .field(
                "rcv-settle-mode",
                transfer.rcv_settle_mode.map(receiver_settle_mode),
            )
            .field("state", transfer.state.as_ref().map(delivery_state))
            .flag("resume", transfer.resume)
            .flag("aborted", transfer.aborted)
            .flag("batchable", transfer.batchable)
            .end(),
        Performative::Disposition(disposition) => Composite::new("disposition")
            .field("role", Some(role(disposition.role)))
            .field("first", Some(uint(disposition.first)))
            .field("last", disposition.last.map(uint))
            .flag("settled", disposition.settled)
            .field("state", disposition.state.as_ref().map(delivery_state))
            .flag("batchable", disposition.batchable)
            .end(),
        Performative::Detach(detach) => Composite::new("detach")
            .field("handle", Some(uint(detach.handle)))
            .flag("closed", detach.closed)
            .field("error", detach.error.as_deref().map(error))
            .end(),
        Performative::End(end) => Composite::new("end")
            .field("error", end.error.as_deref().map(error))
            .end(),
        Performative::Close(close) => Composite::new("close")
            .field("error", close.error.as_deref().map(error))
            .end(),
        _ => unreachable!("a performative that the specification does not have"),
    }
}

fn role(role: Role) -> String {
    (role == Role::Receiver).to_string()
}

fn sender_settle_mode(mode: SenderSettleMode) -> String {
    let mode = match mode {
        SenderSettleMode::Unsettled => 0,
        SenderSettleMode::Settled => 1,
        SenderSettleMode::Mixed => 2,
    };
    format!("ubyte:{mode}")
}

fn receiver_settle_mode(mode: ReceiverSettleMode) -> String {
    let mode = match mode {
        ReceiverSettleMode::First => 0,
        ReceiverSettleMode::Second => 1,
    };
    format!("ubyte:{mode}")
}

fn durability(durable: TerminusDurability) -> Option<String> {
    match durable {
        TerminusDurability::None => None,
        TerminusDurability::Configuration => Some(uint(1)),
        TerminusDurability::UnsettledState => Some(uint(2)),
    }
}

fn expiry_policy(policy: TerminusExpiryPolicy) -> Option<String> {
    let policy = match policy {
        TerminusExpiryPolicy::SessionEnd => return None,
        TerminusExpiryPolicy::LinkDetach => ":link-detach",
        TerminusExpiryPolicy::ConnectionClose => ":connection-close",
        TerminusExpiryPolicy::Never => ":never",
    };
    Some(policy.to_owned())
}

fn timeout(timeout: u32) -> Option<String> {
    (timeout != 0).then(|| uint(timeout))
}

fn source(source: &Source) -> String {
    Composite::new("source")
        .field("address", source.address.as_ref().map(string))
        .field("durable", durability(source.durable))
        .field("expiry-policy", expiry_policy(source.expiry_policy))
        .field("timeout", timeout(source.timeout))
        .flag("dynamic", source.dynamic)
        .field(
            "dynamic-node-properties",
            source.dynamic_node_properties.as_ref().map(map),
        )
        .field(
            "distribution-mode",
            source.distribution_mode.as_ref().map(symbol),
        )
        .field("filter", source.filter.as_ref().map(map))
        .field(
            "default-outcome",
            source.default_outcome.as_ref().map(outcome),
        )
        .symbols("outcomes", &source.outcomes)
        .symbols("capabilities", &source.capabilities)
        .end()
}

fn target(target: &TargetArchetype) -> String {
    match target {
        TargetArchetype::Target(target) => Composite::new("target")
            .field("address", target.address.as_ref().map(string))
            .field("durable", durability(target.durable))
            .field("expiry-policy", expiry_policy(target.expiry_policy))
            .field("timeout", timeout(target.timeout))
            .flag("dynamic", target.dynamic)
            .field(
                "dynamic-node-properties",
                target.dynamic_node_properties.as_ref().map(map),
            )
            .symbols("capabilities", &target.capabilities)
            .end(),
        TargetArchetype::Coordinator(coordinator) => Composite::new("coordinator")
            .symbols("capabilities", &coordinator.capabilities)
            .end(),
        _ => unreachable!("a target that the specification does not have"),
    }
}

fn delivery_state(state: &DeliveryState) -> String {
    match state {
        DeliveryState::Outcome(state) => outcome(state),
        DeliveryState::Received {
            section_number,
            section_offset,
        } => Composite::new("received")
            .field("section-number", Some(uint(section_number)))
            .field("section-offset", Some(format!("ulong:{section_offset}")))
            .end(),
        DeliveryState::Transactional(state) => Composite::new("transactional-state")
            .field("txn-id", Some(binary(&state.txn_id)))
            .field("outcome", state.outcome.as_ref().map(outcome))
            .end(),
        DeliveryState::Unknown(described) => {
            format!(
                "{} {}",
                descriptor(&described.descriptor),
                value(&described.value)
            )
        }
        _ => unreachable!("a state that the specification does not have"),
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Accepted => "accepted()".to_owned(),
        Outcome::Released => "released()".to_owned(),
        Outcome::Rejected(why) => Composite::new("rejected")
            .field("error", why.as_deref().map(error))
            .end(),
        Outcome::Modified(modified) => Composite::new("modified")
            .field(
                "delivery-failed",
                modified.delivery_failed.map(|b| b.to_string()),
            )
            .field(
                "undeliverable-here",
                modified.undeliverable_here.map(|b| b.to_string()),
            )
            .field(
                "message-annotations",
                modified.message_annotations.as_ref().map(map),
            )
            .end(),
        Outcome::Declared { txn_id } => Composite::new("declared")
            .field("txn-id", Some(binary(txn_id)))
            .end(),
        _ => unreachable!("an outcome that the specification does not have"),
    }
}

fn error(error: &AmqpError) -> String {
    Composite::new("error")
        .field("condition", Some(symbol(&error.condition)))
        .field("description", error.description.as_ref().map(string))
        .field("info", error.info.as_ref().map(map))
        .end()
}

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

fn map(map: &Map) -> String {
    let pairs: Vec<_> = map
        .iter()
        .map(|(key, item)| format!("{}={}", value(key), value(item)))
        .collect();
    format!("{{{}}}", pairs.join(", "))
}

fn list(elements: &[Value]) -> String {
    let elements: Vec<_> = elements.iter().map(value).collect();
    format!("[{}]", elements.join(", "))
}

fn descriptor(descriptor: &Descriptor) -> String {
    match descriptor {
        Descriptor::Code(code) => format!("@{code:#x}"),
        Descriptor::Name(name) => format!("@:{name}"),
        _ => unreachable!("a descriptor that the specification does not have"),
    }
}

/// A value.
#[must_use]
pub fn value(any: &Value) -> String {
    match any {
        Value::Null => "null".to_owned(),
        Value::Bool(v) => v.to_string(),
        Value::Ubyte(v) => format!("ubyte:{v}"),
        Value::Ushort(v) => format!("ushort:{v}"),
        Value::Uint(v) => uint(v),
        Value::Ulong(v) => format!("ulong:{v}"),
        Value::Byte(v) => format!("byte:{v}"),
        Value::Short(v) => format!("short:{v}"),
        Value::Int(v) => format!("int:{v}"),
        Value::Long(v) => format!("long:{v}"),
        Value::Float(v) => format!("float:{v:?}"),
        Value::Double(v) => format!("double:{v:?}"),
        Value::Decimal32(v) => format!("decimal32:{:x}", Bytes::copy_from_slice(v)),
        Value::Decimal64(v) => format!("decimal64:{:x}", Bytes::copy_from_slice(v)),
        Value::Decimal128(v) => format!("decimal128:{:x}", Bytes::copy_from_slice(v)),
        Value::Char(v) => format!("char:{v}"),
        Value::Timestamp(v) => format!("ts:{}", v.as_millis()),
        Value::Uuid(v) => format!("uuid:{v}"),
        Value::Binary(v) => binary(v),
        Value::String(v) => string(v),
        Value::Symbol(v) => symbol(v),
        Value::List(elements) => list(elements),
        Value::Map(pairs) => map(pairs),
        Value::Array(array) => format!("array{}", list(array.elements())),
        Value::Described(described) => {
            format!(
                "{} {}",
                descriptor(&described.descriptor),
                value(&described.value)
            )
        }
        _ => unreachable!("a value that the specification does not have"),
    }
}
