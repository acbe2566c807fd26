//! Cases of real trouble with messages, by their ids.

use bytes::{Bytes, BytesMut};
use protocol_tests::hex;
use servicebus_amqp::types::{
    Array, Body, ByteString, Described, Descriptor, Header, LazyMap, Map, Message, MessageId,
    Properties, Symbol, Uuid, Value,
};

pub(crate) fn encode_message(message: &Message) -> Bytes {
    let mut out = BytesMut::new();
    message.encode(&mut out).unwrap();
    out.freeze()
}

/// The message after a round trip.
fn again(message: &Message) -> Message {
    Message::decode(encode_message(message)).unwrap()
}

#[test]
fn b12_bodies_of_every_kind() {
    let section = |digits: &str| Message::decode(hex(digits)).unwrap();
    let cases = [
        ("00 53 77 40", Body::Value(Value::Null)),
        (
            "00 53 75 a0 02 6162 00 53 75 a0 02 6364",
            Body::DataSections(vec!["ab".into(), "cd".into()]),
        ),
        (
            "00 53 76 c0 06 02 54 01 a1 01 61",
            Body::Sequence(vec![vec![Value::Int(1), "a".into()]]),
        ),
        ("00 53 70 45", Body::Empty),
        ("00 53 75 a0 00", Body::Data(Bytes::new())),
    ];
    for (digits, body) in cases {
        let message = section(digits);
        assert_eq!(message.body, body, "{digits}");
        assert_eq!(encode_message(&message), hex(digits));
    }
    assert_eq!(Message::decode(Bytes::new()).unwrap(), Message::default());

    let with_footer = section("00 53 75 a0 01 61 00 53 78 c1 06 02 a3 01 66 54 05");
    assert_eq!(with_footer.body, Body::Data("a".into()));
    assert_eq!(
        with_footer.footer.as_ref().unwrap().get("f").unwrap(),
        Some(Value::Int(5))
    );
    assert_eq!(again(&with_footer), with_footer);
}

#[test]
fn b13_annotations_with_nulls_and_numbers() {
    let bytes = hex(
        "00 53 72 c1 2c 04 a3 12 782d6f70742d6c6f636b65642d756e74696c 40
         a3 13 782d6f70742d656e7175657565642d74696d65 40",
    );
    let message = Message::decode(bytes.clone()).unwrap();
    let annotations = message.message_annotations.as_ref().unwrap();
    for key in ["x-opt-locked-until", "x-opt-enqueued-time"] {
        assert_eq!(annotations.get(key).unwrap(), Some(Value::Null));
    }
    assert_eq!(annotations.get("x-opt-sequence-number").unwrap(), None);
    assert_eq!(encode_message(&message), bytes);

    let bytes = hex("00 53 72 c1 06 02 53 01 a1 01 78");
    let message = Message::decode(bytes.clone()).unwrap();
    let annotations = message.message_annotations.as_ref().unwrap();
    assert_eq!(annotations.get("x").unwrap(), None);
    assert_eq!(annotations.decode().unwrap(), Map::new().with(1_u64, "x"));
    assert_eq!(encode_message(&message), bytes);
}

#[test]
fn b14_message_ids_of_every_type() {
    let uuid =
        Uuid::from_bytes(*b"\x33\x22\x11\x00\x55\x44\x77\x66\x88\x99\xaa\xbb\xcc\xdd\xee\xff");
    let cases = [
        ("53 07", MessageId::Ulong(7)),
        ("44", MessageId::Ulong(0)),
        ("80 ffffffffffffffff", MessageId::Ulong(u64::MAX)),
        ("98 33221100554477668899aabbccddeeff", MessageId::Uuid(uuid)),
        ("a0 04 deadbeef", MessageId::Binary(hex("deadbeef"))),
        ("a1 02 6162", MessageId::String("ab".into())),
    ];
    for (digits, id) in cases {
        // message-id, and correlation-id five fields later.
        let bytes = hex(digits);
        let fields = [&bytes[..], &[0x40; 4], &bytes].concat();
        let size = u8::try_from(fields.len() + 1).unwrap();
        let bytes = [&[0x00, 0x53, 0x73, 0xc0, size, 6], &fields[..]].concat();
        let message = Message::decode(bytes.clone().into()).unwrap();
        let expected = Properties {
            message_id: Some(id.clone()),
            correlation_id: Some(id),
            ..Properties::default()
        };
        assert_eq!(message.properties, Some(expected));
        assert_eq!(encode_message(&message), bytes);
    }
    let error = Message::decode(hex("00 53 73 c0 0a 01 82 0000000000000000")).unwrap_err();
    assert_eq!(error.path(), "properties.message-id");
}

