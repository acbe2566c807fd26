//! What the answers say.

use bytes::Bytes;
use servicebus_amqp::types::{Body, Message as AmqpMessage, Timestamp, Uuid};

use super::*;
use crate::error::ErrorKind;
use crate::message::{Message, MessageState};
use crate::rpc::tests::{answer, answer_with};
use crate::rules::{Rule, RuleFilter};
use crate::testing::hex;

/// An encoded message as a test peer built on another AMQP library sent it.
const MESSAGE: &str = "005370d00000000d000000054240700036ee804043005372d1000000900000000aa313782d6f70742d656e7175657565\
    642d74696d65830000018bcfe56800a315782d6f70742d73657175656e63652d6e756d6265725501a31d782d6f70742d656e71756575652d73\
    657175656e63652d6e756d6265725500a312782d6f70742d6c6f636b65642d756e74696c83000001a22b993149a313782d6f70742d6d657373\
    6167652d73746174655400005373d0000000220000000ba1036d2d314040a1036c626c4040a30a746578742f706c61696e4040404000537\
    4d10000000a00000002a1016ba10176005375a00768656c6c6f2031";

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
