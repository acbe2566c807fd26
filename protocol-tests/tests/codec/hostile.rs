//! Input that has broken decoders: each gets a typed error, within 10 ms and 1 MiB.

use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use protocol_tests::hex;
use servicebus_amqp::codec::{
    DecodeError, DecodeErrorKind, Frame, FrameError, MAX_DEPTH, decode_frame,
};
use servicebus_amqp::types::{Message, Performative, Value, condition};

/// Runs a decoder, and checks what it cost.
fn bounded<T>(decode: impl Fn() -> T) -> T {
    let mut result = None;
    // The quickest of a few: another process may take the processor away.
    let mut quickest = Duration::MAX;
    for _ in 0..5 {
        let memory = allocation_counter::measure(|| {
            #[allow(clippy::disallowed_methods, reason = "measures the decoder's time")]
            let start = Instant::now();
            result = Some(decode());
            quickest = quickest.min(start.elapsed());
        });
        assert!(memory.bytes_max < 1 << 20, "{} bytes", memory.bytes_max);
        assert!(memory.bytes_total < 4 << 20, "{} bytes", memory.bytes_total);
    }
    assert!(quickest < Duration::from_millis(10), "{quickest:?}");
    result.unwrap()
}

fn value_error(bytes: &Bytes) -> DecodeError {
    bounded(|| Value::decode(bytes)).unwrap_err()
}

fn frame_result(bytes: &[u8]) -> Result<Option<Frame>, FrameError> {
    bounded(|| decode_frame(&mut BytesMut::from(bytes), 1 << 16))
}

/// A frame of channel 0 around a body.
pub(crate) fn framed(kind: u8, body: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u32(u32::try_from(body.len() + 8).unwrap());
    frame.put_slice(&[2, kind, 0, 0]);
    frame.put_slice(body);
    frame.freeze()
}

#[test]
fn b04_hostile_element_counts() {
    let null_array = value_error(&hex("f0 00000005 ffffffff 40"));
    assert_eq!(
        null_array.kind(),
        &DecodeErrorKind::TooManyZeroWidthElements
    );
    let uint_array = value_error(&hex("f0 00000009 ffffffff 70 00000001"));
    let expected = DecodeErrorKind::InvalidCount {
        count: 0xffff_ffff,
        present: 4,
    };
    assert_eq!(uint_array.kind(), &expected);
    let list = value_error(&hex("d0 00000004 ffffffff"));
    let expected = DecodeErrorKind::InvalidCount {
        count: 0xffff_ffff,
        present: 0,
    };
    assert_eq!(list.kind(), &expected);
    assert!(matches!(
        value_error(&hex("d1 00000004 fffffffe")).kind(),
        DecodeErrorKind::InvalidCount { .. }
    ));
    let binary = value_error(&hex("b0 ffffffff"));
    let expected = DecodeErrorKind::Truncated {
        needed: 0xffff_ffff,
        present: 0,
    };
    assert_eq!(binary.kind(), &expected);
    for error in [null_array, uint_array, list, binary] {
        assert_eq!(error.condition(), condition::DECODE_ERROR);
    }
}

/// The same claims inside of a performative end the connection with the condition that they deserve.
#[test]
fn b04_hostile_counts_in_an_open() {
    for claim in [
        "f0 00000005 ffffffff 40",
        "f0 00000009 ffffffff 70 00000001",
        "d1 00000004 fffffffe",
        "f0 00000009 ffffffff a3 00000000",
    ] {
        let claim = hex(claim);
        let mut body = BytesMut::from(&hex("00 53 10 d0 00000000 0000000a a1 01 73")[..]);
        // The nine other fields: the properties are the last, the capabilities before them.
        body.put_slice(&[0x40; 8]);
        body.put_slice(&claim);
        let size = u32::try_from(body.len() - 8).unwrap();
        body[4..8].copy_from_slice(&size.to_be_bytes());
        let error = frame_result(&framed(0, &body)).unwrap_err();
        let FrameError::Body(error) = error else {
            unreachable!("{error}");
        };
        assert_eq!(error.path(), "open.properties");
    }
}

