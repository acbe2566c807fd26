use std::fmt;

use bytes::{Buf, Bytes, BytesMut};

use super::read::Reader;
use super::{FrameError, performative, sasl, write};
use crate::types::{Performative, SaslFrame, Transfer};

/// The protocol header that opens AMQP 1.0.0 (AMQP 1.0 §2.2).
pub const AMQP_HEADER: [u8; 8] = *b"AMQP\x00\x01\x00\x00";

/// The protocol header that opens the SASL layer (AMQP 1.0 §5.3.1).
pub const SASL_HEADER: [u8; 8] = *b"AMQP\x03\x01\x00\x00";

const HEADER_LEN: usize = 8;
const AMQP_FRAME: u8 = 0;
const SASL_FRAME: u8 = 1;

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
    let Some(&[a, b, c, d]) = input.get(..4) else {
        return Ok(None);
    };
    let size = u32::from_be_bytes([a, b, c, d]);
    if size < 8 {
        return Err(FrameError::TooSmall { size });
    }
    if size > max_frame_size {
        return Err(FrameError::TooLarge {
            size,
            max: max_frame_size,
        });
    }
    let Some(len) = usize::try_from(size).ok().filter(|&len| len <= input.len()) else {
        return Ok(None);
    };
    let frame = input.split_to(len).freeze();
    let Some(&[_, _, _, _, offset, kind, high, low]) = frame.get(..HEADER_LEN) else {
        return Err(FrameError::TooSmall { size });
    };
    let body = usize::from(offset) * 4;
    if body < HEADER_LEN || body > len {
        return Err(FrameError::DataOffset { offset, size });
    }
    match kind {
        AMQP_FRAME => decode_amqp(frame, body, u16::from_be_bytes([high, low])).map(Some),
        SASL_FRAME => {
            let mut reader = Reader::at(&frame, body);
            let sasl_frame = sasl::decode(&mut reader)?;
            reader.finish()?;
            Ok(Some(Frame::Sasl(sasl_frame)))
        }
        other => Err(FrameError::UnknownType(other)),
    }
}

fn decode_amqp(mut frame: Bytes, body: usize, channel: u16) -> Result<Frame, FrameError> {
    if body == frame.len() {
        return Ok(Frame::Empty { channel });
    }
    let mut reader = Reader::at(&frame, body);
    let performative = performative::decode(&mut reader)?;
    if !matches!(performative, Performative::Transfer(_)) {
        reader.finish()?;
    }
    let payload_start = reader.position();
    frame.advance(payload_start);
    Ok(Frame::Amqp {
        channel,
        performative,
        payload: frame,
    })
}

/// Appends a frame of this performative, without a payload.
///
/// The caller compares what was appended with the peer's max-frame-size.
pub fn encode_frame(out: &mut BytesMut, channel: u16, performative: &Performative) {
    frame(out, AMQP_FRAME, channel, 0, |out| {
        performative::encode(out, performative);
    });
}

/// Appends the frame header and the transfer of a frame whose payload of `payload_len` bytes the caller adds, to the
/// buffer or as a segment of its own.
pub fn encode_transfer(out: &mut BytesMut, channel: u16, transfer: &Transfer, payload_len: usize) {
    frame(out, AMQP_FRAME, channel, payload_len, |out| {
        performative::encode_transfer(out, transfer);
    });
}

/// How many bytes [`encode_transfer`] appends for this transfer: what the frame takes beyond its payload.
pub fn transfer_len(transfer: &Transfer) -> usize {
    HEADER_LEN + performative::transfer_len(transfer)
}

/// Appends an empty frame, the sign of life (AMQP 1.0 §2.4.5).
pub fn encode_empty(out: &mut BytesMut) {
    out.extend_from_slice(&[0, 0, 0, 8, 2, AMQP_FRAME, 0, 0]);
}

/// Appends a frame of the SASL layer.
pub fn encode_sasl(out: &mut BytesMut, sasl_frame: &SaslFrame) {
    frame(out, SASL_FRAME, 0, 0, |out| sasl::encode(out, sasl_frame));
}

fn frame(
    out: &mut BytesMut,
    kind: u8,
    channel: u16,
    payload_len: usize,
    body: impl FnOnce(&mut BytesMut),
) {
    let start = out.len();
    let [high, low] = channel.to_be_bytes();
    out.extend_from_slice(&[0, 0, 0, 0, 2, kind, high, low]);
    body(out);
    let len = out.len().saturating_sub(start).saturating_add(payload_len);
    if let Some(size) = out.get_mut(start..start + 4) {
        size.copy_from_slice(&write::saturate(len).to_be_bytes());
    }
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
