use std::fmt;

use bytes::{Bytes, BytesMut};

use super::FrameError;
use crate::types::{Performative, SaslFrame, Transfer};

/// The protocol header that opens AMQP 1.0.0 (AMQP 1.0 §2.2).
pub const AMQP_HEADER: [u8; 8] = *b"AMQP\x00\x01\x00\x00";

/// The protocol header that opens the SASL layer (AMQP 1.0 §5.3.1).
pub const SASL_HEADER: [u8; 8] = *b"AMQP\x03\x01\x00\x00";

/// One frame (AMQP 1.0 §2.3).
#[derive(Clone, PartialEq)]
#[allow(
    clippy::exhaustive_enums,
    reason = "the specification fixes the choices"
)]
pub enum Frame {
    /// A frame without a body: it shows that the peer lives.
    Empty {
        /// The channel of the header; without meaning.
        channel: u16,
    },
    /// A performative, and what follows it in the frame.
    Amqp {
        /// The channel.
        channel: u16,
        /// The performative.
        performative: Performative,
        /// The rest of the frame: a part of a message after a transfer, else empty.
        payload: Bytes,
    },
    /// A frame of the SASL layer.
    Sasl(SaslFrame),
}

/// Takes one whole frame off the front of `input`; `None` while it is not complete.
///
/// `input` holds frames only: protocol headers are taken off before. Payload, binaries and text of the frame are
/// slices of the input's buffer and keep it alive.
///
/// # Errors
///
/// The size is refused as soon as its four bytes are there. After an error the input is in no defined state; the
/// connection has to end.
pub fn decode_frame(
    input: &mut BytesMut,
    max_frame_size: u32,
) -> Result<Option<Frame>, FrameError> {
    let _ = (input, max_frame_size);
    todo!()
}

/// Appends a frame of this performative, without a payload.
///
/// The caller compares what was appended with the peer's max-frame-size.
pub fn encode_frame(out: &mut BytesMut, channel: u16, performative: &Performative) {
    let _ = (out, channel, performative);
    todo!()
}

/// Appends the frame header and the transfer of a frame whose payload of `payload_len` bytes the caller adds, to the
/// buffer or as a segment of its own.
pub fn encode_transfer(out: &mut BytesMut, channel: u16, transfer: &Transfer, payload_len: usize) {
    let _ = (out, channel, transfer, payload_len);
    todo!()
}

/// How many bytes [`encode_transfer`] appends for this transfer: what the frame takes beyond its payload.
pub fn transfer_len(transfer: &Transfer) -> usize {
    let _ = transfer;
    todo!()
}

/// Appends an empty frame, the sign of life (AMQP 1.0 §2.4.5).
pub fn encode_empty(out: &mut BytesMut) {
    out.extend_from_slice(&[0, 0, 0, 8, 2, 0, 0, 0]);
}

/// Appends a frame of the SASL layer.
pub fn encode_sasl(out: &mut BytesMut, frame: &SaslFrame) {
    let _ = (out, frame);
    todo!()
}

impl fmt::Debug for Frame {
    /// Leaves the payload out: it may hold a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty { channel } => f.debug_struct("Empty").field("channel", channel).finish(),
            Self::Amqp {
                channel,
                performative,
                payload,
            } => f
                .debug_struct("Amqp")
                .field("channel", channel)
                .field("performative", performative)
                .field("payload_len", &payload.len())
                .finish(),
            Self::Sasl(frame) => f.debug_tuple("Sasl").field(frame).finish(),
        }
    }
}
