//! `$management`: every operation, its types on the wire, its failures.

use crate::common::*;
use bytes::Bytes;
use servicebus_amqp::engine::{LinkOptions, OutgoingDelivery};
use servicebus_amqp::types::{
    Array, Body, DeliveryState, Described, Descriptor, LazyMap, Map, Message, MessageId, Modified,
    Outcome, Properties, Source, Target, Timestamp, Uuid, Value,
};
use servicebus_emulator::Emulator;
use servicebus_emulator::broker::{QueueOptions, SubscriptionOptions, TopicOptions};

async fn queue() -> (Emulator, Client, Node) {
    let emulator = emulator().await;
    emulator
        .default_namespace()
        .create_queue("q1", QueueOptions::default())
        .unwrap();
    let client = Client::connect(&emulator).await;
    let node = client.node("q1/$management").await;
    (emulator, client, node)
}

fn array(values: Vec<Value>) -> Value {
    Value::Array(Array::new(values).unwrap())
}

/// The lock token of a delivery as clients send it: the tag is a .NET GUID.
fn token(delivery: &servicebus_amqp::engine::IncomingDelivery) -> Value {
    let tag: [u8; 16] = delivery.tag[..].try_into().unwrap();
    Value::Uuid(Uuid::from_bytes_le(tag))
}

fn numbers(numbers: impl IntoIterator<Item = i64>) -> Value {
    array(numbers.into_iter().map(Value::Long).collect())
}

fn at(millis: i64) -> Value {
    Value::Timestamp(Timestamp::from_millis(millis))
}

fn scheduled(text: &str, at: i64) -> Value {
    let message = Message {
        message_annotations: Some(LazyMap::from(Map::new().with(
            servicebus_amqp::types::Symbol::from_static("x-opt-scheduled-enqueue-time"),
            Timestamp::from_millis(at),
        ))),
        ..message(text)
    };
    Value::Map(
        Map::new()
            .with("message-id", text)
            .with("message", encode(&message)),
    )
}

async fn defer(link: &servicebus_amqp::net::ReceiverLink) -> i64 {
    let delivery = within(link.recv()).await.unwrap();
    let number = annotation(&delivery, "x-opt-sequence-number").unwrap();
    let state = DeliveryState::Outcome(Outcome::Modified(Box::new(Modified {
        undeliverable_here: Some(true),
        ..Modified::default()
    })));
    settle(link, &delivery, state).await;
    number.as_i64().unwrap()
}

fn messages(reply: &Reply) -> Vec<Message> {
    let messages = match reply.get("messages") {
        Value::List(messages) => messages,
        other => panic!("messages is {other:?}, and no list"),
    };
    messages
        .iter()
        .map(|message| {
            let encoded = message.as_map().unwrap().get("message").unwrap();
            Message::decode(encoded.as_binary().unwrap().clone()).unwrap()
        })
        .collect()
}

fn body(message: &Message) -> String {
    match &message.body {
        Body::Data(data) => String::from_utf8(data.to_vec()).unwrap(),
        other => panic!("the body is {other:?}"),
    }
}

/// B115
#[tokio::test]
async fn b115_the_correlation_id_has_the_type_of_the_message_id() {
    let (_emulator, client, node) = queue().await;
    send(&client.sender("q1").await, &message("1")).await;
    for id in [
        MessageId::Ulong(7),
        MessageId::Uuid(Uuid::from_u128(7)),
        MessageId::Binary(Bytes::from_static(&[7; 16])),
        MessageId::String("seven".into()),
    ] {
        let properties = Map::new().with("operation", "com.microsoft:peek-message");
        let body = Map::new()
            .with("from-sequence-number", 0_i64)
            .with("message-count", 1);
        // `exchange` compares the ids.
        node.exchange(id, properties, Value::Map(body)).await;
    }
}

