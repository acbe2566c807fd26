use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use servicebus_amqp::types::{Body, Value};

use super::*;
use crate::testing::hex;

fn captured_messages() -> [Message; 2] {
    [("b-1", "a"), ("b-2", "b")]
        .map(|(id, body)| Message::new(body).message_id(id).session_id("s1"))
}

fn batch_of(messages: &[Message]) -> MessageBatch {
    let mut batch = MessageBatch::new(usize::MAX, UNIX_EPOCH);
    for message in messages {
        assert!(batch.try_add(message).unwrap());
    }
    batch
}

fn inner(payload: Bytes) -> (AmqpMessage, Vec<Bytes>) {
    let mut message = AmqpMessage::decode(payload).unwrap();
    let sections = match std::mem::take(&mut message.body) {
        Body::Data(one) => vec![one],
        Body::DataSections(sections) => sections,
        other => panic!("{other:?}"),
    };
    (message, sections)
}

/// The batch of two messages as the Python and JavaScript SDKs send it. They write absent fields and empty sections,
/// which we do not; what they mean is the same.
#[test]
fn a_batch_equals_those_of_the_official_sdks() {
    let python = "005373c0150da103622d31404040404040404040a10273314040005375a020005373c0150da103622d31404040404040404040\
        a10273314040005375a00161005375a020005373c0150da103622d32404040404040404040a10273314040005375a00162";
    let javascript = "00537045005372d10000000400000000005373d0000000160000000ba103622d31404040404040404040a1027331005375\
        a03400537045005372d10000000400000000005373d0000000160000000ba103622d31404040404040404040a1027331005375a00161005\
        375a03400537045005372d10000000400000000005373d0000000160000000ba103622d32404040404040404040a1027331005375a00162";
    let (envelope, ours) = inner(batch_of(&captured_messages()).into_payload());
    assert_eq!(envelope.header, None);
    assert_eq!(envelope.message_annotations, None);
    for theirs in [python, javascript] {
        let (their_envelope, theirs) = inner(hex(theirs));
        assert_eq!(envelope.properties, their_envelope.properties);
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(theirs) {
            let ours = AmqpMessage::decode(ours.clone()).unwrap();
            let theirs = AmqpMessage::decode(theirs).unwrap();
            assert_eq!(ours.properties, theirs.properties);
            assert_eq!(ours.body, theirs.body);
        }
    }
}

#[test]
fn the_payload_byte_by_byte() {
    let expected = "005373c0130ba103622d31404040404040404040a1027331 \
        005375a01e 005373c0130ba103622d31404040404040404040a1027331 005375a00161 \
        005375a01e 005373c0130ba103622d32404040404040404040a1027331 005375a00162";
    assert_eq!(batch_of(&captured_messages()).into_payload(), hex(expected));
}

#[test]
fn the_envelope_has_the_partition_keys_of_the_first_message() {
    let message = Message::new("x")
        .partition_key("p")
        .transaction_partition_key("v")
        .subject("not copied");
    let (envelope, _) = inner(batch_of(&[message]).into_payload());
    let expected = Map::new()
        .with(Symbol::from("x-opt-partition-key"), "p")
        .with(Symbol::from("x-opt-via-partition-key"), "v");
    assert_eq!(
        envelope.message_annotations.unwrap().decode().unwrap(),
        expected
    );
    assert_eq!(envelope.properties, None);
}

#[test]
fn b95_the_limit_of_a_batch_is_not_that_of_a_message() {
    let property =
        |value: Value| Map::new().with(Symbol::from("com.microsoft:max-message-batch-size"), value);
    let large = Some(104_857_600);
    let rows = [
        (large, Some(property(1_048_576u64.into())), 1_048_576),
        (large, Some(property(1_048_576i64.into())), 1_048_576),
        (large, Some(property(4_194_304i32.into())), 4_194_304),
        (Some(262_144), None, 262_144),
        (Some(262_144), Some(property(1_048_576i64.into())), 262_144),
        (Some(262_144), Some(property(0i64.into())), 262_144),
        (Some(262_144), Some(property(Value::Null)), 262_144),
        (Some(262_144), Some(property("1048576".into())), 262_144),
        (Some(262_144), Some(property((-1i64).into())), 262_144),
        // Where the service does not say: what .NET assumes.
        (large, None, 1_048_576),
        (Some(0), None, 1_048_576),
        (None, None, 1_048_576),
    ];
    for (max, properties, expected) in rows {
        assert_eq!(
            batch_limit(max, properties.as_ref()),
            expected,
            "{max:?} {properties:?}"
        );
    }
}

