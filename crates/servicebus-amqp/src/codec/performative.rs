use bytes::BytesMut;

use super::delivery_state::{self, amqp_error};
use super::fields::Fields;
use super::read::{Reader, Result};
use super::{descriptor as d, terminus, value, write};
use crate::types::{
    Attach, Begin, Close, DeliveryState, Descriptor, Detach, Disposition, End, Flow, Open, Outcome,
    Performative, ReceiverSettleMode, Role, SenderSettleMode, Transfer,
};

/// Reads the performative that comes next.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Performative> {
    let start = reader.position();
    let constructor = reader.u8()?;
    let code = reader.known_descriptor(constructor, "a performative")?;
    match code {
        d::TRANSFER => named("transfer", transfer(reader)),
        d::FLOW => named("flow", flow(reader)).map(Performative::Flow),
        d::DISPOSITION => named("disposition", disposition(reader)).map(Performative::Disposition),
        d::OPEN => named("open", open(reader)).map(|open| Performative::Open(Box::new(open))),
        d::BEGIN => named("begin", begin(reader)).map(|begin| Performative::Begin(Box::new(begin))),
        d::ATTACH => {
            named("attach", attach(reader)).map(|attach| Performative::Attach(Box::new(attach)))
        }
        d::DETACH => named("detach", detach(reader)).map(Performative::Detach),
        d::END => named("end", end(reader)).map(Performative::End),
        d::CLOSE => named("close", close(reader)).map(Performative::Close),
        other => Err(Reader::unexpected_descriptor(
            "a performative",
            &Descriptor::Code(other.into()),
            start + 1,
        )),
    }
}

/// Whether an encoded performative is of a kind that comes with each message, and is done with soon. Others are as rare as
/// connections, sessions and links, and may be kept as long as these. (Rare spellings of the frequent ones count as rare.)
pub(super) fn passes_by(encoded: &[u8]) -> bool {
    matches!(
        encoded,
        [0x00, 0x53, d::TRANSFER | d::FLOW | d::DISPOSITION, ..]
    )
}

#[inline]
fn named<T>(name: &'static str, result: Result<T>) -> Result<T> {
    match result {
        Ok(value) => Ok(value),
        Err(error) => Err(error.within(name)),
    }
}

fn open(reader: &mut Reader<'_>) -> Result<Open> {
    let mut fields = Fields::new(reader)?;
    let open = Open {
        container_id: fields.mandatory("container-id", Reader::string)?,
        hostname: fields.optional("hostname", Reader::string)?,
        max_frame_size: fields
            .optional("max-frame-size", Reader::uint)?
            .unwrap_or(u32::MAX),
        channel_max: fields
            .optional("channel-max", Reader::ushort)?
            .unwrap_or(u16::MAX),
        idle_time_out: fields.optional("idle-time-out", Reader::uint)?,
        outgoing_locales: fields.symbols("outgoing-locales")?,
        incoming_locales: fields.symbols("incoming-locales")?,
        offered_capabilities: fields.symbols("offered-capabilities")?,
        desired_capabilities: fields.symbols("desired-capabilities")?,
        properties: fields.optional("properties", value::map)?,
    };
    fields.finish()?;
    Ok(open)
}

fn begin(reader: &mut Reader<'_>) -> Result<Begin> {
    let mut fields = Fields::new(reader)?;
    let begin = Begin {
        remote_channel: fields.optional("remote-channel", Reader::ushort)?,
        next_outgoing_id: fields.mandatory("next-outgoing-id", Reader::uint)?,
        incoming_window: fields.mandatory("incoming-window", Reader::uint)?,
        outgoing_window: fields.mandatory("outgoing-window", Reader::uint)?,
        handle_max: fields
            .optional("handle-max", Reader::uint)?
            .unwrap_or(u32::MAX),
        offered_capabilities: fields.symbols("offered-capabilities")?,
        desired_capabilities: fields.symbols("desired-capabilities")?,
        properties: fields.optional("properties", value::map)?,
    };
    fields.finish()?;
    Ok(begin)
}

