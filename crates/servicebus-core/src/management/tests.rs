use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use servicebus_amqp::types::{Body, Message as AmqpMessage, MessageId, Timestamp, Uuid};

use super::*;
use crate::error::ErrorKind;
use crate::message::{Message, MessageState};
use crate::rpc::Envelope;
use crate::rpc::tests::{answer, answer_with};
use crate::rules::{CorrelationFilter, Rule, RuleFilter};
use crate::settlement::{DeadLetter, Settlement};
use crate::testing::{hex, sorted};

fn at_millis(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

fn token(text: &str) -> LockToken {
    text.parse().unwrap()
}

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
fn b99_schedule_gives_the_numbers_of_the_service() {
    let messages = || {
        [
            Message::new("a").session_id("s"),
            Message::new("b").partition_key("p"),
        ]
    };
    let schedule = Schedule::new(messages(), UNIX_EPOCH, UNIX_EPOCH).unwrap();
    let arguments = schedule.arguments();
    let entries = arguments
        .get("messages")
        .and_then(Value::as_elements)
        .unwrap();
    let entry = |i: usize, key: &str| entries[i].as_map().unwrap().get(key).cloned();
    assert_eq!(entry(0, "session-id"), Some("s".into()));
    assert_eq!(entry(0, "partition-key"), None);
    assert_eq!(entry(1, "partition-key"), Some("p".into()));
    // Without an id a repeated request could not be told from a second one.
    assert_ne!(entry(0, "message-id"), entry(1, "message-id"));
    assert_eq!(
        schedule.arguments(),
        arguments,
        "a repeated request is the same"
    );

    let numbers = |numbers: Vec<i64>| {
        let body = Map::new().with("sequence-numbers", array(numbers));
        schedule.read(answer(200, Body::Value(body.into())))
    };
    let given = vec![4_611_686_018_427_387_905, 7];
    assert_eq!(numbers(given.clone()).unwrap(), given);
    assert_eq!(numbers(vec![7]).unwrap_err().kind(), ErrorKind::Protocol);
    let cancel = CancelScheduled::new(given);
    let gone = cancel.read(answer_with(
        404,
        Some("com.microsoft:message-not-found"),
        Body::Empty,
    ));
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::MessageNotFound);
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

/// Status, condition, and what they mean for the renewal of a lock.
#[test]
fn b70_renewing_a_lock() {
    let renew = RenewLock::new([LockToken::new(Uuid::nil())]);
    let rows = [
        (
            400,
            Some("com.microsoft:argument-error"),
            ErrorKind::InvalidArgument,
            false,
        ),
        (401, None, ErrorKind::Unauthorized, false),
        (
            404,
            Some("com.microsoft:message-not-found"),
            ErrorKind::MessageNotFound,
            false,
        ),
        (404, None, ErrorKind::EntityNotFound, false),
        (408, None, ErrorKind::Timeout, true),
        (
            410,
            Some("com.microsoft:message-lock-lost"),
            ErrorKind::MessageLockLost,
            false,
        ),
        (
            410,
            Some("com.microsoft:session-lock-lost"),
            ErrorKind::SessionLockLost,
            false,
        ),
        (410, None, ErrorKind::MessageLockLost, false),
        (500, None, ErrorKind::Other, true),
        (503, None, ErrorKind::ServiceBusy, true),
        (599, None, ErrorKind::Other, true),
    ];
    for (status, condition, kind, transient) in rows {
        let error = renew
            .read(answer_with(status, condition, Body::Empty))
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.is_transient()),
            (kind, transient),
            "{status}"
        );
        assert_eq!(error.status(), Some(status));
    }
    let ends = [
        Timestamp::from_millis(1_796_027_789_629),
        Timestamp::from_millis(i64::MAX),
    ];
    let read = |count: usize| {
        let map = Map::new().with("expirations", array(ends.into_iter().take(count)));
        let tokens = [LockToken::new(Uuid::nil()); 2];
        RenewLock::new(tokens).read(answer(200, Body::Value(map.into())))
    };
    assert_eq!(read(2).unwrap()[0], Some(at_millis(1_796_027_789_629)));
    assert_eq!(read(1).unwrap_err().kind(), ErrorKind::Protocol);
}