/// B115: Python attaches both links without a reply-to of their own.
#[tokio::test]
async fn b115_a_reply_finds_the_only_link_of_its_session() {
    let (_emulator, client, _) = queue().await;
    let other = Client {
        session: client.connection.begin(Default::default()).await.unwrap(),
        connection: client.connection.clone(),
    };
    let requests = other.sender("q1/$management").await;
    let mut options =
        LinkOptions::new(Source::new("q1/$management"), Target::new("q1/$management"));
    options.credit = servicebus_amqp::engine::CreditMode::Window(10);
    let replies = other.attach_receiver(options).await.unwrap();
    let node = Node {
        requests,
        replies,
        reply_to: "q1/$management".into(),
    };
    assert_eq!(node.call("renew-lock", Map::new()).await.status, 400);
}

/// B115: where a reply goes is a matter of the connection.
#[tokio::test]
async fn b115_equal_reply_paths_of_two_connections_are_two() {
    let emulator = emulator().await;
    let namespace = emulator.default_namespace();
    let mut nodes = Vec::new();
    for name in ["q1", "q2"] {
        let queue = namespace
            .create_queue(name, QueueOptions::default())
            .unwrap();
        queue.inject(&message(name)).unwrap();
        let client = Client::connect(&emulator).await;
        let node = client
            .node_with(&format!("{name}/$management"), "replies".into())
            .await;
        nodes.push((name, client, node));
    }
    let peek = |node: &Node| {
        let properties = Map::new().with("operation", "com.microsoft:peek-message");
        let body = Map::new()
            .with("from-sequence-number", 0_i64)
            .with("message-count", 1);
        node.request(MessageId::Ulong(7), properties, Value::Map(body))
    };
    // Both have asked before either is read.
    for (_, _, node) in &nodes {
        let request = OutgoingDelivery::new(encode(&peek(node)));
        let outcome = within(node.requests.send(request)).await.unwrap();
        assert_eq!(outcome, Some(DeliveryState::ACCEPTED));
    }
    for (name, _, node) in &nodes {
        let reply = decode(&within(node.replies.recv()).await.unwrap());
        let reply = read_reply(reply, "statusCode", "errorCondition", "statusDescription");
        assert_eq!(body(&messages(&reply)[0]), *name);
        assert!(node.replies.try_take().is_none(), "one reply to each");
    }
}

/// B115: tags of the client may have the 32 bytes that AMQP allows (AMQP 1.0 §2.8.7).
#[tokio::test]
async fn b115_long_delivery_tags_are_taken() {
    let (emulator, client, node) = queue().await;
    let sender = client.sender("q1").await;
    for first in 0..3_u8 {
        let mut delivery = OutgoingDelivery::new(encode(&message("1")));
        delivery.tag = Some((0..32_u8).map(|n| first ^ n.wrapping_mul(37)).collect());
        let outcome = within(sender.send(delivery)).await.unwrap();
        assert_eq!(outcome, Some(DeliveryState::ACCEPTED));
    }
    let properties = Map::new().with("operation", "com.microsoft:peek-message");
    let body = Map::new()
        .with("from-sequence-number", 0_i64)
        .with("message-count", 10);
    let request = node.request(MessageId::Ulong(7), properties, Value::Map(body));
    let mut delivery = OutgoingDelivery::new(encode(&request));
    delivery.tag = Some(Bytes::from_static(&[0xa5; 32]));
    let outcome = within(node.requests.send(delivery)).await.unwrap();
    assert_eq!(outcome, Some(DeliveryState::ACCEPTED));
    let reply = decode(&within(node.replies.recv()).await.unwrap());
    let reply = read_reply(reply, "statusCode", "errorCondition", "statusDescription");
    assert_eq!(messages(&reply).len(), 3);
    assert!(emulator.violations().is_empty());
}

/// B115: no silence.
#[tokio::test]
async fn b115_a_request_without_a_link_for_the_reply_is_rejected() {
    let (_emulator, client, _) = queue().await;
    let session = client.connection.begin(Default::default()).await.unwrap();
    let options = LinkOptions::new(Source::new("client"), Target::new("q1/$management"));
    let requests = session.attach_sender("r", options, SOON).await.unwrap();
    let request = Message {
        properties: Some(Properties {
            reply_to: Some("nowhere".into()),
            ..Properties::default()
        }),
        ..message("")
    };
    let delivery = OutgoingDelivery::new(encode(&request));
    let error = rejection(within(requests.send(delivery)).await.unwrap());
    assert_eq!(error.condition, *"amqp:not-found");
}

