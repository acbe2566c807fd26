//! The frame trace: one line of text per frame, at level trace.
//!
//! Payloads show as their length; SASL responses not at all.

use bytes::BytesMut;

use crate::codec::encode_frame;
use crate::types::{Performative, SaslFrame};

/// The target of the trace events.
macro_rules! frames {
    ($($arg:tt)*) => {
        tracing::trace!(target: "servicebus_amqp::frames", $($arg)*)
    };
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Direction {
    In,
    Out,
}

impl Direction {
    fn arrow(self) -> &'static str {
        match self {
            Self::In => "<-",
            Self::Out => "->",
        }
    }
}

pub(super) fn performative(
    direction: Direction,
    channel: u16,
    performative: &Performative,
    payload_len: usize,
) {
    let arrow = direction.arrow();
    match performative {
        Performative::Transfer(transfer) => {
            frames!("{arrow} [{channel}] {transfer:?} payload: {payload_len} bytes");
        }
        Performative::Open(body) => frames!("{arrow} [{channel}] {body:?}"),
        Performative::Begin(body) => frames!("{arrow} [{channel}] {body:?}"),
        Performative::Attach(body) => frames!("{arrow} [{channel}] {body:?}"),
        Performative::Flow(body) => frames!("{arrow} [{channel}] {body:?}"),
        Performative::Disposition(body) => frames!("{arrow} [{channel}] {body:?}"),
        Performative::Detach(body) => frames!("{arrow} [{channel}] {body:?}"),
        Performative::End(body) => frames!("{arrow} [{channel}] {body:?}"),
        Performative::Close(body) => frames!("{arrow} [{channel}] {body:?}"),
    }
}

pub(super) fn transfer(channel: u16, transfer: &crate::types::Transfer, payload_len: usize) {
    frames!("-> [{channel}] {transfer:?} payload: {payload_len} bytes");
}

pub(super) fn sasl(direction: Direction, frame: &SaslFrame) {
    let arrow = direction.arrow();
    match frame {
        SaslFrame::Mechanisms(body) => frames!("{arrow} {body:?}"),
        SaslFrame::Init(body) => frames!("{arrow} {body:?}"),
        SaslFrame::Challenge(_) => frames!("{arrow} SaslChallenge"),
        SaslFrame::Response(_) => frames!("{arrow} SaslResponse"),
        SaslFrame::Outcome(body) => frames!("{arrow} SaslOutcome {{ code: {:?} }}", body.code),
    }
}

pub(super) fn empty(direction: Direction) {
    frames!("{} empty", direction.arrow());
}

pub(super) fn header(direction: Direction, header: [u8; 8]) {
    frames!("{} header {}", direction.arrow(), header.escape_ascii());
}

/// Traces and appends a frame without a payload.
pub(super) fn encode(out: &mut BytesMut, channel: u16, frame: &Performative) {
    performative(Direction::Out, channel, frame, 0);
    encode_frame(out, channel, frame);
}