#[test]
fn a_410_about_a_session_is_a_lost_session() {
    let lost = |result: Result<(), crate::error::Error>| result.unwrap_err().kind();
    let gone = || answer(410, Body::Empty);
    assert_eq!(
        lost(RenewSessionLock::new("s").read(gone()).map(drop)),
        ErrorKind::SessionLockLost
    );
    assert_eq!(
        lost(SessionState::new("s").read(gone()).map(drop)),
        ErrorKind::SessionLockLost
    );
    assert_eq!(
        lost(SetSessionState::new("s", None).read(gone())),
        ErrorKind::SessionLockLost
    );
}

#[test]
fn b67_nothing_there_is_no_error() {
    let bodies = || {
        [
            Body::Empty,
            Body::Value(Value::Null),
            Body::Value(Map::new().into()),
        ]
    };
    let not_found = Some("com.microsoft:message-not-found");
    for body in bodies() {
        assert_eq!(Peek::new(0, 1).read(answer(204, body.clone())).unwrap(), []);
        assert_eq!(Peek::new(0, 1).read(answer(202, body.clone())).unwrap(), []);
        assert_eq!(
            Peek::new(0, 1)
                .read(answer_with(404, not_found, body.clone()))
                .unwrap(),
            []
        );
        let deferred = ReceiveDeferred::new([1], ReceiveMode::PeekLock);
        assert_eq!(deferred.read(answer(204, body.clone())).unwrap(), []);
        let sessions = ListSessions::with_messages();
        assert_eq!(
            sessions.read(answer(204, body.clone())).unwrap().ids,
            [""; 0]
        );
        assert_eq!(
            ListRules::new(0).read(answer(204, body.clone())).unwrap(),
            []
        );
        let delete = DeleteMessages::new(1, UNIX_EPOCH);
        assert_eq!(delete.read(answer(204, body.clone())).unwrap(), 0);
        assert_eq!(delete.read(answer_with(404, not_found, body)).unwrap(), 0);
    }
    let deferred = ReceiveDeferred::new([1], ReceiveMode::PeekLock);
    let unknown = deferred.read(answer_with(404, not_found, Body::Empty));
    assert_eq!(unknown.unwrap_err().kind(), ErrorKind::MessageNotFound);
}

/// An encoded message as a test peer built on another AMQP library sent it.
const MESSAGE: &str = "005370d00000000d000000054240700036ee804043005372d1000000900000000aa313782d6f70742d656e7175657565\
    642d74696d65830000018bcfe56800a315782d6f70742d73657175656e63652d6e756d6265725501a31d782d6f70742d656e71756575652d73\
    657175656e63652d6e756d6265725500a312782d6f70742d6c6f636b65642d756e74696c83000001a22b993149a313782d6f70742d6d657373\
    6167652d73746174655400005373d0000000220000000ba1036d2d314040a1036c626c4040a30a746578742f706c61696e4040404000537\
    4d10000000a00000002a1016ba10176005375a00768656c6c6f2031";

#[test]
fn b63_deferred_messages_carry_their_own_token() {
    let uuid = Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
    let entry = Map::new()
        .with("message", hex(MESSAGE))
        .with("lock-token", uuid);
    let body = |entry: Map| Map::new().with("messages", vec![Value::Map(entry)]);
    let read = |mode, entry: Map| {
        ReceiveDeferred::new([1], mode)
            .session("s")
            .read(answer(200, Body::Value(body(entry).into())))
    };
    let messages = read(ReceiveMode::PeekLock, entry).unwrap();
    assert_eq!(messages.len(), 1);
    assert_eq!(
        messages[0].lock_token(),
        Some(LockToken::new(uuid)),
        "used as it is, not swapped"
    );
    assert_eq!(messages[0].delivery_count(), 1);

    let without = Map::new().with("message", hex(MESSAGE));
    let deleted = read(ReceiveMode::ReceiveAndDelete, without.clone()).unwrap();
    assert_eq!(deleted[0].lock_token(), None);
    let error = read(ReceiveMode::PeekLock, without).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    let deleting = ReceiveDeferred::new([1], ReceiveMode::ReceiveAndDelete);
    assert_eq!(deleting.effect(), Effect::Once);
    let arguments = ReceiveDeferred::new([1], ReceiveMode::ReceiveAndDelete)
        .session("s")
        .arguments();
    assert_eq!(arguments.get("receiver-settle-mode"), Some(&0u32.into()));
    assert_eq!(arguments.get("session-id"), Some(&"s".into()));
}

