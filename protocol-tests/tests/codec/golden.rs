//! All golden bytes decode to what they are said to mean, and re-encode to equal meaning.

use bytes::{Bytes, BytesMut};
use protocol_tests::golden::{self, Golden, Kind};
use protocol_tests::notation;
use servicebus_amqp::codec::{
    AMQP_HEADER, Frame, SASL_HEADER, decode_frame, encode_empty, encode_frame, encode_sasl,
};
use servicebus_amqp::types::{Message, Performative, Value};

fn of_kind(kind: Kind) -> impl Iterator<Item = Golden> {
    golden::all().filter(move |golden| golden.kind == kind)
}

/// Decodes the one frame there is.
pub(crate) fn only_frame(bytes: &Bytes) -> Frame {
    let mut input = BytesMut::from(&bytes[..]);
    let frame = decode_frame(&mut input, u32::MAX).unwrap().unwrap();
    assert!(input.is_empty(), "more than one frame");
    frame
}

pub(crate) fn encode(frame: &Frame) -> Bytes {
    let mut out = BytesMut::new();
    match frame {
        Frame::Empty { .. } => encode_empty(&mut out),
        Frame::Sasl(frame) => encode_sasl(&mut out, frame),
        Frame::Amqp {
            channel,
            performative: Performative::Transfer(transfer),
            payload,
        } => {
            servicebus_amqp::codec::encode_transfer(&mut out, *channel, transfer, payload.len());
            assert_eq!(out.len(), servicebus_amqp::codec::transfer_len(transfer));
            let mut message = BytesMut::new();
            Message::decode(payload.clone())
                .unwrap()
                .encode(&mut message)
                .unwrap();
            // The smallest forms make it shorter than it came, so the frame is stated anew.
            out.clear();
            servicebus_amqp::codec::encode_transfer(&mut out, *channel, transfer, message.len());
            out.extend_from_slice(&message);
        }
        Frame::Amqp {
            channel,
            performative,
            ..
        } => encode_frame(&mut out, *channel, performative),
    }
    out.freeze()
}

#[test]
fn nothing_is_left_out() {
    let counts = [
        (Kind::Header, 2),
        (Kind::Frame, 94),
        (Kind::Sections, 3),
        (Kind::Value, 5),
        (Kind::Tag, 1),
        (Kind::Text, 1),
    ];
    for (kind, count) in counts {
        assert_eq!(of_kind(kind).count(), count, "{kind:?}");
    }
}

#[test]
fn headers() {
    for golden in of_kind(Kind::Header) {
        let header = match golden.meaning {
            "protocol-header sasl" => SASL_HEADER,
            "protocol-header amqp" => AMQP_HEADER,
            other => unreachable!("{other}"),
        };
        assert_eq!(golden.bytes, header[..], "{}", golden.name);
    }
}

#[test]
fn frames() {
    for golden in of_kind(Kind::Frame) {
        let frame = only_frame(&golden.bytes);
        assert_eq!(
            notation::frame(&frame).unwrap(),
            golden.meaning,
            "{}",
            golden.name
        );
        let again = only_frame(&encode(&frame));
        assert_eq!(
            notation::frame(&again).unwrap(),
            golden.meaning,
            "{}",
            golden.name
        );
    }
}

#[test]
fn sections() {
    for golden in of_kind(Kind::Sections) {
        let message = Message::decode(golden.bytes.clone()).unwrap();
        assert_eq!(
            notation::message(&message).unwrap(),
            golden.meaning,
            "{}",
            golden.name
        );
        let mut out = BytesMut::new();
        message.encode(&mut out).unwrap();
        let again = Message::decode(out.freeze()).unwrap();
        assert_eq!(
            notation::message(&again).unwrap(),
            golden.meaning,
            "{}",
            golden.name
        );
    }
}

#[test]
fn values() {
    for golden in of_kind(Kind::Value) {
        let value = Value::decode(&golden.bytes).unwrap();
        assert_eq!(notation::value(&value), golden.meaning, "{}", golden.name);
        let mut out = BytesMut::new();
        value.encode(&mut out).unwrap();
        assert_eq!(
            Value::decode(&out.freeze()).unwrap(),
            value,
            "{}",
            golden.name
        );
    }
}

/// A lock token is a delivery tag: sixteen bytes that travel unchanged in a binary.
#[test]
fn tags() {
    for golden in of_kind(Kind::Tag) {
        let mut out = BytesMut::new();
        Value::Binary(golden.bytes.clone())
            .encode(&mut out)
            .unwrap();
        assert_eq!(out[..2], [0xa0, 16]);
        assert_eq!(out[2..], golden.bytes, "{}", golden.name);
    }
}

/// Tokens are the body of a message to `$cbs`, an amqp-value of a string.
#[test]
fn text() {
    for golden in of_kind(Kind::Text) {
        let text = std::str::from_utf8(&golden.bytes).unwrap();
        assert_eq!(text, golden.meaning, "{}", golden.name);
        let mut out = BytesMut::new();
        Value::from(text).encode(&mut out).unwrap();
        assert_eq!(out[..2], [0xa1, 170]);
        assert_eq!(Value::decode(&out.freeze()).unwrap().as_text(), Some(text));
    }
}