fn attach(reader: &mut Reader<'_>) -> Result<Attach> {
    let mut fields = Fields::new(reader)?;
    let attach = Attach {
        name: fields.mandatory("name", Reader::string)?,
        handle: fields.mandatory("handle", Reader::uint)?,
        role: fields.mandatory("role", role)?,
        snd_settle_mode: fields
            .optional("snd-settle-mode", sender_settle_mode)?
            .unwrap_or_default(),
        rcv_settle_mode: fields
            .optional("rcv-settle-mode", receiver_settle_mode)?
            .unwrap_or_default(),
        source: fields.optional("source", terminus::source)?.map(Box::new),
        target: fields.optional("target", terminus::target)?,
        unsettled: fields.optional("unsettled", value::map)?,
        incomplete_unsettled: fields.flag("incomplete-unsettled")?,
        initial_delivery_count: fields.optional("initial-delivery-count", Reader::uint)?,
        max_message_size: fields.optional("max-message-size", Reader::ulong)?,
        offered_capabilities: fields.symbols("offered-capabilities")?,
        desired_capabilities: fields.symbols("desired-capabilities")?,
        properties: fields.optional("properties", value::map)?,
    };
    fields.finish()?;
    Ok(attach)
}

fn flow(reader: &mut Reader<'_>) -> Result<Flow> {
    let mut fields = Fields::new(reader)?;
    let flow = Flow {
        next_incoming_id: fields.optional("next-incoming-id", Reader::uint)?,
        incoming_window: fields.mandatory("incoming-window", Reader::uint)?,
        next_outgoing_id: fields.mandatory("next-outgoing-id", Reader::uint)?,
        outgoing_window: fields.mandatory("outgoing-window", Reader::uint)?,
        handle: fields.optional("handle", Reader::uint)?,
        delivery_count: fields.optional("delivery-count", Reader::uint)?,
        link_credit: fields.optional("link-credit", Reader::uint)?,
        available: fields.optional("available", Reader::uint)?,
        drain: fields.flag("drain")?,
        echo: fields.flag("echo")?,
        properties: fields.optional("properties", value::map)?,
    };
    fields.finish()?;
    Ok(flow)
}

fn transfer(reader: &mut Reader<'_>) -> Result<Performative> {
    let mut fields = Fields::new(reader)?;
    let transfer = Transfer {
        handle: fields.mandatory("handle", Reader::uint)?,
        delivery_id: fields.optional("delivery-id", Reader::uint)?,
        delivery_tag: fields.optional("delivery-tag", delivery_tag)?,
        message_format: fields.optional("message-format", Reader::uint)?,
        settled: fields.optional("settled", Reader::boolean)?,
        more: fields.flag("more")?,
        rcv_settle_mode: fields.optional("rcv-settle-mode", receiver_settle_mode)?,
        state: fields.optional("state", delivery_state::decode)?,
        resume: fields.flag("resume")?,
        aborted: fields.flag("aborted")?,
        batchable: fields.flag("batchable")?,
    };
    fields.finish()?;
    Ok(Performative::Transfer(transfer))
}

fn disposition(reader: &mut Reader<'_>) -> Result<Disposition> {
    let mut fields = Fields::new(reader)?;
    let disposition = Disposition {
        role: fields.mandatory("role", role)?,
        first: fields.mandatory("first", Reader::uint)?,
        last: fields.optional("last", Reader::uint)?,
        settled: fields.flag("settled")?,
        state: fields.optional("state", delivery_state::decode)?,
        batchable: fields.flag("batchable")?,
    };
    fields.finish()?;
    Ok(disposition)
}

fn detach(reader: &mut Reader<'_>) -> Result<Detach> {
    let mut fields = Fields::new(reader)?;
    let detach = Detach {
        handle: fields.mandatory("handle", Reader::uint)?,
        closed: fields.flag("closed")?,
        error: fields.optional("error", amqp_error)?.map(Box::new),
    };
    fields.finish()?;
    Ok(detach)
}

fn end(reader: &mut Reader<'_>) -> Result<End> {
    let mut fields = Fields::new(reader)?;
    let error = fields.optional("error", amqp_error)?.map(Box::new);
    fields.finish()?;
    Ok(End { error })
}

fn close(reader: &mut Reader<'_>) -> Result<Close> {
    let mut fields = Fields::new(reader)?;
    let error = fields.optional("error", amqp_error)?.map(Box::new);
    fields.finish()?;
    Ok(Close { error })
}

fn role(reader: &mut Reader<'_>, constructor: u8) -> Result<Role> {
    Ok(if reader.boolean(constructor)? {
        Role::Receiver
    } else {
        Role::Sender
    })
}