#[tokio::test]
async fn unknown_operations_and_wrong_arguments_are_told() {
    let (_emulator, _client, node) = queue().await;
    let reply = node.call("make-coffee", Map::new()).await;
    assert_eq!(reply.status, 501);
    assert_eq!(reply.condition.unwrap(), *"amqp:not-implemented");
    for (body, text) in [
        (
            Map::new(),
            "The request lacks 'from-sequence-number', a whole number.",
        ),
        (
            Map::new().with("from-sequence-number", "one"),
            "'from-sequence-number' in the request is not a whole number.",
        ),
    ] {
        let reply = node.call("peek-message", body).await;
        assert_eq!(reply.status, 400);
        assert_eq!(reply.condition.unwrap(), *"com.microsoft:argument-error");
        assert!(reply.description.starts_with(text), "{}", reply.description);
    }
    let body = Map::new()
        .with("from-sequence-number", 0_i64)
        .with("message-count", -1);
    let reply = node.call("peek-message", body).await;
    assert_eq!(
        reply.condition.unwrap(),
        *"com.microsoft:argument-out-of-range"
    );
}

#[tokio::test]
async fn peek_goes_through_all_states_in_order() {
    let (_emulator, client, node) = queue().await;
    let sender = client.sender("q1").await;
    for text in ["deferred", "locked", "active"] {
        send(&sender, &message(text)).await;
    }
    let receiver = client.receiver("q1", 2).await;
    defer(&receiver).await;
    within(receiver.recv()).await.unwrap();
    let later = scheduled("scheduled", START_MILLIS + 60_000);
    let body_of_schedule = Map::new().with("messages", vec![later]);
    node.call("schedule-message", body_of_schedule).await;

    let peek = |from: i64, count: i32| {
        Map::new()
            .with("from-sequence-number", from)
            .with("message-count", count)
    };
    let reply = node.call("peek-message", peek(0, 10)).await;
    assert_eq!(reply.status, 200);
    let peeked: Vec<_> = messages(&reply).iter().map(body).collect();
    assert_eq!(peeked, ["deferred", "locked", "active", "scheduled"]);
    let states: Vec<_> = messages(&reply)
        .iter()
        .map(|message| {
            let annotations = message.message_annotations.as_ref().unwrap();
            annotations.get("x-opt-message-state").unwrap()
        })
        .collect();
    assert_eq!(
        states,
        [Some(1), None, None, Some(2)].map(|state| state.map(Value::Int))
    );
    let reply = node.call("peek-message", peek(3, 1)).await;
    assert_eq!(body(&messages(&reply)[0]), "active");
    let reply = node.call("peek-message", peek(99, 1)).await;
    assert_eq!(reply.status, 204);
    let body = peek(3, 1).with("omit-message-body", true);
    let reply = node.call("peek-message", body).await;
    assert_eq!(messages(&reply)[0].body, Body::Empty);
}

#[tokio::test]
async fn a_lock_is_renewed_from_now() {
    let (emulator, client, node) = queue().await;
    send(&client.sender("q1").await, &message("1")).await;
    let receiver = client.receiver("q1", 1).await;
    let delivery = within(receiver.recv()).await.unwrap();
    emulator.advance(secs(50)).await.unwrap();
    let tokens = || Map::new().with("lock-tokens", array(vec![token(&delivery)]));
    let reply = node.call("renew-lock", tokens()).await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.get("expirations"),
        &array(vec![at(START_MILLIS + 110_000)])
    );
    emulator.advance(secs(59)).await.unwrap();
    assert_eq!(node.call("renew-lock", tokens()).await.status, 200);
    emulator.advance(secs(60)).await.unwrap();
    let reply = node.call("renew-lock", tokens()).await;
    assert_eq!(reply.status, 410);
    assert_eq!(reply.condition.unwrap(), *"com.microsoft:message-lock-lost");
}

