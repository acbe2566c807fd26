//! What a delivery says.

use proptest::prelude::*;
use servicebus_amqp::types::{Array, LazyMap, Message as AmqpMessage, Symbol, Timestamp};

use super::*;

#[test]
fn b12_bodies_of_all_kinds() {
    let rows: [(&str, Body, Option<&[u8]>); 6] = [
        ("00537740", Body::Value(Value::Null), None),
        (
            "005375a0026162 005375a0026364",
            Body::DataSections(vec![Bytes::from_static(b"ab"), Bytes::from_static(b"cd")]),
            Some(b"abcd"),
        ),
        (
            "005376c0060254 01a10161",
            Body::Sequence(vec![vec![1.into(), "a".into()]]),
            None,
        ),
        ("005373c00401a10161", Body::Empty, Some(b"")),
        ("005375a000", Body::Data(Bytes::new()), Some(b"")),
        (
            "005375a00178 005378c1070 2a30173a10166",
            Body::Data(Bytes::from_static(b"x")),
            Some(b"x"),
        ),
    ];
    for (encoded, body, bytes) in rows {
        let message = received(encoded);
        assert_eq!(message.body(), &body, "{encoded}");
        assert_eq!(message.bytes().as_deref(), bytes, "{encoded}");
        // Sent again, it keeps its kind.
        let again = delivered(&Message::from(&message));
        assert_eq!(again.body(), &body);
        assert_eq!(again.amqp().footer, message.amqp().footer);
    }
    assert_eq!(received("005377a1026162").text().as_deref(), Some("ab"));
    assert_eq!(received("005375a001ff").text(), None);
}

#[test]
fn b13_annotations_with_null_values() {
    let message = received(
        "005372c12c04a312782d6f70742d6c6f636b65642d756e74696c40a313782d6f70742d656e7175657565642d74696d6540 005375a000",
    );
    assert_eq!(message.locked_until(), None);
    assert_eq!(message.enqueued_time(), None);

    let known = [
        "x-opt-enqueued-time",
        "x-opt-sequence-number",
        "x-opt-enqueue-sequence-number",
        "x-opt-locked-until",
        "x-opt-scheduled-enqueue-time",
        "x-opt-partition-key",
        "x-opt-via-partition-key",
        "x-opt-deadletter-source",
        "x-opt-message-state",
        "x-opt-partition-id",
        "x-opt-lock-token",
        "x-opt-never-heard-of",
    ];
    for key in known {
        for value in [Value::Null, Value::from("x"), Value::from(-1i64)] {
            let map = Map::new().with(Symbol::from(key), value);
            let mut out = bytes::BytesMut::new();
            let amqp = AmqpMessage {
                message_annotations: Some(LazyMap::from(&map)),
                ..AmqpMessage::default()
            };
            amqp.encode(&mut out).unwrap();
            let message = ReceivedMessage::decode(out.freeze(), Origin::Peeked).unwrap();
            let _ = (
                message.sequence_number(),
                message.state(),
                message.partition_key(),
            );
        }
    }
}

#[test]
fn b13_annotations_with_integer_keys_survive() {
    let message = received("005372 c106025301a10178 005375a000");
    let again = Message::from(&message);
    let expected = Map::new().with(1u64, "x");
    assert_eq!(again.amqp.as_ref().unwrap().message_annotations, expected);
    let annotations = delivered(&again)
        .amqp()
        .message_annotations
        .as_ref()
        .unwrap()
        .decode();
    assert_eq!(annotations.unwrap(), expected);
}

#[test]
fn b05_times_at_the_end_of_dot_net() {
    let digits = "83 0000e677d21fdbff";
    let message = received(&format!(
        "005372 c11e02 a312782d6f70742d6c6f636b65642d756e74696c {digits} \
         005373 c01209 40404040404040 40 {digits} 005375a000"
    ));
    let end = Timestamp::from_millis(253_402_300_799_999);
    assert_eq!(
        message
            .amqp()
            .properties
            .as_ref()
            .unwrap()
            .absolute_expiry_time,
        Some(end)
    );
    assert_eq!(message.locked_until(), end.to_system_time());
    assert_eq!(message.expires_at(), end.to_system_time());
    for digits in ["837fffffffffffffff", "838000000000000000"] {
        let message = received(&format!(
            "005372 c11e02 a312782d6f70742d6c6f636b65642d756e74696c {digits} 005375a000"
        ));
        let _ = message.locked_until();
    }
    // 0001-01-01 stands for "not set".
    let unset = received(
        "005372 c11e02 a312782d6f70742d6c6f636b65642d756e74696c 83ffffc77cedd32800 005375a000",
    );
    assert_eq!(unset.locked_until(), None);
}

