//! Cases of real trouble with values, by their ids: what other programs of the field got wrong about legal bytes.

use bytes::{Bytes, BytesMut};
use protocol_tests::hex;
use servicebus_amqp::types::{Array, ByteString, Map, Message, Symbol, Timestamp, Value};

use crate::messages::encode_message;

fn encode(value: impl Into<Value>) -> Bytes {
    let mut out = BytesMut::new();
    value.into().encode(&mut out).unwrap();
    out.freeze()
}

fn decode(bytes: impl Into<Bytes>) -> Value {
    Value::decode(&bytes.into()).unwrap()
}

#[test]
fn b01_text_and_binary_at_the_edge_of_one_byte() {
    for len in [254_usize, 255, 256, 65_536] {
        let text = ByteString::from("x".repeat(len));
        let binary = Bytes::from(text.to_string());
        for (value, small, large) in [
            (Value::from(text.clone()), 0xa1, 0xb1),
            (Value::from(binary), 0xa0, 0xb0),
            (Value::Symbol(Symbol::from(text)), 0xa3, 0xb3),
        ] {
            let encoded = encode(value.clone());
            let len32 = u32::try_from(len).unwrap().to_be_bytes();
            match u8::try_from(len) {
                Ok(len8) => assert_eq!(encoded[..2], [small, len8]),
                Err(_) => assert_eq!(encoded[..5], [&[large][..], &len32].concat()),
            }
            assert_eq!(decode(encoded.clone()), value);
            // The long form of a short value is as legal.
            let data = encoded.slice(encoded.len() - len..);
            let long = [&[large], &len32[..], &data].concat();
            assert_eq!(decode(long), value);
        }
    }
    let euros = encode("€".repeat(100));
    assert_eq!(euros[..5], hex("b1 0000012c"));
    assert_eq!(decode(euros), Value::from("€".repeat(100)));
}

#[test]
fn b02_compound_values_of_255_bytes() {
    let bytes = Value::List(vec![Value::Ubyte(9); 127]);
    assert_eq!(encode(bytes)[..3], hex("c0 ff 7f"));
    let one = Value::List(vec![Value::Binary(vec![7; 253].into())]);
    assert_eq!(encode(one)[..11], hex("d0 00000103 00000001 a0 fd"));

    // A sweep of the bytes of all items over the edge.
    for len in 250..=260_usize {
        let item = |overhead: usize| Value::Binary(vec![7; len - overhead].into());
        let list = Value::List(vec![item(2)]);
        let map = Value::Map(Map::new().with(Value::Null, item(3)));
        let array = Value::Array(Array::new(vec![item(1)]).unwrap());
        for value in [list, map, array] {
            let encoded = encode(value.clone());
            let (stated, header) = match encoded[0] & 0xf0 {
                0xc0 | 0xe0 => (usize::from(encoded[1]), 2),
                _ => (
                    usize::try_from(u32::from_be_bytes(encoded[1..5].try_into().unwrap())).unwrap(),
                    5,
                ),
            };
            assert_eq!(stated, encoded.len() - header, "{len}");
            assert_eq!(decode(encoded), value, "{len}");
        }
    }
}

#[test]
fn b03_arrays_without_bytes_for_elements() {
    let array = |elements: &[Value]| Value::Array(Array::new(elements.to_vec()).unwrap());
    let nulls = array(&[Value::Null, Value::Null, Value::Null, Value::Null]);
    let cases = [
        ("e0 02 04 40", nulls.clone()),
        (
            "e0 02 03 41",
            array(&[true.into(), true.into(), true.into()]),
        ),
        ("e0 02 02 43", array(&[0_u32.into(), 0_u32.into()])),
        ("e0 02 02 44", array(&[0_u64.into(), 0_u64.into()])),
        (
            "e0 02 02 45",
            array(&[Value::List(vec![]), Value::List(vec![])]),
        ),
        ("e0 02 00 a3", array(&[])),
        ("e0 01 00", array(&[])),
        ("f0 00000005 00000000 a3", array(&[])),
    ];
    for (digits, expected) in cases {
        let bytes = hex(digits);
        assert_eq!(decode(bytes.clone()), expected, "{digits}");
        // What follows the array is still there.
        let items = [&bytes[..], &hex("a1 01 7a")].concat();
        let size = u8::try_from(items.len() + 1).unwrap();
        let list = [&[0xc0, size, 2], &items[..]].concat();
        assert_eq!(
            decode(list),
            Value::List(vec![expected, "z".into()]),
            "{digits}"
        );
    }
    assert_eq!(encode(nulls), hex("e0 02 04 40"));
}

#[test]
fn b05_timestamps_at_the_far_end() {
    let last = hex("83 0000e677d21fdbff");
    let value = decode(last.clone());
    assert_eq!(
        value,
        Value::Timestamp(Timestamp::from_millis(253_402_300_799_999))
    );
    assert_eq!(encode(value), last);
    for digits in ["83 7fffffffffffffff", "83 8000000000000000"] {
        let value = decode(hex(digits));
        // The platform may not have the instant; asking for it is no harm.
        let _ = value.as_timestamp().unwrap().to_system_time();
        assert_eq!(encode(value), hex(digits));
    }
    // As a property and as annotations, in a message that is sent again.
    let message = hex(
        "00 53 72 c1 2a 04 a3 12 782d6f70742d6c6f636b65642d756e74696c 83 0000e677d21fdbff
         a3 01 65 83 7fffffffffffffff 00 53 73 c0 12 09 40 40 40 40 40 40 40 40 83 0000e677d21fdbff",
    );
    let decoded = Message::decode(message.clone()).unwrap();
    let expiry = decoded.properties.as_ref().unwrap().absolute_expiry_time;
    assert_eq!(expiry, Some(Timestamp::from_millis(253_402_300_799_999)));
    let annotations = decoded.message_annotations.as_ref().unwrap();
    assert_eq!(
        annotations.get("x-opt-locked-until").unwrap(),
        Some(Timestamp::from_millis(253_402_300_799_999).into())
    );
    assert_eq!(encode_message(&decoded), message);
}

#[test]
fn b07_small_negative_and_mixed_widths() {
    assert_eq!(decode(hex("54 ff")), Value::Int(-1));
    assert_eq!(decode(hex("55 fe")), Value::Long(-2));
    let longs = |values: &[i64]| {
        Value::Array(Array::new(values.iter().map(|v| Value::Long(*v)).collect()).unwrap())
    };
    let mixed = longs(&[1, -1, 1000]);
    let expected = hex("e0 1a 03 81 0000000000000001 ffffffffffffffff 00000000000003e8");
    assert_eq!(encode(mixed.clone()), expected);
    assert_eq!(decode(expected), mixed);
    assert_eq!(encode(longs(&[1, -1])), hex("e0 04 02 55 01 ff"));
    for (digits, expected) in [("44", 0), ("53 07", 7), ("80 ffffffffffffffff", u64::MAX)] {
        assert_eq!(decode(hex(digits)), Value::Ulong(expected));
        assert_eq!(encode(expected), hex(digits));
    }
}
