use servicebus_amqp::codec::{DecodeError, Frame};
use servicebus_amqp::types::{
    Message, Performative, ReceiverSettleMode, Role, SaslCode, SaslFrame, SenderSettleMode,
};

use super::message::message;
use super::state::{delivery_state, error};
use super::terminus::{source, target};
use super::value::map;
use super::{Composite, binary, string, symbol, uint};

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

fn sasl(frame: &SaslFrame) -> String {
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

fn performative(performative: &Performative) -> String {
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
