//! Cases of real trouble, by their ids: what other programs of the field got wrong about legal bytes.

use bytes::{BufMut, Bytes, BytesMut};
use protocol_tests::hex;
use servicebus_amqp::codec::{
    Frame, FrameError, decode_frame, encode_frame, encode_transfer, transfer_len,
};
use servicebus_amqp::types::{
    Array, Attach, Begin, Body, ByteString, Close, Described, Descriptor, Detach, Disposition, End,
    Flow, Header, LazyMap, Map, Message, MessageId, Open, Performative, Properties,
    ReceiverSettleMode, Role, SaslFrame, SenderSettleMode, Symbol, Timestamp, Transfer, Uuid,
    Value, condition,
};

use crate::golden::only_frame;
use crate::hostile::framed;

fn encode(value: impl Into<Value>) -> Bytes {
    let mut out = BytesMut::new();
    value.into().encode(&mut out).unwrap();
    out.freeze()
}

fn decode(bytes: impl Into<Bytes>) -> Value {
    Value::decode(&bytes.into()).unwrap()
}

fn encode_message(message: &Message) -> Bytes {
    let mut out = BytesMut::new();
    message.encode(&mut out).unwrap();
    out.freeze()
}

fn performative(digits: &str) -> Performative {
    let frame = only_frame(&hex(digits));
    let Frame::Amqp { performative, .. } = frame else {
        unreachable!("{frame:?}");
    };
    performative
}