#[test]
fn b14_ids_of_all_types() {
    let rows = [
        ("5307", MessageId::Ulong(7), "7"),
        ("44", MessageId::Ulong(0), "0"),
        (
            "80ffffffffffffffff",
            MessageId::Ulong(u64::MAX),
            "18446744073709551615",
        ),
        (
            "9833221100554477668899aabbccddeeff",
            MessageId::Uuid(Uuid::from_u128(0x3322_1100_5544_7766_8899_aabb_ccdd_eeff)),
            "33221100-5544-7766-8899-aabbccddeeff",
        ),
        (
            "a004deadbeef",
            MessageId::Binary(Bytes::from_static(b"\xde\xad\xbe\xef")),
            "deadbeef",
        ),
        ("a1026162", MessageId::String("ab".into()), "ab"),
    ];
    for (digits, id, text) in rows {
        // The id as message id and as correlation id.
        let size = 1 + hex(digits).len() * 2 + 4;
        let encoded = format!("005373 c0{size:02x}06 {digits} 40404040 {digits} 005375a000");
        let message = received(&encoded);
        assert_eq!(message.message_id(), Some(&id));
        assert_eq!(message.correlation_id(), Some(&id));
        assert_eq!(id.to_string(), text);
        let again = Message::from(message).encode(UNIX_EPOCH).unwrap();
        assert_eq!(again, hex(&encoded), "the type on the wire is kept");
    }
}

#[test]
fn b15_properties_outside_the_simple_set() {
    let array = Array::new(vec![1u32.into(), 1000u32.into()]).unwrap();
    let message = Message::new("")
        .property("null", Value::Null)
        .property("array", array.clone())
        .property("map", Map::new().with("k", 1))
        .property("decimal", Value::Decimal128([7; 16]))
        .property("char", 'ö')
        .property("nan", f32::NAN)
        .property("span", TimeSpan::from_ticks(-1))
        .property("uri", Uri::new("a/b"))
        .property("time", DateTimeOffset::from(at_millis(1_893_456_000_000)));
    let back = delivered(&message);
    assert_eq!(back.property("null"), Some(Value::Null));
    assert_eq!(back.property("array"), Some(array.into()));
    assert_eq!(back.property("map"), Some(Map::new().with("k", 1).into()));
    assert_eq!(back.property("decimal"), Some(Value::Decimal128([7; 16])));
    assert_eq!(back.property("char"), Some('ö'.into()));
    assert!(matches!(back.property("nan"), Some(Value::Float(f)) if f.is_nan()));
    let span = TimeSpan::from_value(&back.property("span").unwrap()).unwrap();
    assert_eq!((span.ticks(), span.to_duration()), (-1, None));
    let uri = Uri::from_value(&back.property("uri").unwrap()).unwrap();
    assert_eq!(uri.as_str(), "a/b");
    let time = DateTimeOffset::from_value(&back.property("time").unwrap()).unwrap();
    assert_eq!(time.ticks(), 0x08e2_c4d7_c27c_c000, "2030-01-01T00:00:00Z");
    assert_eq!(time.to_system_time(), Some(at_millis(1_893_456_000_000)));
    let again = Message::from(&back).encode(UNIX_EPOCH).unwrap();
    assert_eq!(again, message.encode(UNIX_EPOCH).unwrap());
}

