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
/// `input` holds frames only: protocol headers are taken off before. The binaries and the text of a transfer (with its
/// payload), a flow or a disposition are slices of the input's buffer and keep it alive; those of any other frame share
/// a copy of the frame.
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
        AMQP_FRAME => decode_amqp(frame, body, u16::from_be_bytes([high, low])),
        SASL_FRAME => {
            let mut reader = Reader::at(&frame, body);
            let sasl_frame = sasl::decode(&mut reader)?;
            reader.finish()?;
            Ok(Some(Frame::Sasl(sasl_frame)))
        }
        other => Err(FrameError::UnknownType(other)),
    }
}

fn decode_amqp(mut frame: Bytes, body: usize, channel: u16) -> Result<Option<Frame>, FrameError> {
    if body == frame.len() {
        return Ok(Some(Frame::Empty { channel }));
    }
    if !performative::passes_by(frame.get(body..).unwrap_or_default()) {
        frame = Bytes::copy_from_slice(&frame);
    }
    let mut reader = Reader::at(&frame, body);
    let performative = performative::decode(&mut reader)?;
    if !matches!(performative, Performative::Transfer(_)) {
        reader.finish()?;
    }
    let payload_start = reader.position();
    frame.advance(payload_start);
    Ok(Some(Frame::Amqp {
        channel,
        performative,
        payload: frame,
    }))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{
        AmqpError, Close, DeliveryState, Outcome, SaslInit, Symbol, TransactionalState, condition,
    };

    fn decode(bytes: &[u8]) -> Result<Option<Frame>, FrameError> {
        decode_frame(&mut BytesMut::from(bytes), 512)
    }

    /// The length is known before the transfer is written.
    #[test]
    fn transfer_len_is_what_is_written() {
        let transactional = |outcome| {
            DeliveryState::Transactional(Box::new(TransactionalState {
                txn_id: Bytes::from_static(b"transaction"),
                outcome,
            }))
        };
        let states = [
            None,
            Some(DeliveryState::ACCEPTED),
            Some(DeliveryState::Outcome(Outcome::Rejected(Some(Box::new(
                AmqpError::new(condition::NOT_FOUND, "x".repeat(300)),
            ))))),
            Some(transactional(None)),
            Some(transactional(Some(Outcome::Accepted))),
        ];
        for state in states {
            for handle in [0, 1, 255, 256] {
                for tag_len in [0, 1, 32, 250, 256] {
                    for flags in 0..8 {
                        let transfer = Transfer {
                            handle,
                            delivery_id: (flags & 1 == 0).then_some(handle),
                            delivery_tag: Some(vec![1; tag_len].into()),
                            settled: (flags & 2 == 0).then_some(false),
                            more: flags & 4 == 0,
                            state: state.clone(),
                            ..Transfer::default()
                        };
                        let mut out = BytesMut::new();
                        encode_transfer(&mut out, 3, &transfer, 1000);
                        assert_eq!(out.len(), transfer_len(&transfer));
                        let stated = u32::try_from(out.len() + 1000).unwrap();
                        assert_eq!(out[..4], stated.to_be_bytes());
                    }
                }
            }
        }
    }

    #[test]
    fn symbolic_descriptors_mean_the_same() {
        let numeric = decode(b"\0\0\0\x0c\x02\0\0\x05\x00\x53\x18\x45").unwrap();
        let symbolic = decode(b"\0\0\0\x1b\x02\0\0\x05\x00\xa3\x0famqp:close:list\x45").unwrap();
        let long = decode(b"\0\0\0\x13\x02\0\0\x05\x00\x80\0\0\0\0\0\0\0\x18\x45").unwrap();
        let expected = Frame::Amqp {
            channel: 5,
            performative: Performative::Close(Close { error: None }),
            payload: Bytes::new(),
        };
        for frame in [numeric, symbolic, long] {
            assert_eq!(frame.as_ref(), Some(&expected));
        }
    }

    #[test]
    fn only_transfers_have_a_payload() {
        let error = decode(b"\0\0\0\x0d\x02\0\0\0\x00\x53\x18\x45\x40").unwrap_err();
        assert_eq!(error.to_string(), "1 bytes left over (at byte 12)");
        assert_eq!(error.condition(), condition::DECODE_ERROR);
        let frame = decode(b"\0\0\0\x11\x02\0\0\0\x00\x53\x14\xc0\x02\x01\x43\x40\x40").unwrap();
        let Some(Frame::Amqp { payload, .. }) = frame else {
            unreachable!("a transfer");
        };
        assert_eq!(payload, b"\x40\x40"[..]);
    }

    /// The payload is a slice of the receive buffer, and not a copy of it.
    #[test]
    fn payloads_are_not_copied() {
        let mut input = BytesMut::from(&b"\0\0\0\x11\x02\0\0\0\x00\x53\x14\xc0\x02\x01\x43ab"[..]);
        let place = input[15..].as_ptr();
        let Ok(Some(Frame::Amqp { payload, .. })) = decode_frame(&mut input, 512) else {
            unreachable!("a transfer");
        };
        assert_eq!(payload.as_ptr(), place);
    }

    /// An attach is kept as long as its link: it must not keep the buffer of a whole read.
    #[test]
    fn what_lasts_leaves_the_receive_buffer() {
        // attach: name "l", handle 0, a sender.
        let frame = b"\0\0\0\x13\x02\0\0\0\x00\x53\x12\xc0\x06\x03\xa1\x01l\x43\x42";
        let mut input = BytesMut::with_capacity(64);
        input.extend_from_slice(frame);
        let attach = decode_frame(&mut input, 512).unwrap().unwrap();
        assert!(format!("{attach:?}").contains("\"l\""), "{attach:?}");
        assert!(input.try_reclaim(64), "{attach:?}");
    }

    #[test]
    fn errors_name_the_field() {
        // attach, source, timeout: a string.
        let frame = b"\0\0\0\x1e\x02\0\0\0\x00\x53\x12\xc0\x11\x06\xa1\x01l\x43\x41\x40\x40\
                      \x00\x53\x28\xc0\x07\x04\x40\x40\x40\xa1\x01x";
        let mut frame = frame.to_vec();
        frame[3] = u8::try_from(frame.len()).unwrap();
        frame[12] = u8::try_from(frame.len() - 13).unwrap();
        let error = decode(&frame).unwrap_err();
        assert_eq!(
            error.to_string(),
            "attach.source.timeout: expected uint, found the constructor 0xa1 (at byte 30)"
        );
        assert_eq!(error.condition(), condition::INVALID_FIELD);
    }

    #[test]
    fn debug_shows_no_secret() {
        let init = Frame::Sasl(SaslFrame::Init(SaslInit {
            mechanism: Symbol::from_static("PLAIN"),
            initial_response: Some(Bytes::from_static(b"\0user\0password")),
            hostname: None,
        }));
        let transfer = Frame::Amqp {
            channel: 0,
            performative: Performative::Transfer(Transfer::default()),
            payload: Bytes::from_static(b"SharedAccessSignature"),
        };
        let challenge = Frame::Sasl(SaslFrame::Challenge(Bytes::from_static(b"nonce")));
        let shown = format!("{init:?} {transfer:?} {challenge:?}");
        assert!(shown.contains("PLAIN") && shown.contains("payload_len: 21"));
        for secret in ["password", "Shared", "nonce"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    #[test]
    fn empty_frames() {
        let mut out = BytesMut::new();
        encode_empty(&mut out);
        assert_eq!(out, b"\0\0\0\x08\x02\0\0\0"[..]);
        assert_eq!(decode(&out), Ok(Some(Frame::Empty { channel: 0 })));
    }
}