/// The performative of these fields, written as a list of the smallest form.
fn composed(descriptor: u8, fields: &str) -> Performative {
    let fields = hex(fields);
    let mut body = BytesMut::from(&[0x00, 0x53, descriptor, 0xc0][..]);
    body.put_u8(u8::try_from(fields.len()).unwrap());
    body.put_slice(&fields);
    let Frame::Amqp { performative, .. } = only_frame(&framed(0, &body)) else {
        unreachable!("no performative");
    };
    performative
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

#[test]
fn b08_missing_and_null_fields() {
    for digits in [
        "0000001102000000 005310 c0 04 01 a10173",
        "0000001a02000000 005310 c0 0d 0a a10173 404040404040404040",
    ] {
        let expected = Open {
            container_id: "s".into(),
            hostname: None,
            max_frame_size: 4_294_967_295,
            channel_max: 65_535,
            idle_time_out: None,
            outgoing_locales: vec![],
            incoming_locales: vec![],
            offered_capabilities: vec![],
            desired_capabilities: vec![],
            properties: None,
        };
        assert_eq!(performative(digits), Performative::Open(Box::new(expected)));
    }
    for fields in [
        "04 40 43 5201 5202",
        "05 40 43 5201 5202 40",
        "08 40 43 5201 5202 40404040",
    ] {
        let expected = Begin {
            remote_channel: None,
            next_outgoing_id: 0,
            incoming_window: 1,
            outgoing_window: 2,
            handle_max: 4_294_967_295,
            offered_capabilities: vec![],
            desired_capabilities: vec![],
            properties: None,
        };
        assert_eq!(
            composed(0x11, fields),
            Performative::Begin(Box::new(expected))
        );
    }
    for fields in [
        "03 a1016c 43 41",
        "0a a1016c 43 41 40404040404040",
        "0e a1016c 43 41 4040404040404040404040",
    ] {
        let expected = Attach {
            name: "l".into(),
            handle: 0,
            role: Role::Receiver,
            snd_settle_mode: SenderSettleMode::Mixed,
            rcv_settle_mode: ReceiverSettleMode::First,
            source: None,
            target: None,
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: None,
            max_message_size: None,
            offered_capabilities: vec![],
            desired_capabilities: vec![],
            properties: None,
        };
        assert_eq!(
            composed(0x12, fields),
            Performative::Attach(Box::new(expected))
        );
    }
    for fields in [
        "04 40 5201 5202 5203",
        "0b 40 5201 5202 5203 40404040404040",
    ] {
        let expected = Flow {
            incoming_window: 1,
            next_outgoing_id: 2,
            outgoing_window: 3,
            ..Flow::default()
        };
        assert_eq!(composed(0x13, fields), Performative::Flow(expected));
    }
    for fields in ["01 43", "0b 43 40404040404040404040"] {
        assert_eq!(
            composed(0x14, fields),
            Performative::Transfer(Transfer::default())
        );
    }
    for fields in ["02 42 43", "06 42 43 40404040"] {
        let expected = Disposition {
            role: Role::Sender,
            first: 0,
            last: None,
            settled: false,
            state: None,
            batchable: false,
        };
        assert_eq!(composed(0x15, fields), Performative::Disposition(expected));
    }
    for fields in ["01 43", "03 43 40 40"] {
        let expected = Detach {
            handle: 0,
            closed: false,
            error: None,
        };
        assert_eq!(composed(0x16, fields), Performative::Detach(expected));
    }
    for fields in ["00", "01 40"] {
        assert_eq!(composed(0x17, fields), Performative::End(End::default()));
        assert_eq!(
            composed(0x18, fields),
            Performative::Close(Close::default())
        );
    }
}

/// A mandatory field may be neither.
#[test]
fn b08_mandatory_fields() {
    for (descriptor, fields, path) in [
        (0x10, "00", "open.container-id"),
        (0x10, "01 40", "open.container-id"),
        (0x11, "02 40 43", "begin.incoming-window"),
        (0x12, "02 a1016c 43", "attach.role"),
        (0x13, "03 40 43 43", "flow.outgoing-window"),
        (0x14, "00", "transfer.handle"),
        (0x15, "01 41", "disposition.first"),
        (0x16, "01 40", "detach.handle"),
    ] {
        let fields = hex(fields);
        let size = u8::try_from(fields.len()).unwrap();
        let body = [&[0x00, 0x53, descriptor, 0xc0, size], &fields[..]].concat();
        let result = decode_frame(&mut BytesMut::from(&framed(0, &body)[..]), 512);
        let Err(FrameError::Body(error)) = result else {
            unreachable!("{result:?}");
        };
        assert_eq!(error.path(), path);
        assert_eq!(
            error.to_string().split(" (").next().unwrap(),
            format!("{path}: mandatory, but null or missing")
        );
        assert_eq!(error.condition(), condition::INVALID_FIELD);
    }
}

/// The chunkings of whole exchanges are in `captures`.
#[test]
fn b09_small_frames_need_no_further_byte() {
    let end = hex("0000000c 02000000 00 53 17 45");
    let mut input = BytesMut::from(&end[..11]);
    assert_eq!(decode_frame(&mut input, 512), Ok(None));
    input.extend_from_slice(&end[11..]);
    assert!(matches!(
        decode_frame(&mut input, 512),
        Ok(Some(Frame::Amqp {
            performative: Performative::End(_),
            ..
        }))
    ));
    let mut input = BytesMut::from(&hex("00000008 02000000")[..]);
    assert_eq!(
        decode_frame(&mut input, 512),
        Ok(Some(Frame::Empty { channel: 0 }))
    );
}

#[test]
fn b11_multiple_fields() {
    let mechanisms = |digits: &str| {
        let Frame::Sasl(SaslFrame::Mechanisms(frame)) = only_frame(&hex(digits)) else {
            unreachable!("no mechanisms");
        };
        frame.mechanisms
    };
    assert_eq!(
        mechanisms("0000001702010000 005340 c0 0a 01 a3074d535342434253"),
        ["MSSBCBS"]
    );
    // One array of four symbols of the large form.
    let large =
        "0000003f02010000 005340 c0 32 01 e0 2f 04 b3 00000007 4d535342434253 00000005 504c41494e
                 00000009 414e4f4e594d4f5553 00000008 45585445524e414c";
    assert_eq!(
        mechanisms(large),
        ["MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"]
    );

    for (capabilities, expected) in [
        ("40", &[][..]),
        ("e0 02 00 a3", &[]),
        ("e0 01 00", &[]),
        ("a3 01 63", &["c"]),
        ("e0 04 01 a3 01 63", &["c"]),
        ("f0 0000000e 00000002 b3 00000001 63 00000000", &["c", ""]),
    ] {
        let capabilities = hex(capabilities);
        let fields = [&hex("a10173 40 40 40 40 40 40")[..], &capabilities].concat();
        let size = u8::try_from(fields.len() + 1).unwrap();
        let body = [&[0x00, 0x53, 0x10, 0xc0, size, 8], &fields[..]].concat();
        let frame = only_frame(&framed(0, &body));
        let Frame::Amqp {
            performative: Performative::Open(open),
            ..
        } = frame
        else {
            unreachable!("{frame:?}");
        };
        assert_eq!(open.offered_capabilities, expected, "{capabilities:?}");
    }
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
    assert_eq!(section_bytes(&with_footer), with_footer);
}

fn section_bytes(message: &Message) -> Message {
    Message::decode(encode_message(message)).unwrap()
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
        assert_eq!(section_bytes(&message), message);
    }
    let empty = Message::decode(hex("00 53 73 c0 03 01 a1 00")).unwrap();
    assert_eq!(
        empty.properties.unwrap().message_id,
        Some(MessageId::String("".into()))
    );
    let none = Message::decode(hex("00 53 73 c0 02 01 40")).unwrap();
    assert_eq!(none.properties.unwrap().message_id, None);
}