/// The described types as another project's encoder writes them.
#[test]
fn b15_described_types_of_dot_net() {
    let message = received(
        "005374c17906a102747300a316636f6d2e6d6963726f736f66743a74696d657370616e810000000861c46800a10364746f00a31d636f6d\
         2e6d6963726f736f66743a6461746574696d652d6f66667365748108dbe55ee8e40000a10375726900a311636f6d2e6d6963726f736f66\
         743a757269a109687474703a2f2f612f",
    );
    let value = |name: &str| message.property(name).unwrap();
    let hour = TimeSpan::from_value(&value("ts")).unwrap();
    assert_eq!(hour, TimeSpan::from(Duration::from_secs(3600)));
    assert_eq!(Value::from(hour), value("ts"));
    let time = DateTimeOffset::from_value(&value("dto")).unwrap();
    assert_eq!(time, DateTimeOffset::from(at_millis(1_700_000_000_000)));
    assert_eq!(Value::from(time), value("dto"));
    let uri = Uri::from_value(&value("uri")).unwrap();
    assert_eq!(uri, Uri::new("http://a/"));
    assert_eq!(Value::from(uri), value("uri"));
    assert_eq!(TimeSpan::from_value(&value("dto")), None);
    assert_eq!(TimeSpan::from_value(&1i64.into()), None);
}

/// A delivery as a peer built on another AMQP library sent it.
#[test]
fn a_delivery_is_read() {
    let message = received(
        "005370d00000000d000000054240700036ee804043005372d1000000900000000aa313782d6f70742d656e7175657565642d74696d6583\
         0000018bcfe56800a315782d6f70742d73657175656e63652d6e756d6265725501a31d782d6f70742d656e71756575652d73657175656e\
         63652d6e756d6265725500a312782d6f70742d6c6f636b65642d756e74696c83000001a22b9930afa313782d6f70742d6d657373616765\
         2d73746174655400005373d0000000220000000ba1036d2d314040a1036c626c4040a30a746578742f706c61696e40404040005374d100\
         00000a00000002a1016ba10176005375a00768656c6c6f2031",
    );
    assert_eq!(message.message_id(), Some(&"m-1".into()));
    assert_eq!(message.subject(), Some("lbl"));
    assert_eq!(message.content_type(), Some("text/plain"));
    assert_eq!(message.text().as_deref(), Some("hello 1"));
    assert_eq!(message.property("k"), Some("v".into()));
    assert_eq!(message.sequence_number(), 1);
    assert_eq!(message.enqueued_sequence_number(), Some(0));
    assert_eq!(message.enqueued_time(), Some(at_millis(1_700_000_000_000)));
    assert_eq!(message.locked_until(), Some(at_millis(1_796_027_789_487)));
    assert_eq!(message.state(), MessageState::Active);
    assert_eq!(message.delivery_count(), 1);
    assert_eq!(message.time_to_live(), Some(Duration::from_secs(3600)));
    assert_eq!(message.expires_at(), Some(at_millis(1_700_003_600_000)));
    assert_eq!(
        message.lock_token(),
        Some(LockToken::new(Uuid::from_u128(1)))
    );
}

/// What a copy for another journey keeps, and what it leaves behind.
#[test]
fn a_copy_of_a_received_message() {
    let annotations = Map::new()
        .with(
            Symbol::from("x-opt-enqueued-time"),
            Timestamp::from_millis(5),
        )
        .with(Symbol::from("x-opt-sequence-number"), 7i64)
        .with(Symbol::from("x-opt-enqueue-sequence-number"), 7i64)
        .with(
            Symbol::from("x-opt-locked-until"),
            Timestamp::from_millis(9),
        )
        .with(
            Symbol::from("x-opt-scheduled-enqueue-time"),
            Timestamp::from_millis(4),
        )
        .with(Symbol::from("x-opt-partition-key"), "s")
        .with(Symbol::from("x-opt-deadletter-source"), "q")
        .with(Symbol::from("x-opt-message-state"), 1)
        .with(Symbol::from("x-opt-partition-id"), 3i16)
        .with(Symbol::from("x-mine"), "kept");
    let properties = Map::new()
        .with("DeadLetterReason", "why")
        .with("DeadLetterErrorDescription", "words")
        .with("Diagnostic-Id", "00-1")
        .with("traceparent", "00-1")
        .with("tracestate", "a=b")
        .with("mine", 1u8);
    let sent = Message::new("body")
        .message_id("m")
        .session_id("s")
        .subject("subject")
        .time_to_live(Duration::from_secs(60));
    let mut amqp = sent.clone().into_amqp(at_millis(1));
    amqp.header.as_mut().unwrap().delivery_count = Some(4);
    amqp.delivery_annotations = Some(LazyMap::from(
        &Map::new().with(Symbol::from("x-opt-lock-token"), Uuid::nil()),
    ));
    amqp.message_annotations = Some(LazyMap::from(&annotations));
    amqp.application_properties = Some(LazyMap::from(&properties));
    let mut out = bytes::BytesMut::new();
    amqp.encode(&mut out).unwrap();
    let received =
        ReceivedMessage::decode(out.freeze(), Origin::Locked(LockToken::new(Uuid::nil()))).unwrap();
    assert_eq!(received.dead_letter_reason().as_deref(), Some("why"));
    assert_eq!(
        received.dead_letter_error_description().as_deref(),
        Some("words")
    );
    assert_eq!(received.dead_letter_source(), Some("q"));
    assert_eq!(received.state(), MessageState::Deferred);
    assert_eq!(received.delivery_count(), 5);

    let copy = Message::from(received);
    let mut expected = sent.partition_key("s").property("mine", 1u8);
    expected.amqp = Some(Box::new(AmqpFields {
        message_annotations: Map::new().with(Symbol::from("x-mine"), "kept"),
        ..AmqpFields::default()
    }));
    assert_eq!(copy, expected);
    let again = copy.into_amqp(at_millis(1));
    assert_eq!(again.header.unwrap().delivery_count, None);
    assert_eq!(again.delivery_annotations, None);
}

