//! Every captured stream decodes, in whatever pieces it arrives, and re-encodes to equal meaning.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use protocol_tests::captures::{self, Capture, Sender};
use protocol_tests::notation;
use servicebus_amqp::codec::{AMQP_HEADER, Frame, SASL_HEADER, decode_frame};
use servicebus_amqp::types::{Message, Performative};

use crate::golden::{encode, only_frame};

/// The frames of a piece of a stream, headers taken off.
fn frames(capture: &Capture) -> impl Iterator<Item = &Bytes> {
    capture
        .pieces
        .iter()
        .filter(|piece| !piece.is_header())
        .map(|piece| &piece.bytes)
}

/// Payloads that are one whole message.
fn is_whole(frame: &Frame) -> bool {
    let Frame::Amqp {
        performative: Performative::Transfer(transfer),
        payload,
        ..
    } = frame
    else {
        return true;
    };
    !transfer.more && !transfer.aborted && Message::decode(payload.clone()).is_ok()
}

#[test]
fn every_frame_decodes_and_keeps_its_meaning() {
    let mut total = 0;
    for capture in captures::all() {
        for piece in capture.pieces.iter().filter(|piece| piece.is_header()) {
            assert!(piece.bytes == AMQP_HEADER[..] || piece.bytes == SASL_HEADER[..]);
        }
        for (index, bytes) in frames(&capture).enumerate() {
            let frame = only_frame(bytes);
            total += 1;
            if is_whole(&frame) {
                let again = only_frame(&encode(&frame));
                assert_eq!(
                    notation::frame(&frame).unwrap(),
                    notation::frame(&again).unwrap(),
                    "{}, frame {index}",
                    capture.name
                );
            }
        }
    }
    assert!(total > 1200, "only {total} frames in the captures");
}

/// Frames of multi-frame deliveries are the only payloads that are no message by themselves.
#[test]
fn every_whole_payload_is_a_message() {
    let mut messages = 0;
    for capture in captures::all() {
        // The large deliveries of these streams are left out of the recordings in part.
        let is_cut = ["proton-py-rabbit", "proton-py-cppbroker", "proton-py-stub"]
            .contains(&capture.name.as_str());
        if is_cut {
            continue;
        }
        for bytes in frames(&capture) {
            let Frame::Amqp {
                performative: Performative::Transfer(transfer),
                payload,
                ..
            } = only_frame(bytes)
            else {
                continue;
            };
            assert!(!transfer.more, "{}", capture.name);
            Message::decode(payload).unwrap();
            messages += 1;
        }
    }
    assert!(messages > 100, "only {messages} messages in the captures");
}

/// The same frames come out when the bytes arrive one by one (B09).
#[test]
fn any_chunking_gives_the_same_frames() {
    for capture in captures::all() {
        let mut inputs: HashMap<(u32, Sender), BytesMut> = HashMap::new();
        for piece in capture.pieces.iter().filter(|piece| !piece.is_header()) {
            let input = inputs.entry((piece.connection, piece.sender)).or_default();
            let expected = only_frame(&piece.bytes);
            let (last, head) = piece.bytes.split_last().unwrap();
            for byte in head {
                input.extend_from_slice(&[*byte]);
                assert_eq!(decode_frame(input, u32::MAX), Ok(None));
            }
            input.extend_from_slice(&[*last]);
            assert_eq!(decode_frame(input, u32::MAX), Ok(Some(expected)));
            assert!(input.is_empty());
        }
    }
}