fn sender_settle_mode(reader: &mut Reader<'_>, constructor: u8) -> Result<SenderSettleMode> {
    match reader.ubyte(constructor)? {
        0 => Ok(SenderSettleMode::Unsettled),
        1 => Ok(SenderSettleMode::Settled),
        2 => Ok(SenderSettleMode::Mixed),
        other => Err(reader.invalid_choice("sender-settle-mode", other)),
    }
}

fn receiver_settle_mode(reader: &mut Reader<'_>, constructor: u8) -> Result<ReceiverSettleMode> {
    match reader.ubyte(constructor)? {
        0 => Ok(ReceiverSettleMode::First),
        1 => Ok(ReceiverSettleMode::Second),
        other => Err(reader.invalid_choice("receiver-settle-mode", other)),
    }
}

/// A tag has at most 32 bytes (AMQP 1.0 §2.8.7).
fn delivery_tag(reader: &mut Reader<'_>, constructor: u8) -> Result<bytes::Bytes> {
    let tag = reader.binary(constructor)?;
    if tag.len() > 32 {
        let found = format_args!("binary of {} bytes", tag.len());
        return Err(reader.invalid_choice("delivery-tag (at most 32 bytes)", found));
    }
    Ok(tag)
}

/// Appends a performative.
pub(super) fn encode(out: &mut BytesMut, performative: &Performative) {
    match performative {
        Performative::Open(open) => encode_open(out, open),
        Performative::Begin(begin) => encode_begin(out, begin),
        Performative::Attach(attach) => encode_attach(out, attach),
        Performative::Flow(flow) => encode_flow(out, flow),
        Performative::Transfer(transfer) => encode_transfer(out, transfer),
        Performative::Disposition(disposition) => encode_disposition(out, disposition),
        Performative::Detach(detach) => {
            let mut fields = write::Fields::new(out, d::DETACH);
            fields.field(Some(detach.handle), write::uint);
            fields.flag(detach.closed);
            fields.field(detach.error.as_deref(), delivery_state::encode_error);
            fields.finish();
        }
        Performative::End(end) => {
            let mut fields = write::Fields::new(out, d::END);
            fields.field(end.error.as_deref(), delivery_state::encode_error);
            fields.finish();
        }
        Performative::Close(close) => {
            let mut fields = write::Fields::new(out, d::CLOSE);
            fields.field(close.error.as_deref(), delivery_state::encode_error);
            fields.finish();
        }
    }
}

fn encode_open(out: &mut BytesMut, open: &Open) {
    let mut fields = write::Fields::new(out, d::OPEN);
    fields.text(Some(&open.container_id));
    fields.text(open.hostname.as_ref());
    fields.field(Some(open.max_frame_size), write::uint);
    fields.field(Some(open.channel_max), write::ushort);
    fields.field(open.idle_time_out, write::uint);
    fields.symbols(&open.outgoing_locales);
    fields.symbols(&open.incoming_locales);
    fields.symbols(&open.offered_capabilities);
    fields.symbols(&open.desired_capabilities);
    fields.field(open.properties.as_ref(), value::encode_map);
    fields.finish_in_full();
}

fn encode_begin(out: &mut BytesMut, begin: &Begin) {
    let mut fields = write::Fields::new(out, d::BEGIN);
    fields.field(begin.remote_channel, write::ushort);
    fields.field(Some(begin.next_outgoing_id), write::uint);
    fields.field(Some(begin.incoming_window), write::uint);
    fields.field(Some(begin.outgoing_window), write::uint);
    fields.field(Some(begin.handle_max), write::uint);
    fields.symbols(&begin.offered_capabilities);
    fields.symbols(&begin.desired_capabilities);
    fields.field(begin.properties.as_ref(), value::encode_map);
    fields.finish_in_full();
}

fn encode_attach(out: &mut BytesMut, attach: &Attach) {
    let mut fields = write::Fields::new(out, d::ATTACH);
    fields.text(Some(&attach.name));
    fields.field(Some(attach.handle), write::uint);
    fields.field(Some(attach.role), encode_role);
    let sender_settles = match attach.snd_settle_mode {
        SenderSettleMode::Unsettled => 0,
        SenderSettleMode::Settled => 1,
        SenderSettleMode::Mixed => 2,
    };
    fields.field(Some(sender_settles), write::ubyte);
    fields.field(Some(attach.rcv_settle_mode), encode_receiver_settle_mode);
    fields.field(attach.source.as_deref(), terminus::encode_source);
    fields.field(attach.target.as_ref(), terminus::encode_target);
    fields.field(attach.unsettled.as_ref(), value::encode_map);
    fields.flag(attach.incomplete_unsettled);
    fields.field(attach.initial_delivery_count, write::uint);
    fields.field(attach.max_message_size, write::ulong);
    fields.symbols(&attach.offered_capabilities);
    fields.symbols(&attach.desired_capabilities);
    fields.field(attach.properties.as_ref(), value::encode_map);
    fields.finish_in_full();
}