#[test]
fn a_message_made_for_a_test_reads_like_a_received_one() {
    let token = LockToken::new(Uuid::from_u128(9));
    let message = ReceivedMessage::from_parts(
        Message::new("x")
            .message_id("m")
            .partition_key("p")
            .time_to_live(Duration::from_secs(10))
            .property("DeadLetterReason", "why"),
        BrokerProperties::new()
            .sequence_number(7)
            .lock_token(token)
            .enqueued_time(at_millis(5))
            .delivery_count(3)
            .state(MessageState::Deferred),
    );
    assert_eq!(message.lock_token(), Some(token));
    assert_eq!(message.delivery_count(), 3);
    assert_eq!(
        message.amqp().header.as_ref().unwrap().delivery_count,
        Some(2)
    );
    assert_eq!(message.partition_key(), Some("p"));
    assert_eq!(message.expires_at(), Some(at_millis(10_005)));
    assert_eq!(message.dead_letter_reason().as_deref(), Some("why"));
    assert_eq!(message.state(), MessageState::Deferred);
}

#[test]
fn malformed_messages_are_errors_and_malformed_maps_are_not() {
    let error = ReceivedMessage::decode(hex("005375a005"), Origin::Deleted).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    // An application property whose value has no known constructor.
    let message = received("005374c10502a1016103 005375a000");
    assert_eq!(message.property("a"), None);
    assert_eq!(
        message.application_properties().unwrap_err().kind(),
        ErrorKind::Protocol
    );
}

fn texts() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(".{0,40}")
}

proptest! {
    /// What is sent is what is received.
    #[test]
    fn round_trip(
        body in proptest::collection::vec(any::<u8>(), 0..600),
        id in texts(), subject in texts(), session in texts(), to in texts(),
        life in proptest::option::of(0..u64::from(u32::MAX)),
        scheduled in proptest::option::of(0..4_000_000_000_000u64),
        properties in proptest::collection::btree_map(".{0,9}", any::<i64>(), 0..5),
    ) {
        let mut message = Message::new(body.clone());
        message.message_id = id.map(MessageId::from);
        message.subject = subject.map(ByteString::from);
        message.session_id = session.map(ByteString::from);
        message.to = to.map(ByteString::from);
        message.time_to_live = life.map(Duration::from_millis);
        message.scheduled_enqueue_time = scheduled.map(at_millis);
        for (name, value) in properties {
            message = message.property(name, value);
        }
        let back = delivered(&message);
        prop_assert_eq!(back.bytes().unwrap(), body);
        prop_assert_eq!(back.scheduled_enqueue_time(), message.scheduled_enqueue_time);
        prop_assert_eq!(back.time_to_live(), message.time_to_live);
        message.scheduled_enqueue_time = None;
        prop_assert_eq!(Message::from(back), message);
    }

    /// No bytes make the reader panic.
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(message) = ReceivedMessage::decode(bytes.into(), Origin::Peeked) {
            let _ = Message::from(&message).encode(UNIX_EPOCH);
            let _ = (message.expires_at(), message.text(), message.application_properties());
        }
    }
}