#[test]
fn frames_smaller_than_their_header() {
    for size in 0..8 {
        let error = frame_result(&[0, 0, 0, size, 2, 0, 0, 0]).unwrap_err();
        assert_eq!(error, FrameError::TooSmall { size: size.into() });
        assert_eq!(error.condition(), condition::FRAMING_ERROR);
    }
}

/// The size alone decides: nothing is awaited or reserved.
#[test]
fn frames_larger_than_agreed() {
    for size in [65_537, 0x7fff_ffff, 0xffff_ffff_u32] {
        let error = frame_result(&size.to_be_bytes()).unwrap_err();
        assert_eq!(error, FrameError::TooLarge { size, max: 65_536 });
        assert_eq!(error.condition(), condition::FRAMING_ERROR);
    }
    assert_eq!(frame_result(&65_536_u32.to_be_bytes()), Ok(None));
}

#[test]
fn data_offsets_outside_of_the_frame() {
    for offset in [0, 1, 4, 255] {
        let error = frame_result(&[0, 0, 0, 12, offset, 0, 0, 0, 0, 0x53, 0x17, 0x45]);
        assert_eq!(error, Err(FrameError::DataOffset { offset, size: 12 }));
    }
    // An extended header is passed over.
    let extended = [0, 0, 0, 16, 3, 0, 0, 0, 1, 2, 3, 4, 0, 0x53, 0x17, 0x45];
    assert!(matches!(
        frame_result(&extended),
        Ok(Some(Frame::Amqp { .. }))
    ));
}

#[test]
fn unknown_frame_types() {
    let error = frame_result(&framed(2, &hex("00531745"))).unwrap_err();
    assert_eq!(error, FrameError::UnknownType(2));
}

/// Fourteen bytes that claim gigabytes, in the places where claims are made.
#[test]
fn fourteen_bytes() {
    for body in [
        "00 53 10 d0 7f ff",
        "00 53 10 c0 ff ff",
        "00 a3 ff 61 6d 71",
        "00 b3 7f ff ff ff",
        "00 80 00 00 00 00",
        "00 53 14 f0 7f ff",
        "00 53 40 c0 03 01",
    ] {
        let body = hex(body);
        for kind in [0, 1] {
            let frame = framed(kind, &body);
            assert_eq!(frame.len(), 14);
            assert!(
                matches!(frame_result(&frame), Err(FrameError::Body(_))),
                "{body:?}"
            );
        }
    }
}

/// Ten kilobytes of a begin whose properties claim millions of elements that take no bytes, many times.
#[test]
fn ten_kilobytes_of_begin() {
    for (array, count) in [
        (hex("f0 00000005 00100000 40"), 1000),
        (hex("e0 02 ff 45"), 2500),
        (hex("f0 00000005 0000ffff 41"), 1000),
    ] {
        let mut map = BytesMut::new();
        for _ in 0..count / 2 {
            map.put_slice(&array);
            map.put_slice(&array);
        }
        let mut body = BytesMut::from(&hex("00 53 11 d0")[..]);
        let fields = hex("40 43 52ff 52ff 40 40 40 d1");
        body.put_u32(u32::try_from(4 + fields.len() + 8 + map.len()).unwrap());
        body.put_u32(8);
        body.put_slice(&fields);
        body.put_u32(u32::try_from(4 + map.len()).unwrap());
        body.put_u32(count);
        body.put_slice(&map);
        let error = frame_result(&framed(0, &body)).unwrap_err();
        let FrameError::Body(error) = error else {
            unreachable!("{error}");
        };
        assert_eq!(error.kind(), &DecodeErrorKind::TooManyZeroWidthElements);
        assert_eq!(error.path(), "begin.properties");
    }
}