#[test]
fn b95_there_is_no_limit_to_the_number_of_messages() {
    let mut batch = MessageBatch::new(1 << 20, UNIX_EPOCH);
    for _ in 0..5_000 {
        assert!(batch.try_add(&Message::new("x")).unwrap());
    }
    assert_eq!(batch.len(), 5_000);
}

#[test]
fn b96_a_message_costs_five_or_eight_bytes_more() {
    // A data section of n bytes has 5 more up to 255 and 8 beyond; so has a message within a batch.
    for body in 240..260 {
        let message = Message::new(vec![0; body]);
        let n = message.encode(UNIX_EPOCH).unwrap().len();
        let batch = batch_of(&[message]);
        let expected = if n <= 255 { 5 + n } else { 8 + n };
        assert_eq!(batch.size(), expected);
        assert_eq!(batch.into_payload().len(), expected);
    }
}

#[test]
fn b98_mixed_sessions_are_refused() {
    let plain = Message::new("x");
    let rows = [
        (plain.clone().session_id("a"), plain.clone().session_id("b")),
        (plain.clone().session_id("a"), plain.clone()),
        (plain.clone(), plain.clone().session_id("")),
        (plain.clone().partition_key("a"), plain.partition_key("b")),
    ];
    for (first, second) in rows {
        let mut batch = batch_of(&[first]);
        let size = batch.size();
        let error = batch.try_add(&second).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!((batch.len(), batch.size()), (1, size));
    }
}

#[test]
fn b98_a_message_that_fits_no_batch_is_an_error_and_not_a_loop() {
    let mut batch = MessageBatch::new(100, UNIX_EPOCH);
    let error = batch.try_add(&Message::new(vec![0; 100])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageTooLarge);
    assert!(batch.is_empty() && batch.size() == 0);
    assert!(batch.try_add(&Message::new("x")).unwrap());
    assert!(!batch.try_add(&Message::new(vec![0; 100])).unwrap());
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let message = (
        proptest::collection::vec(any::<u8>(), 0..400),
        proptest::option::of(".{0,30}"),
        proptest::collection::btree_map(".{0,9}", ".{0,60}", 0..5),
        proptest::option::of(0..u64::MAX / 2),
    );
    let message = message.prop_map(|(body, id, properties, life)| {
        let mut message = Message::new(body).session_id("s").partition_key("s");
        message.message_id = id.map(MessageId::from);
        message.time_to_live = life.map(Duration::from_millis);
        properties
            .into_iter()
            .fold(message, |message, (name, value)| {
                message.property(name, value)
            })
    });
    proptest::collection::vec(message, 1..8)
}

proptest! {
    #[test]
    fn b96_the_size_is_that_on_the_wire(messages in messages()) {
        let batch = batch_of(&messages);
        let size = batch.size();
        let payload = batch.into_payload();
        prop_assert_eq!(payload.len(), size);
        let (_, sections) = inner(payload);
        let alone: Vec<_> = messages.iter().map(|m| m.encode(UNIX_EPOCH).unwrap()).collect();
        prop_assert_eq!(sections, alone);

        // Up to exactly the limit, and not one byte more.
        for (limit, fits) in [(size, true), (size - 1, false)] {
            let mut batch = MessageBatch::new(limit, UNIX_EPOCH);
            let (last, others) = messages.split_last().unwrap();
            let mut before = 0;
            for message in others {
                prop_assert!(batch.try_add(message).unwrap());
                before = batch.size();
            }
            match batch.try_add(last) {
                Ok(added) => prop_assert_eq!(added, fits),
                Err(error) => {
                    prop_assert!(!fits && others.is_empty());
                    prop_assert_eq!(error.kind(), ErrorKind::MessageTooLarge);
                }
            }
            prop_assert_eq!(batch.size(), if fits { size } else { before });
        }
    }
}