#[tokio::test]
async fn messages_are_settled_by_token() {
    for (status, active, deferred, dead) in [
        ("completed", 0, 0, 0),
        ("abandoned", 1, 0, 0),
        ("defered", 0, 1, 0),
        ("suspended", 0, 0, 1),
    ] {
        let (emulator, client, node) = queue().await;
        send(&client.sender("q1").await, &message("1")).await;
        let receiver = client.receiver("q1", 1).await;
        let delivery = within(receiver.recv()).await.unwrap();
        let request = Map::new()
            .with("disposition-status", status)
            .with("lock-tokens", array(vec![token(&delivery)]));
        let reply = node.call("update-disposition", request.clone()).await;
        assert_eq!(reply.status, 200, "{status}");
        let queue = emulator.default_namespace().entity("q1");
        let counts = queue.counts().unwrap();
        assert_eq!(
            (counts.active, counts.deferred, counts.dead_letter),
            (active, deferred, dead),
            "{status}"
        );
        let reply = node.call("update-disposition", request).await;
        assert_eq!(reply.status, 410, "{status}");
        // On the link, too, the lock is gone.
        let error = rejection(settle(&receiver, &delivery, DeliveryState::ACCEPTED).await);
        assert_eq!(error.condition, *"com.microsoft:message-lock-lost");
    }
}

#[tokio::test]
async fn scheduled_messages_come_in_time_or_are_cancelled() {
    let (emulator, client, node) = queue().await;
    let due = START_MILLIS + 60_000;
    let body = Map::new().with("messages", vec![scheduled("a", due), scheduled("b", due)]);
    let reply = node.call("schedule-message", body).await;
    assert_eq!(reply.get("sequence-numbers"), &numbers([1, 2]));
    let cancel = || Map::new().with("sequence-numbers", numbers([2]));
    let reply = node.call("cancel-scheduled-message", cancel()).await;
    assert_eq!(reply.status, 200);
    let reply = node.call("cancel-scheduled-message", cancel()).await;
    assert_eq!(reply.status, 404);
    assert_eq!(reply.condition.unwrap(), *"com.microsoft:message-not-found");

    let receiver = client.receiver("q1", 10).await;
    emulator.advance(secs(59)).await.unwrap();
    assert!(receiver.try_recv().is_none());
    emulator.advance(secs(1)).await.unwrap();
    let delivery = within(receiver.recv()).await.unwrap();
    assert_eq!(text(&delivery), "a");
    // A number of its own, and the time of its arrival.
    assert_eq!(
        annotation(&delivery, "x-opt-sequence-number"),
        Some(Value::Long(3))
    );
    assert_eq!(annotation(&delivery, "x-opt-enqueued-time"), Some(at(due)));
}

#[tokio::test]
async fn deferred_messages_are_received_by_number() {
    let (_emulator, client, node) = queue().await;
    let sender = client.sender("q1").await;
    for text in ["a", "b"] {
        send(&sender, &message(text)).await;
    }
    let receiver = client.receiver("q1", 2).await;
    let (first, second) = (defer(&receiver).await, defer(&receiver).await);
    let request = |number: i64, mode: u32| {
        Map::new()
            .with("sequence-numbers", numbers([number]))
            .with("receiver-settle-mode", mode)
    };
    let reply = node
        .call("receive-by-sequence-number", request(first, 1))
        .await;
    assert_eq!(reply.status, 200);
    let received = messages(&reply);
    assert_eq!(body(&received[0]), "a");
    assert_eq!(received[0].header.as_ref().unwrap().delivery_count, Some(1));
    let Value::List(list) = reply.get("messages") else {
        panic!("messages is no list");
    };
    let token = list[0].as_map().unwrap().get("lock-token").unwrap().clone();
    assert!(token.as_uuid().is_some());
    let reply = node
        .call("receive-by-sequence-number", request(first, 1))
        .await;
    assert_eq!(reply.status, 404, "it is locked");
    // Sent back as it came, not turned around.
    let settle = Map::new()
        .with("disposition-status", "completed")
        .with("lock-tokens", array(vec![token]));
    assert_eq!(node.call("update-disposition", settle).await.status, 200);

    let reply = node
        .call("receive-by-sequence-number", request(second, 0))
        .await;
    assert_eq!(body(&messages(&reply)[0]), "b");
    let reply = node
        .call("receive-by-sequence-number", request(second, 0))
        .await;
    assert_eq!(reply.condition.unwrap(), *"com.microsoft:message-not-found");
}