/// Lists, maps, arrays and described values, each within the next.
#[test]
fn six_thousand_nested_values() {
    let nest = |layer: fn(&[u8]) -> Vec<u8>| {
        let mut value = vec![0x45];
        for _ in 0..6000 {
            value = layer(&value);
        }
        Bytes::from(value)
    };
    fn list(value: &[u8]) -> Vec<u8> {
        compound(0xd0, 1, &[], value)
    }
    fn map(value: &[u8]) -> Vec<u8> {
        compound(0xd1, 2, &[0x40], value)
    }
    fn array(value: &[u8]) -> Vec<u8> {
        // Of one array: the constructor of the element is that of its first byte.
        compound(0xf0, 1, &[], value)
    }
    fn described(value: &[u8]) -> Vec<u8> {
        [&[0x00, 0x53, 0x01], value].concat()
    }
    for layer in [list, map, array, described] {
        let error = value_error(&nest(layer));
        assert_eq!(error.kind(), &DecodeErrorKind::TooDeep);
        // In the body of a message as well.
        let body = [&[0x00, 0x53, 0x77], &nest(layer)[..]].concat();
        let error = bounded(|| Message::decode(Bytes::from(body.clone()))).unwrap_err();
        assert_eq!(error.kind(), &DecodeErrorKind::TooDeep);
    }
    // Descriptors of an array's elements nest as well.
    let mut array = vec![0xf0, 0, 0, 0x46, 0x55, 0, 0, 0, 1];
    for _ in 0..6000 {
        array.extend([0x00, 0x53, 0x01]);
    }
    array.push(0x45);
    let size = u32::try_from(array.len() - 5).unwrap();
    array[1..5].copy_from_slice(&size.to_be_bytes());
    let error = value_error(&array.into());
    assert_eq!(error.kind(), &DecodeErrorKind::TooDeep);
}

fn compound(constructor: u8, count: u32, before: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = vec![constructor];
    let size = u32::try_from(4 + before.len() + value.len()).unwrap();
    out.extend(size.to_be_bytes());
    out.extend(count.to_be_bytes());
    out.extend(before);
    out.extend(value);
    out
}

#[test]
fn the_deepest_legal_value() {
    let mut value = vec![0x45];
    for _ in 1..MAX_DEPTH {
        value = compound(0xd0, 1, &[], &value);
    }
    let deepest = Bytes::from(value);
    let decoded = bounded(|| Value::decode(&deepest)).unwrap();
    let mut out = BytesMut::new();
    decoded.encode(&mut out).unwrap();
    assert_eq!(Value::decode(&out.freeze()).unwrap(), decoded);
    let deeper = compound(0xd0, 1, &[], &deepest);
    assert_eq!(
        value_error(&deeper.into()).kind(),
        &DecodeErrorKind::TooDeep
    );
}

/// Four billion deliveries in 26 bytes: what they cost is the engine's matter, their decoding costs nothing.
#[test]
fn disposition_of_everything() {
    let bytes = hex("0000001a 02000000 00 53 15 c0 0d 05 41 43 70ffffffff 41 00 53 24 45");
    assert_eq!(bytes.len(), 26);
    let frame = frame_result(&bytes).unwrap().unwrap();
    let Frame::Amqp {
        performative: Performative::Disposition(disposition),
        ..
    } = frame
    else {
        unreachable!("{frame:?}");
    };
    assert_eq!((disposition.first, disposition.last), (0, Some(u32::MAX)));
}

/// What decoding costs stays in proportion to the input, whatever the input.
#[test]
fn memory_follows_the_input() {
    let of_nulls = compound(0xd0, 60_000, &[], &[0x40; 60_000]);
    // Each list claims all that follows it.
    let mut claims = vec![0x45; 1000];
    for _ in 1..MAX_DEPTH {
        let count = u32::try_from(claims.len()).unwrap();
        claims = compound(0xd0, count, &[], &claims);
    }
    let described = compound(0xf0, 30_000, &[0x00, 0x53, 0x01, 0x50], &[7; 30_000]);
    let of_empty_text = compound(0xf0, 60_000, &[0xa3], &[0; 60_000]);
    for input in [of_nulls, claims, described, of_empty_text] {
        let input = Bytes::from(input);
        let memory = allocation_counter::measure(|| {
            let _ = Value::decode(&input);
        });
        let factor = memory.bytes_max / u64::try_from(input.len()).unwrap();
        assert!(factor < 250, "{factor} times {} bytes", input.len());
    }
}
