use bytes::{Bytes, BytesMut};
use servicebus_amqp::codec::{
    Frame, decode_frame, encode_empty, encode_frame, encode_sasl, encode_transfer, transfer_len,
};
use servicebus_amqp::types::{LazyMap, Message, Performative};

/// A stream of frames: decoding ends with what is no frame, and what is one is the same after a round trip.
pub fn frame(data: &[u8]) {
    let mut input = BytesMut::from(data);
    while let Ok(Some(frame)) = decode_frame(&mut input, 1 << 20) {
        let _ = format!("{frame:?}");
        round_trip(&frame);
    }
}

/// The body of a SASL frame.
pub fn sasl(data: &[u8]) {
    let Ok(size) = u32::try_from(data.len() + 8) else {
        return;
    };
    let mut input = BytesMut::new();
    input.extend_from_slice(&size.to_be_bytes());
    input.extend_from_slice(&[2, 1, 0, 0]);
    input.extend_from_slice(data);
    if let Ok(Some(frame)) = decode_frame(&mut input, u32::MAX) {
        let _ = format!("{frame:?}");
        round_trip(&frame);
    }
}

/// The sections of a message.
pub fn message(data: &[u8]) {
    let input = Bytes::copy_from_slice(data);
    let Ok(message) = Message::decode(input) else {
        return;
    };
    let maps = [
        &message.delivery_annotations,
        &message.message_annotations,
        &message.application_properties,
        &message.footer,
    ];
    for map in maps.into_iter().flatten() {
        lazy_map(map);
    }
    let first = encode_message(&message);
    let again = Message::decode(first.clone()).expect("what was encoded decodes");
    assert_eq!(first, encode_message(&again));
}

/// The ways to read a map agree.
fn lazy_map(map: &LazyMap) {
    let whole = map.decode();
    let pairs: Vec<_> = map.iter().collect();
    match &whole {
        Ok(whole) => {
            assert_eq!(whole.len(), pairs.len());
            assert_eq!(whole.len(), map.len());
            for (name, _) in whole.iter() {
                if let Some(name) = name.as_text() {
                    let found = map.get(name).expect("the pairs are well formed");
                    assert_eq!(
                        format!("{:?}", found.as_ref()),
                        format!("{:?}", whole.get(name))
                    );
                }
            }
        }
        Err(error) => {
            let _ = format!("{error} {error:?}");
            assert!(pairs.last().is_some_and(Result::is_err));
        }
    }
}

fn encode_message(message: &Message) -> Bytes {
    let mut out = BytesMut::new();
    message.encode(&mut out).expect("below 4 GiB");
    out.freeze()
}

/// Floats that are no number are not equal to themselves, so encodings are compared.
fn round_trip(frame: &Frame) {
    let first = encode(frame);
    let mut input = BytesMut::from(&first[..]);
    let again = decode_frame(&mut input, u32::MAX)
        .expect("what was encoded decodes")
        .expect("whole");
    assert!(input.is_empty());
    assert_eq!(first, encode(&again));
}

fn encode(frame: &Frame) -> Bytes {
    let mut out = BytesMut::new();
    match frame {
        Frame::Empty { .. } => encode_empty(&mut out),
        Frame::Sasl(frame) => encode_sasl(&mut out, frame),
        Frame::Amqp {
            channel,
            performative: Performative::Transfer(transfer),
            payload,
        } => {
            encode_transfer(&mut out, *channel, transfer, payload.len());
            assert_eq!(out.len(), transfer_len(transfer));
            out.extend_from_slice(payload);
        }
        Frame::Amqp {
            channel,
            performative,
            ..
        } => encode_frame(&mut out, *channel, performative),
    }
    out.freeze()
}