/// The frames of a delivery can be cut to size before they are written.
#[test]
fn b25_frames_of_a_small_size() {
    let mut transfer = Transfer {
        handle: 300,
        delivery_id: Some(70_000),
        delivery_tag: Some(Bytes::from_static(&[7; 16])),
        message_format: Some(0),
        settled: Some(false),
        more: true,
        ..Transfer::default()
    };
    let body = Bytes::from(vec![1; 10_000]);
    let mut left = body.clone();
    let mut stream = BytesMut::new();
    while !left.is_empty() {
        transfer.more = true;
        let room = 512 - transfer_len(&transfer);
        let payload = left.split_to(room.min(left.len()));
        transfer.more = !left.is_empty();
        let start = stream.len();
        encode_transfer(&mut stream, 9, &transfer, payload.len());
        stream.extend_from_slice(&payload);
        assert!(stream.len() - start <= 512);
        transfer = Transfer {
            handle: 300,
            ..Transfer::default()
        };
    }
    let mut received = BytesMut::new();
    let mut frames = 0;
    while let Some(frame) = decode_frame(&mut stream, 512).unwrap() {
        let Frame::Amqp {
            channel: 9,
            performative: Performative::Transfer(transfer),
            payload,
        } = frame
        else {
            unreachable!("{frame:?}");
        };
        assert_eq!(transfer.delivery_id, (frames == 0).then_some(70_000));
        received.extend_from_slice(&payload);
        assert_eq!(transfer.more, received.len() < body.len());
        frames += 1;
    }
    assert_eq!(received, body);
}

/// Clients exist that read open, begin and attach by position: all fields are there.
#[test]
fn b108_performatives_in_full() {
    let open = performative("0000001102000000 005310 c0 04 01 a10173");
    let begin = composed(0x11, "04 40 43 5201 5202");
    let attach = composed(0x12, "03 a1016c 43 41");
    for (performative, count, explicit) in [
        (open, 10, "40 70ffffffff 60ffff 40"),
        (begin, 8, "40 43 5201 5202 70ffffffff 40"),
        (attach, 14, "43 41 5002 5000 40"),
    ] {
        let mut out = BytesMut::new();
        encode_frame(&mut out, 0, &performative);
        assert_eq!(out[13], count);
        let explicit = hex(explicit);
        assert!(out.windows(explicit.len()).any(|window| window == explicit));
        let Frame::Amqp {
            performative: again,
            ..
        } = only_frame(&out.freeze())
        else {
            unreachable!("no performative");
        };
        assert_eq!(again, performative);
    }
}