#[test]
fn b68_a_peeked_message() {
    let entry = Map::new().with("message", hex(MESSAGE));
    let body = Map::new().with("messages", vec![Value::Map(entry)]);
    let messages = Peek::new(0, 10)
        .read(answer(200, Body::Value(body.into())))
        .unwrap();
    let [message] = &messages[..] else {
        panic!("one message")
    };
    assert_eq!(message.sequence_number(), 1);
    assert_eq!(message.lock_token(), None);
    assert_eq!(message.delivery_count(), 0, "it was not delivered yet");
    assert_eq!(message.state(), MessageState::Active);
    assert_eq!(message.bytes().as_deref(), Some(&b"hello 1"[..]));
    let large = Peek::new(i64::MAX, u32::MAX).arguments();
    assert_eq!(large.get("from-sequence-number"), Some(&i64::MAX.into()));
    assert_eq!(large.get("message-count"), Some(&i32::MAX.into()));
}

#[test]
fn sessions_come_in_pages() {
    let ids = array(["", "b"]);
    let body = Map::new().with("skip", 2).with("sessions-ids", ids);
    let list = ListSessions::updated_after(at_millis(5)).skip(100);
    assert_eq!(list.arguments().get("skip"), Some(&100.into()));
    assert_eq!(
        list.arguments().get("last-updated-time"),
        Some(&Timestamp::from_millis(5).into())
    );
    let page = list.read(answer(200, Body::Value(body.into()))).unwrap();
    assert_eq!(page.ids, ["", "b"]);
    assert_eq!(page.next, 102);
}

#[test]
fn a_session_state_is_bytes_or_nothing() {
    let read = |state: Value| {
        let body = Map::new().with("session-state", state);
        SessionState::new("s").read(answer(200, Body::Value(body.into())))
    };
    assert_eq!(
        read(Bytes::from_static(b"st").into()).unwrap().as_deref(),
        Some(&b"st"[..])
    );
    assert_eq!(read(Value::Null).unwrap(), None);
    assert_eq!(read("text".into()).unwrap_err().kind(), ErrorKind::Protocol);
    let clear = SetSessionState::new("s", None).arguments();
    assert_eq!(clear.get("session-state"), Some(&Value::Null));
}

#[test]
fn rules_are_listed() {
    let AmqpMessage { body, .. } = AmqpMessage::decode(hex(
        "005377c16e02a10572756c6573c06401c16102a11072756c652d6465736372697074696f6e00800000013700000004c042040080000000\
         1370000006c01001a10d636f6c6f72203d20277265642700800000013700000006c00c01a1095345542061203d2031a102723183000001\
         8bcfe56800",
    ))
    .unwrap();
    let rules = ListRules::new(0).read(answer(200, body)).unwrap();
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0].name, "r1");
    assert_eq!(rules[0].filter, RuleFilter::sql("color = 'red'"));
    let exists = AddRule::new(Rule::new("r", RuleFilter::True))
        .unwrap()
        .read(answer_with(
            409,
            Some("com.microsoft:entity-already-exists"),
            Body::Empty,
        ));
    assert_eq!(exists.unwrap_err().kind(), ErrorKind::EntityAlreadyExists);
}

#[test]
fn answers_that_make_no_sense_are_errors() {
    let bodies = [
        Body::Value(Map::new().into()),
        Body::Value(Map::new().with("expirations", "soon").into()),
        Body::Value(Map::new().with("expirations", array(["soon"])).into()),
        Body::Value("text".into()),
        Body::Data(Bytes::from_static(b"x")),
    ];
    for body in bodies {
        let renew = RenewLock::new([LockToken::new(Uuid::nil())]);
        let error = renew.read(answer(200, body.clone())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{body:?}");
    }
    let messages = [
        Value::from(1),
        Map::new().into(),
        Map::new().with("message", "x").into(),
    ];
    for entry in messages {
        let body = Body::Value(Map::new().with("messages", vec![entry]).into());
        assert!(Peek::new(0, 1).read(answer(200, body.clone())).is_err());
        let deferred = ReceiveDeferred::new([1], ReceiveMode::PeekLock);
        assert!(deferred.read(answer(200, body)).is_err());
    }
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