#[test]
fn b15_application_properties_of_any_type() {
    let map = hex(
        "a1 01 61 40
         a1 01 62 e0 0a 02 70 00000001 000003e8
         a1 01 63 c1 03 02 43 41
         a1 01 64 94 00000000000000000000000000000001
         a1 01 65 73 0001f600
         a1 01 66 72 7fc00000
         a1 01 67 00 a3 1d 636f6d2e6d6963726f736f66743a6461746574696d652d6f6666736574 81 08e2c4d7c27cc000
         a1 01 68 00 a3 16 636f6d2e6d6963726f736f66743a74696d657370616e 55 ff
         a1 01 69 00 a3 11 636f6d2e6d6963726f736f66743a757269 a1 03 612f62",
    );
    let size = u8::try_from(map.len() + 1).unwrap();
    let bytes = [&[0x00, 0x53, 0x74, 0xc1, size, 18], &map[..]].concat();
    let message = Message::decode(bytes.clone().into()).unwrap();
    let properties = message.application_properties.as_ref().unwrap();
    assert_eq!(properties.decode().unwrap().len(), 9);
    let described = |name: &'static str, value: Value| {
        let descriptor = Descriptor::Name(Symbol::from_static(name));
        Value::from(Described { descriptor, value })
    };
    let expected = [
        ("a", Value::Null),
        (
            "b",
            Array::new(vec![1_u32.into(), 1000_u32.into()])
                .unwrap()
                .into(),
        ),
        ("c", Map::new().with(0_u32, true).into()),
        (
            "d",
            Value::Decimal128([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ),
        ("e", Value::Char('😀')),
        // Ticks of 100 ns since the year 1: midnight of 2030-01-01.
        (
            "g",
            described(
                "com.microsoft:datetime-offset",
                Value::Long(640_290_528_000_000_000),
            ),
        ),
        ("h", described("com.microsoft:timespan", Value::Long(-1))),
        ("i", described("com.microsoft:uri", "a/b".into())),
    ];
    for (key, value) in expected {
        assert_eq!(properties.get(key).unwrap(), Some(value), "{key}");
    }
    assert!(matches!(properties.get("f").unwrap(), Some(Value::Float(v)) if v.is_nan()));
    assert_eq!(encode_message(&message), bytes);
    // Decoded and encoded again, and not only passed on.
    let map = properties.decode().unwrap();
    assert_eq!(LazyMap::from(&map), *properties);
}

/// What the client makes of longer lives is its matter; on the wire the field takes its whole range.
#[test]
fn b16_time_to_live_on_the_wire() {
    let bytes = hex("00 53 70 c0 08 03 40 40 70 ffffffff");
    let message = Message::decode(bytes.clone()).unwrap();
    assert_eq!(message.header.as_ref().unwrap().ttl, Some(u32::MAX));
    assert_eq!(encode_message(&message), bytes);
    let without = Message {
        header: Some(Header::default()),
        ..Message::default()
    };
    assert_eq!(encode_message(&without), hex("00 53 70 45"));
}

#[test]
fn b18_ids_of_every_length() {
    for len in [0, 1, 2, 3, 127, 128, 129] {
        let text = ByteString::from("s".repeat(len));
        let message = Message {
            properties: Some(Properties {
                message_id: Some(MessageId::String(text.clone())),
                group_id: Some(text),
                ..Properties::default()
            }),
            ..Message::default()
        };
        assert_eq!(again(&message), message);
    }
    let empty = Message::decode(hex("00 53 73 c0 03 01 a1 00")).unwrap();
    assert_eq!(
        empty.properties.unwrap().message_id,
        Some(MessageId::String("".into()))
    );
    let none = Message::decode(hex("00 53 73 c0 02 01 40")).unwrap();
    assert_eq!(none.properties.unwrap().message_id, None);
}