fn encode_flow(out: &mut BytesMut, flow: &Flow) {
    let mut fields = write::Fields::new(out, d::FLOW);
    fields.field(flow.next_incoming_id, write::uint);
    fields.field(Some(flow.incoming_window), write::uint);
    fields.field(Some(flow.next_outgoing_id), write::uint);
    fields.field(Some(flow.outgoing_window), write::uint);
    fields.field(flow.handle, write::uint);
    fields.field(flow.delivery_count, write::uint);
    fields.field(flow.link_credit, write::uint);
    fields.field(flow.available, write::uint);
    fields.flag(flow.drain);
    fields.flag(flow.echo);
    fields.field(flow.properties.as_ref(), value::encode_map);
    fields.finish();
}

/// Appends a transfer, without its payload.
pub(super) fn encode_transfer(out: &mut BytesMut, transfer: &Transfer) {
    let mut fields = write::Fields::new(out, d::TRANSFER);
    fields.field(Some(transfer.handle), write::uint);
    fields.field(transfer.delivery_id, write::uint);
    fields.field(transfer.delivery_tag.as_ref(), write::binary);
    fields.field(transfer.message_format, write::uint);
    fields.field(transfer.settled, write::boolean);
    fields.flag(transfer.more);
    fields.field(transfer.rcv_settle_mode, encode_receiver_settle_mode);
    fields.field(transfer.state.as_ref(), delivery_state::encode);
    fields.flag(transfer.resume);
    fields.flag(transfer.aborted);
    fields.flag(transfer.batchable);
    fields.finish();
}

fn encode_disposition(out: &mut BytesMut, disposition: &Disposition) {
    let mut fields = write::Fields::new(out, d::DISPOSITION);
    fields.field(Some(disposition.role), encode_role);
    fields.field(Some(disposition.first), write::uint);
    fields.field(disposition.last, write::uint);
    fields.flag(disposition.settled);
    fields.field(disposition.state.as_ref(), delivery_state::encode);
    fields.flag(disposition.batchable);
    fields.finish();
}

fn encode_role(out: &mut BytesMut, role: Role) {
    write::boolean(out, role == Role::Receiver);
}

fn encode_receiver_settle_mode(out: &mut BytesMut, mode: ReceiverSettleMode) {
    let mode = match mode {
        ReceiverSettleMode::First => 0,
        ReceiverSettleMode::Second => 1,
    };
    write::ubyte(out, mode);
}

/// How many bytes [`encode_transfer`] appends.
pub(super) fn transfer_len(transfer: &Transfer) -> usize {
    let state = transfer.state.as_ref().map(|state| match state {
        DeliveryState::Outcome(Outcome::Accepted | Outcome::Released) => 4,
        // Rare enough to be measured by writing it.
        other => {
            let mut out = BytesMut::new();
            delivery_state::encode(&mut out, other);
            out.len()
        }
    });
    let flag = |value: bool| value.then_some(1);
    let fields = [
        Some(uint_len(transfer.handle)),
        transfer.delivery_id.map(uint_len),
        transfer.delivery_tag.as_ref().map(|tag| match tag.len() {
            len @ ..=0xff => len + 2,
            len => len + 5,
        }),
        transfer.message_format.map(uint_len),
        transfer.settled.map(|_| 1),
        flag(transfer.more),
        transfer.rcv_settle_mode.map(|_| 2),
        state,
        flag(transfer.resume),
        flag(transfer.aborted),
        flag(transfer.batchable),
    ];
    let written = fields
        .iter()
        .rposition(Option::is_some)
        .map_or(0, |last| last + 1);
    let body: usize = fields
        .iter()
        .take(written)
        .map(|len| len.unwrap_or(1))
        .sum();
    let list_header = if body < 0xff { 3 } else { 9 };
    3 + list_header + body
}

const fn uint_len(value: u32) -> usize {
    match value {
        0 => 1,
        1..=0xff => 2,
        _ => 5,
    }
}
