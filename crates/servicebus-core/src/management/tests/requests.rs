//! What is asked.

use bytes::Bytes;
use servicebus_amqp::types::{Body, Message as AmqpMessage, MessageId, Uuid};

use super::*;
use crate::message::Message;
use crate::rpc::Envelope;
use crate::rules::{CorrelationFilter, Rule, RuleFilter};
use crate::settlement::{DeadLetter, Settlement};
use crate::testing::{hex, sorted};

/// The body of a captured request: digits of the value behind the section's descriptor.
fn captured(digits: &str) -> Map {
    match Value::decode(&hex(digits)).unwrap() {
        Value::Map(map) => sorted(&map),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn same(ours: &impl Operation, captured_digits: &str) {
    assert_eq!(sorted(&ours.arguments()), captured(captured_digits));
}

/// Bodies of requests as the official Python SDK sent them.
#[test]
fn bodies_equal_those_of_the_python_sdk() {
    same(
        &RenewLock::new([token("04030201-0605-0807-090a-0b0c0d0e0f10")]),
        "c12202a10b6c6f636b2d746f6b656e73e01201980403020106050807090a0b0c0d0e0f10",
    );
    same(
        &Peek::new(5, 5),
        "c12a04a11466726f6d2d73657175656e63652d6e756d6265725505a10d6d6573736167652d636f756e745405",
    );
    same(
        &Peek::new(1, 2).session("s1"),
        "c13a06a11466726f6d2d73657175656e63652d6e756d6265725501a10d6d6573736167652d636f756e745402a10a73657373696f6e2d\
         6964a1027331",
    );
    same(
        &CancelScheduled::new([7]),
        "c11f02a11073657175656e63652d6e756d62657273e00a01810000000000000007",
    );
    same(
        &ReceiveDeferred::new([1], ReceiveMode::PeekLock),
        "c13704a11073657175656e63652d6e756d62657273e00a01810000000000000001a11472656365697665722d736574746c652d6d6f6465\
         5201",
    );
    same(
        &UpdateDisposition::new(
            [token("01020304-0506-0708-090a-0b0c0d0e0f10")],
            Settlement::Complete,
        ),
        "c14104a112646973706f736974696f6e2d737461747573a109636f6d706c65746564a10b6c6f636b2d746f6b656e73e012019801020304\
         05060708090a0b0c0d0e0f10",
    );
    same(
        &SetSessionState::new("s1", Some(Bytes::from_static(b"st"))),
        "c12404a10a73657373696f6e2d6964a1027331a10d73657373696f6e2d7374617465a0027374",
    );
    same(
        &SessionState::new("s1"),
        "c11102a10a73657373696f6e2d6964a1027331",
    );
    same(
        &RenewSessionLock::new("s1"),
        "c11102a10a73657373696f6e2d6964a1027331",
    );
    same(
        &ListSessions::with_messages(),
        "c12c06a1116c6173742d757064617465642d74696d65830000e677d21fdc00a104736b69705400a103746f705464",
    );
}

/// Bodies of requests as the official JavaScript SDK sent them.
#[test]
fn bodies_equal_those_of_the_javascript_sdk() {
    same(
        &AddRule::new(Rule::new("r1", RuleFilter::sql("a=1")).action("SET b=2")).unwrap(),
        "d10000008300000004a10972756c652d6e616d65a1027231a11072756c652d6465736372697074696f6ed10000005900000004a10a7371\
         6c2d66696c746572d10000001500000002a10a65787072657373696f6ea103613d31a10f73716c2d72756c652d616374696f6ed1000000\
         1900000002a10a65787072657373696f6ea10753455420623d32",
    );
    let filter = CorrelationFilter::new()
        .correlation_id("c")
        .property("x", 1u32);
    same(
        &AddRule::new(Rule::new("r2", filter)).unwrap(),
        "d1000000cf00000004a10972756c652d6e616d65a1027232a11072756c652d6465736372697074696f6ed1000000a500000002a112636f\
         7272656c6174696f6e2d66696c746572d10000008800000012a10e636f7272656c6174696f6e2d6964a10163a10a6d6573736167652d69\
         6440a102746f40a1087265706c792d746f40a1056c6162656c40a10a73657373696f6e2d696440a1137265706c792d746f2d7365737369\
         6f6e2d696440a10c636f6e74656e742d7479706540a10a70726f70657274696573d10000000900000002a101785201",
    );
    same(
        &ListRules::new(0),
        "d10000001300000004a103746f705464a104736b69705400",
    );
    same(
        &RemoveRule::new("r1").unwrap(),
        "d10000001300000002a10972756c652d6e616d65a1027231",
    );
}

/// As the protocol guide states the request; composed by the encoder of another project.
#[test]
fn the_body_of_batch_delete() {
    same(
        &DeleteMessages::new(100, at_millis(1_700_000_000_000)),
        "c12e04a10d6d6573736167652d636f756e745464a111656e7175657565642d74696d652d757463830000018bcfe56800",
    );
}

/// The entry is that of the Python SDK; the encoded message within it is compared by its sections, since that SDK writes
/// absent fields at the end of `properties` and we do not.
#[test]
fn b99_schedule_equals_that_of_the_python_sdk() {
    let message = Message::new("later").message_id("sch-1");
    let at = at_millis(1_893_456_000_000);
    let ours = Schedule::new([message], at, UNIX_EPOCH)
        .unwrap()
        .arguments();
    let theirs = captured(
        "c17f02a1086d65737361676573c07201c16f04a10a6d6573736167652d6964a1057363682d31a1076d657373616765a050005372c12802\
         a31c782d6f70742d7363686564756c65642d656e71756575652d74696d6583000001b8dac5b400005373c0140da1057363682d31404040\
         404040404040404040005375a0056c61746572",
    );
    let entry = |map: &Map| {
        let entries = map.get("messages").and_then(Value::as_elements).unwrap();
        assert_eq!(entries.len(), 1);
        entries[0].as_map().unwrap().clone()
    };
    let (ours, theirs) = (entry(&ours), entry(&theirs));
    assert_eq!(ours.len(), theirs.len());
    assert_eq!(ours.get("message-id"), theirs.get("message-id"));
    let decoded = |map: &Map| {
        let encoded = map.get("message").and_then(Value::as_binary).unwrap();
        let message = AmqpMessage::decode(encoded.clone()).unwrap();
        let annotations = message
            .message_annotations
            .as_ref()
            .unwrap()
            .decode()
            .unwrap();
        (
            message.header,
            annotations,
            message.properties,
            message.body,
        )
    };
    assert_eq!(decoded(&ours), decoded(&theirs));
}

#[test]
fn b60_dispositions_by_lock_token() {
    let tokens = [
        LockToken::new(Uuid::from_u128(1)),
        LockToken::new(Uuid::from_u128(2)),
    ];
    let map = |settlement| {
        UpdateDisposition::new(tokens, settlement)
            .session("s")
            .arguments()
    };
    let dead_letter = map(Settlement::DeadLetter(
        DeadLetter::new("r").description("d").property("p", 1),
    ));
    assert_eq!(
        dead_letter.get("disposition-status"),
        Some(&"suspended".into())
    );
    assert_eq!(dead_letter.get("deadletter-reason"), Some(&"r".into()));
    assert_eq!(dead_letter.get("deadletter-description"), Some(&"d".into()));
    assert_eq!(
        dead_letter.get("properties-to-modify"),
        Some(&Map::new().with("p", 1).into())
    );
    assert_eq!(dead_letter.get("session-id"), Some(&"s".into()));
    assert_eq!(
        dead_letter.get("lock-tokens"),
        Some(&array(tokens.map(LockToken::as_uuid)))
    );
    let defer = map(Settlement::Defer {
        properties: Map::new(),
    });
    assert_eq!(defer.get("disposition-status"), Some(&"defered".into()));
    assert_eq!(defer.get("properties-to-modify"), None);
}

/// Where our requests differ from those of the official SDKs: the id is what the caller's table of waiting requests
/// goes by, and `type` (Python only) is left out; all else is there.
#[test]
fn b71_the_envelope_names_the_link() {
    let message = RenewSessionLock::new("s1").request().message(&Envelope {
        message_id: MessageId::Ulong(7),
        reply_to: "reply".into(),
        server_timeout: Some(Duration::from_secs(60)),
        tracking_id: Some("t".into()),
        associated_link: Some("521be22b".into()),
    });
    let properties = message.properties.unwrap();
    assert_eq!(properties.message_id, Some(MessageId::Ulong(7)));
    assert_eq!(properties.reply_to.as_deref(), Some("reply"));
    let expected = Map::new()
        .with("operation", "com.microsoft:renew-session-lock")
        .with("com.microsoft:server-timeout", 60_000u32)
        .with("com.microsoft:tracking-id", "t")
        .with("associated-link-name", "521be22b");
    assert_eq!(
        message.application_properties.unwrap().decode().unwrap(),
        expected
    );
    assert!(matches!(message.body, Body::Value(Value::Map(_))));
}