#[tokio::test]
async fn sessions_have_state_and_are_listed() {
    let emulator = emulator().await;
    let options = QueueOptions {
        requires_session: true,
        ..QueueOptions::default()
    };
    emulator
        .default_namespace()
        .create_queue("q1", options)
        .unwrap();
    let client = Client::connect(&emulator).await;
    let node = client.node("q1/$management").await;
    let session = || Map::new().with("session-id", "a");
    let list = |time: i64| {
        Map::new()
            .with("last-updated-time", Timestamp::from_millis(time))
            .with("skip", 0)
            .with("top", 100)
    };
    const EVER: i64 = 253_402_300_800_000;
    let reply = node.call("get-message-sessions", list(EVER)).await;
    assert_eq!(reply.status, 204);
    assert_eq!(reply.condition.unwrap(), *"com.microsoft:session-not-found");
    let reply = node.call("get-session-state", session()).await;
    assert_eq!(reply.status, 410, "nobody holds the session");

    let _holder = client
        .attach_receiver(session_filter("q1", "a", 0))
        .await
        .unwrap();
    let reply = node.call("get-session-state", session()).await;
    assert_eq!(reply.get("session-state"), &Value::Null);
    let state = Bytes::from_static(b"state");
    let set = session().with("session-state", state.clone());
    assert_eq!(node.call("set-session-state", set).await.status, 200);
    let reply = node.call("get-session-state", session()).await;
    assert_eq!(reply.get("session-state"), &Value::Binary(state));
    send(&client.sender("q1").await, &session_message("b", "1")).await;

    let reply = node.call("get-message-sessions", list(EVER)).await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.get("sessions-ids"),
        &array(vec!["a".into(), "b".into()])
    );
    assert_eq!(reply.get("skip"), &Value::Int(2));
    let reply = node
        .call("get-message-sessions", list(START_MILLIS - 1))
        .await;
    assert_eq!(reply.get("sessions-ids"), &array(vec!["a".into()]));

    emulator.advance(secs(10)).await.unwrap();
    let reply = node.call("renew-session-lock", session()).await;
    assert_eq!(reply.get("expiration"), &at(START_MILLIS + 70_000));
    let clear = session().with("session-state", Value::Null);
    assert_eq!(node.call("set-session-state", clear).await.status, 200);
    let reply = node.call("get-session-state", session()).await;
    assert_eq!(reply.get("session-state"), &Value::Null);
}

#[tokio::test]
async fn many_messages_are_deleted_at_once() {
    let (emulator, client, node) = queue().await;
    let sender = client.sender("q1").await;
    for text in ["locked", "a", "b", "c"] {
        send(&sender, &message(text)).await;
    }
    let receiver = client.receiver("q1", 1).await;
    within(receiver.recv()).await.unwrap();
    let request = |count: i32| Map::new().with("message-count", count);
    let reply = node.call("batch-delete-messages", request(2)).await;
    assert_eq!(reply.get("message-count"), &Value::Int(2));
    let before = request(10).with("enqueued-time-utc", at(START_MILLIS - 1));
    assert_eq!(node.call("batch-delete-messages", before).await.status, 204);
    let reply = node.call("batch-delete-messages", request(10)).await;
    assert_eq!(reply.get("message-count"), &Value::Int(1));
    let queue = emulator.default_namespace().entity("q1");
    assert_eq!(queue.counts().unwrap().active, 1);
}

fn described(code: u64, fields: Vec<Value>) -> Value {
    Value::Described(Box::new(Described {
        descriptor: Descriptor::Code(code),
        value: Value::List(fields),
    }))
}

