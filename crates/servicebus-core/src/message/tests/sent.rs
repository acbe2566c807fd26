//! What a message is on the wire.

use servicebus_amqp::types::{LazyMap, Message as AmqpMessage, Timestamp};

use super::*;

fn decoded(message: &Message, now: SystemTime) -> AmqpMessage {
    AmqpMessage::decode(message.encode(now).unwrap()).unwrap()
}

/// Section by section what the Python SDK sent for the same message.
#[test]
fn a_full_message_equals_that_of_the_python_sdk() {
    let theirs = AmqpMessage::decode(hex(
        "005370c00a054040700000ea604040005372c11a02a313782d6f70742d706172746974696f6e2d6b6579a1027331005373c0440da10469\
         642d3240a10464657374a1036c626ca1027271a103636964a30a746578742f706c61696e4083000001a22b9830e083000001a22b974680\
         a102733140a1027273005374c11d08a101695401a10173a10178a101625601a10166823ff8000000000000005375a00568656c6c6f",
    ))
    .unwrap();
    let message = Message::new("hello")
        .message_id("id-2")
        .to("dest")
        .subject("lbl")
        .reply_to("rq")
        .correlation_id("cid")
        .content_type("text/plain")
        .session_id("s1")
        .reply_to_session_id("rs")
        .partition_key("s1")
        .time_to_live(Duration::from_secs(60))
        .property("i", 1)
        .property("s", "x")
        .property("b", true)
        .property("f", 1.5);
    // The creation time of the capture.
    let ours = decoded(&message, at_millis(0x01a2_2b97_4680));
    assert_eq!(ours.header, theirs.header);
    assert_eq!(ours.properties, theirs.properties);
    assert_eq!(ours.body, theirs.body);
    let map = |section: &Option<LazyMap>| section.as_ref().unwrap().decode().unwrap();
    assert_eq!(
        map(&ours.message_annotations),
        map(&theirs.message_annotations)
    );
    assert_eq!(
        map(&ours.application_properties),
        map(&theirs.application_properties)
    );
}

/// The smallest message is its body and nothing else; the official SDKs add empty sections or absent fields.
#[test]
fn a_plain_message_has_no_section_but_its_body() {
    let encoded = Message::new("hi").encode(UNIX_EPOCH).unwrap();
    assert_eq!(encoded, hex("005375a0026869"));
    let with_id = Message::new("hi")
        .message_id("m")
        .encode(UNIX_EPOCH)
        .unwrap();
    assert_eq!(with_id, hex("005373 c00401 a1016d 005375a0026869"));
}

#[test]
fn b16_a_life_longer_than_49_days() {
    let now = at_millis(1_700_000_000_000);
    let life = Duration::from_millis(4_320_000_000);
    let amqp = decoded(&Message::new("").time_to_live(life), now);
    assert_eq!(amqp.header.as_ref().unwrap().ttl, Some(u32::MAX));
    let properties = amqp.properties.as_ref().unwrap();
    assert_eq!(
        properties.creation_time,
        Some(Timestamp::from_millis(1_700_000_000_000))
    );
    assert_eq!(
        properties.absolute_expiry_time,
        Some(Timestamp::from_millis(1_704_320_000_000))
    );
    let mut out = bytes::BytesMut::new();
    amqp.encode(&mut out).unwrap();
    let back = ReceivedMessage::decode(out.freeze(), Origin::Peeked).unwrap();
    assert_eq!(back.time_to_live(), Some(life));
    assert_eq!(back.expires_at(), Some(now + life));
}

#[test]
fn b16_short_endless_and_absent_lives() {
    let ttl = |life: Option<Duration>| {
        let mut message = Message::new("");
        message.time_to_live = life;
        let amqp = decoded(&message, UNIX_EPOCH);
        let expiry = amqp.properties.and_then(|p| p.absolute_expiry_time);
        (
            amqp.header.and_then(|h| h.ttl),
            expiry.map(Timestamp::as_millis),
        )
    };
    assert_eq!(
        ttl(Some(Duration::from_millis(1500))),
        (Some(1500), Some(1500))
    );
    // 9999-12-31T23:59:59.999Z
    assert_eq!(
        ttl(Some(Duration::MAX)),
        (Some(u32::MAX), Some(253_402_300_799_999))
    );
    assert_eq!(ttl(None), (None, None));
    // The largest life without times to say that it is longer.
    let message = received("005370c00803404070ffffffff 005375a000");
    assert_eq!(
        message.time_to_live(),
        Some(Duration::from_millis(u32::MAX.into()))
    );
}

#[test]
fn b18_ids_of_all_lengths() {
    for length in [0, 1, 2, 3, 127, 128] {
        let text = "ö".repeat(length);
        let message = Message::new("")
            .message_id(text.as_str())
            .session_id(text.as_str())
            .partition_key(text.as_str())
            .reply_to_session_id(text.as_str());
        let back = delivered(&message);
        assert_eq!(back.message_id(), Some(&text.as_str().into()));
        assert_eq!(back.session_id(), Some(&*text));
        assert_eq!(back.partition_key(), Some(&*text));
        assert_eq!(back.reply_to_session_id(), Some(&*text));
    }
    assert_eq!(
        delivered(&Message::new("")).session_id(),
        None,
        "absent is not empty"
    );

    let long = "x".repeat(129);
    let rows = [
        (Message::new("").message_id(long.as_str()), "message id"),
        (Message::new("").session_id(long.as_str()), "session id"),
        (
            Message::new("").reply_to_session_id(long.as_str()),
            "reply-to session id",
        ),
        (
            Message::new("").partition_key(long.as_str()),
            "partition key",
        ),
        (
            Message::new("").transaction_partition_key(long),
            "transaction partition key",
        ),
        (
            Message::new("").session_id("a").partition_key("b"),
            "differs",
        ),
    ];
    for (message, text) in rows {
        let error = message.encode(UNIX_EPOCH).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(text), "{error}");
    }
    let equal = Message::new("").partition_key("a").session_id("a");
    assert!(equal.check().is_ok());
}

#[test]
fn a_property_set_twice_has_the_second_value() {
    let message = Message::new("")
        .property("a", 1)
        .property("b", 2)
        .property("a", 3i64);
    assert_eq!(
        message.application_properties,
        Map::new().with("a", 3i64).with("b", 2)
    );
}

#[test]
fn b104_an_id_is_given_once() {
    let mut message = Message::new("");
    message.assign_message_id();
    let first = message.message_id.clone();
    message.assign_message_id();
    assert!(first.is_some() && message.message_id == first);
    let mut named = Message::new("").message_id("mine");
    named.assign_message_id();
    assert_eq!(named.message_id, Some("mine".into()));
}