#[tokio::test]
async fn rules_are_added_listed_and_removed() {
    let emulator = emulator().await;
    let namespace = emulator.default_namespace();
    namespace
        .create_topic("t1", TopicOptions::default())
        .unwrap();
    namespace
        .create_subscription("t1", "s1", SubscriptionOptions::default())
        .unwrap();
    let client = Client::connect(&emulator).await;
    let node = client.node("t1/Subscriptions/s1/$management").await;

    let correlation = Map::new().with(
        "correlation-filter",
        Map::new()
            .with("label", "red")
            .with("to", Value::Null)
            .with("properties", Map::new().with("size", 5)),
    );
    let sql = Map::new()
        .with("sql-filter", Map::new().with("expression", "size > 10"))
        .with(
            "sql-rule-action",
            Map::new().with("expression", "SET big = TRUE"),
        );
    let add = |name: &str, rule: Map| {
        Map::new()
            .with("rule-name", name)
            .with("rule-description", rule)
    };
    assert_eq!(
        node.call("add-rule", add("red", correlation)).await.status,
        200
    );
    assert_eq!(
        node.call("add-rule", add("big", sql.clone())).await.status,
        200
    );
    let reply = node.call("add-rule", add("big", sql)).await;
    assert_eq!(reply.status, 409);
    assert_eq!(
        reply.condition.unwrap(),
        *"com.microsoft:entity-already-exists"
    );
    let wrong = Map::new().with("sql-filter", Map::new().with("expression", "size >"));
    let reply = node.call("add-rule", add("wrong", wrong)).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.condition.unwrap(), *"com.microsoft:argument-error");
    assert!(
        reply.description.contains("character 7"),
        "{}",
        reply.description
    );

    let remove = || Map::new().with("rule-name", "$Default");
    assert_eq!(node.call("remove-rule", remove()).await.status, 200);
    let reply = node.call("remove-rule", remove()).await;
    assert_eq!(reply.status, 404);
    // The condition that SDKs know.
    assert_eq!(reply.condition.unwrap(), *"amqp:not-found");

    let list = |skip: i32, top: i32| Map::new().with("skip", skip).with("top", top);
    let reply = node.call("enumerate-rules", list(0, 100)).await;
    let Value::List(rules) = reply.get("rules") else {
        panic!("rules is no list");
    };
    let rules: Vec<_> = rules
        .iter()
        .map(|rule| rule.as_map().unwrap().get("rule-description").unwrap())
        .collect();
    let null = || Value::Null;
    assert_eq!(
        rules,
        [
            &described(
                0x137_0000_0004,
                vec![
                    described(
                        0x13_7000_0009,
                        vec![
                            null(),
                            null(),
                            null(),
                            null(),
                            "red".into(),
                            null(),
                            null(),
                            null(),
                            Map::new().with("size", 5).into()
                        ]
                    ),
                    described(0x137_0000_0005, vec![]),
                    "red".into(),
                    at(START_MILLIS)
                ]
            ),
            &described(
                0x137_0000_0004,
                vec![
                    described(0x13_7000_0006, vec!["size > 10".into(), 20.into()]),
                    described(0x137_0000_0006, vec!["SET big = TRUE".into(), 20.into()]),
                    "big".into(),
                    at(START_MILLIS)
                ]
            ),
        ]
    );
    let reply = node.call("enumerate-rules", list(2, 100)).await;
    assert_eq!(reply.status, 204);
}

/// Replies that nobody gives credit for are not kept without end.
#[tokio::test]
async fn replies_that_wait_for_credit_are_bounded() {
    let (_emulator, client, _) = queue().await;
    let session = client.connection.begin(Default::default()).await.unwrap();
    let options = LinkOptions::new(Source::new("client"), Target::new("q1/$management"));
    let requests = session.attach_sender("r", options, SOON).await.unwrap();
    let options = LinkOptions::new(Source::new("q1/$management"), Target::new("me"));
    let _replies = session
        .attach_receiver("replies", options, SOON)
        .await
        .unwrap();
    let mut refused = 0;
    for _ in 0..1010 {
        let delivery = OutgoingDelivery::new(encode(&message("")));
        if requests.send(delivery).await.unwrap() != Some(DeliveryState::ACCEPTED) {
            refused += 1;
        }
    }
    assert_eq!(refused, 10);
}
