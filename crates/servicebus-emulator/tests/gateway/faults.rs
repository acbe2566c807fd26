//! What goes wrong on order.

use std::time::Duration;

use crate::common::*;
use servicebus_amqp::engine::{
    Config, ConnectionError, Credentials, LinkError, OutgoingDelivery, Sasl, Side,
};
use servicebus_amqp::net::Connection;
use servicebus_amqp::types::{
    Body, DeliveryState, Map, Message, MessageId, Properties, SaslCode, Value,
};
use servicebus_emulator::broker::{EventKind, QueueOptions, SettlementKind};
use servicebus_emulator::{Answered, Emulator, Entity, Failure, Fault, Operated, SaslFailure};

async fn queue() -> (Emulator, Client, Entity) {
    let emulator = emulator().await;
    let queue = emulator
        .default_namespace()
        .create_queue("q1", QueueOptions::default())
        .unwrap();
    let client = Client::connect(&emulator).await;
    (emulator, client, queue)
}

fn order(emulator: &Emulator, fault: Fault) {
    emulator.default_namespace().order(fault).unwrap();
}

fn q1() -> String {
    "q1".into()
}

#[tokio::test]
async fn the_service_is_busy_as_often_as_ordered() {
    let (emulator, client, _) = queue().await;
    let sender = client.sender("q1").await;
    order(
        &emulator,
        Fault::Fail {
            entity: q1(),
            operation: Operated::Send,
            error: Failure::ServerBusy,
            times: 2,
        },
    );
    for _ in 0..2 {
        let error = send_refused(&sender, &message("1")).await;
        assert_eq!(error.condition, *"com.microsoft:server-busy");
    }
    send(&sender, &message("1")).await;
}

/// The sender does not know, and the message is there: what a repeated send makes a duplicate of.
#[tokio::test]
async fn the_answer_to_a_send_is_lost() {
    for applied in [true, false] {
        let (emulator, client, queue) = queue().await;
        let sender = client.sender("q1").await;
        order(
            &emulator,
            Fault::LoseAnswer {
                entity: q1(),
                operation: Answered::Send,
                applied,
                times: 1,
            },
        );
        let lost = sender
            .queue(OutgoingDelivery::new(encode(&message("1"))))
            .await
            .unwrap();
        send(&sender, &message("2")).await;
        let unanswered = futures_util::FutureExt::now_or_never(lost).is_none();
        assert!(unanswered);
        let expected = if applied { 2 } else { 1 };
        assert_eq!(queue.counts().unwrap().active, expected);
    }
}

#[tokio::test]
async fn the_answer_to_a_settlement_is_lost() {
    for applied in [true, false] {
        let (emulator, client, queue) = queue().await;
        send(&client.sender("q1").await, &message("1")).await;
        let receiver = client.receiver("q1", 1).await;
        let delivery = within(receiver.recv()).await.unwrap();
        order(
            &emulator,
            Fault::LoseAnswer {
                entity: q1(),
                operation: Answered::Settle,
                applied,
                times: 1,
            },
        );
        let mut answer = std::pin::pin!(
            receiver
                .settle_confirmed(delivery.delivery, DeliveryState::ACCEPTED)
                .unwrap()
        );
        // Something that is answered after it.
        within(receiver.drain()).await.unwrap();
        assert!(futures_util::FutureExt::now_or_never(answer.as_mut()).is_none());
        let left = if applied { 0 } else { 1 };
        assert_eq!(queue.counts().unwrap().active, left);
    }
}

#[tokio::test]
async fn an_answer_comes_late() {
    let (emulator, client, queue) = queue().await;
    let sender = client.sender("q1").await;
    order(
        &emulator,
        Fault::Delay {
            entity: q1(),
            operation: Answered::Send,
            millis: 5000,
            times: 1,
        },
    );
    let mut late = std::pin::pin!(
        sender
            .queue(OutgoingDelivery::new(encode(&message("1"))))
            .await
            .unwrap()
    );
    queue
        .wait_until(|queue| queue.counts.active == 1, SOON)
        .await
        .unwrap();
    emulator.advance(Duration::from_millis(4999)).await.unwrap();
    assert!(futures_util::FutureExt::now_or_never(late.as_mut()).is_none());
    emulator.advance(Duration::from_millis(1)).await.unwrap();
    assert_eq!(within(late).await.unwrap(), Some(DeliveryState::ACCEPTED));
}

#[tokio::test]
async fn links_are_detached_with_a_condition() {
    let (emulator, client, _) = queue().await;
    let (sender, receiver) = (client.sender("q1").await, client.receiver("q1", 1).await);
    order(
        &emulator,
        Fault::Detach {
            entity: q1(),
            error: Failure::DetachForced,
        },
    );
    for error in [within(sender.ended()).await, within(receiver.ended()).await] {
        assert_eq!(link_error(error).condition, *"amqp:link:detach-forced");
    }
    send(&client.sender("q1").await, &message("1")).await;
}

#[tokio::test]
async fn connections_are_closed_with_a_condition() {
    let (emulator, client, _) = queue().await;
    order(
        &emulator,
        Fault::Close {
            connection: None,
            condition: "amqp:connection:forced".into(),
            description: "upgrade".into(),
        },
    );
    match within(client.connection.closed()).await {
        ConnectionError::ClosedByPeer(Some(error)) => {
            assert_eq!(error.condition, *"amqp:connection:forced");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_connection_is_dropped_and_others_live() {
    let (emulator, client, _) = queue().await;
    let other = Client::connect(&emulator).await;
    let first = emulator.connections()[0];
    order(
        &emulator,
        Fault::Drop {
            connection: Some(first),
        },
    );
    let error = within(client.connection.closed()).await;
    assert!(
        matches!(error, ConnectionError::Lost | ConnectionError::Io(_)),
        "{error:?}"
    );
    send(&other.sender("q1").await, &message("1")).await;
}

/// Nothing comes any more, and nobody says so.
#[tokio::test]
async fn a_half_open_connection_is_silent() {
    let (emulator, client, queue) = queue().await;
    let sender = client.sender("q1").await;
    order(&emulator, Fault::HalfOpen { connection: None });
    let delivery = OutgoingDelivery::new(encode(&message("1")));
    let mut lost = std::pin::pin!(sender.queue(delivery).await.unwrap());
    // Another connection shows that the emulator has had its turn.
    let other = Client::connect(&emulator).await;
    send(&other.sender("q1").await, &message("2")).await;
    assert!(futures_util::FutureExt::now_or_never(lost.as_mut()).is_none());
    assert!(client.connection.error().is_none());
    assert_eq!(queue.counts().unwrap().active, 1);
}

#[tokio::test]
async fn bytes_come_one_by_one() {
    let (emulator, _, _) = queue().await;
    order(&emulator, Fault::Chop { bytes: 1 });
    let client = Client::connect(&emulator).await;
    let sender = client.sender("q1").await;
    let large = "x".repeat(100_000);
    send(&sender, &message(&large)).await;
    let receiver = client.receiver("q1", 1).await;
    let delivery = within(receiver.recv()).await.unwrap();
    assert_eq!(text(&delivery), large);
    complete(&receiver, &delivery).await;
}

#[tokio::test]
async fn a_lock_ends_now() {
    let (emulator, client, _) = queue().await;
    send(&client.sender("q1").await, &message("1")).await;
    let receiver = client.receiver("q1", 2).await;
    let delivery = within(receiver.recv()).await.unwrap();
    order(
        &emulator,
        Fault::ExpireLock {
            entity: q1(),
            sequence_number: 1,
        },
    );
    let error = rejection(settle(&receiver, &delivery, DeliveryState::ACCEPTED).await);
    assert_eq!(error.condition, *"com.microsoft:message-lock-lost");
    let again = within(receiver.recv()).await.unwrap();
    assert_eq!(delivery_count(&again), 1);
}

#[tokio::test]
async fn a_message_comes_twice() {
    let (emulator, client, _) = queue().await;
    send(&client.sender("q1").await, &message("1")).await;
    order(
        &emulator,
        Fault::Duplicate {
            entity: q1(),
            sequence_number: 1,
        },
    );
    let receiver = client.receiver("q1", 2).await;
    for number in [1, 2] {
        let delivery = within(receiver.recv()).await.unwrap();
        assert_eq!(text(&delivery), "1");
        assert_eq!(
            annotation(&delivery, "x-opt-sequence-number"),
            Some(Value::Long(number))
        );
    }
}

#[tokio::test]
async fn a_deleted_entity_detaches_its_links() {
    let (_emulator, client, queue) = queue().await;
    let (sender, receiver) = (client.sender("q1").await, client.receiver("q1", 1).await);
    queue.delete().unwrap();
    for error in [within(sender.ended()).await, within(receiver.ended()).await] {
        assert!(matches!(
            error,
            LinkError::DetachedByPeer { error: Some(_), .. }
        ));
    }
}

#[tokio::test]
async fn events_tell_what_happened() {
    let (emulator, client, _) = queue().await;
    let mut events = emulator.default_namespace().events();
    send(&client.sender("q1").await, &message("1")).await;
    let receiver = client.receiver("q1", 1).await;
    let delivery = within(receiver.recv()).await.unwrap();
    complete(&receiver, &delivery).await;
    let mut kinds = Vec::new();
    while let Some(event) = events.try_next().unwrap() {
        assert_eq!(&*event.entity, "q1");
        kinds.push(event.kind);
    }
    assert!(
        matches!(
            kinds[..],
            [
                EventKind::Enqueued {
                    sequence_number: 1,
                    ..
                },
                EventKind::Locked {
                    sequence_number: 1,
                    ..
                },
                EventKind::Settled {
                    sequence_number: 1,
                    settlement: SettlementKind::Completed
                }
            ]
        ),
        "{kinds:?}"
    );
}

/// Faults are data: tests in other languages send them as JSON.
#[test]
fn faults_are_read_from_json() {
    for (json, expected) in [
        (
            r#"{"fault": "fail", "entity": "q1", "operation": "send", "error": "server-busy", "times": 2}"#,
            Fault::Fail {
                entity: q1(),
                operation: Operated::Send,
                error: Failure::ServerBusy,
                times: 2,
            },
        ),
        (r#"{"fault": "drop"}"#, Fault::Drop { connection: None }),
        (
            r#"{"fault": "lose-answer", "entity": "q1", "operation": "settle", "applied": true, "times": 1}"#,
            Fault::LoseAnswer {
                entity: q1(),
                operation: Answered::Settle,
                applied: true,
                times: 1,
            },
        ),
        (
            r#"{"fault": "expire-lock", "entity": "q1", "sequence-number": 7}"#,
            Fault::ExpireLock {
                entity: q1(),
                sequence_number: 7,
            },
        ),
        (
            r#"{"fault": "reverse", "entity": "q1", "operation": "manage", "count": 3}"#,
            Fault::Reverse {
                entity: q1(),
                operation: Answered::Manage,
                count: 3,
            },
        ),
        (
            r#"{"fault": "refuse-open", "condition": "amqp:not-allowed", "times": 1}"#,
            Fault::RefuseOpen {
                condition: "amqp:not-allowed".into(),
                description: String::new(),
                times: 1,
            },
        ),
        (
            r#"{"fault": "refuse-sasl", "code": "sys-temp", "times": 2}"#,
            Fault::RefuseSasl {
                code: SaslFailure::SysTemp,
                times: 2,
            },
        ),
        (
            r#"{"fault": "steal-session", "entity": "q1", "session": "a"}"#,
            Fault::StealSession {
                entity: q1(),
                session: "a".into(),
            },
        ),
        (
            r#"{"fault": "dead-letter", "entity": "q1", "sequence-number": 7, "reason": "Poison"}"#,
            Fault::DeadLetter {
                entity: q1(),
                sequence_number: 7,
                reason: "Poison".into(),
                description: String::new(),
            },
        ),
    ] {
        assert_eq!(serde_json::from_str::<Fault>(json).unwrap(), expected);
    }
    let error = serde_json::from_str::<Fault>(r#"{"fault": "drop", "conection": 1}"#);
    assert!(error.unwrap_err().to_string().contains("conection"));
}

#[tokio::test]
async fn answers_come_in_reverse_order() {
    let (emulator, client, queue) = queue().await;
    let sender = client.sender("q1").await;
    order(
        &emulator,
        Fault::Reverse {
            entity: q1(),
            operation: Answered::Send,
            count: 2,
        },
    );
    let delivery = |text| OutgoingDelivery::new(encode(&message(text)));
    let mut first = std::pin::pin!(sender.queue(delivery("1")).await.unwrap());
    queue
        .wait_until(|queue| queue.counts.active == 1, SOON)
        .await
        .unwrap();
    assert!(futures_util::FutureExt::now_or_never(first.as_mut()).is_none());
    let second = std::pin::pin!(sender.queue(delivery("2")).await.unwrap());
    let both = futures_util::future::select(second, first);
    match within(both).await {
        futures_util::future::Either::Left((state, first)) => {
            assert_eq!(state.unwrap(), Some(DeliveryState::ACCEPTED));
            assert_eq!(within(first).await.unwrap(), Some(DeliveryState::ACCEPTED));
        }
        futures_util::future::Either::Right(_) => panic!("the first answer came first"),
    }
    send(&sender, &message("3")).await;
}

#[tokio::test]
async fn replies_of_management_are_late_lost_or_in_reverse_order() {
    let (emulator, client, queue) = queue().await;
    send(&client.sender("q1").await, &message("1")).await;
    let node = client.node("q1/$management").await;
    let peek = |id: &'static str, from: i64| {
        let request = Message {
            properties: Some(Properties {
                message_id: Some(MessageId::String(id.into())),
                reply_to: Some(node.reply_to.clone()),
                ..Properties::default()
            }),
            application_properties: Some(
                Map::new()
                    .with("operation", "com.microsoft:peek-message")
                    .into(),
            ),
            body: Body::Value(Value::Map(
                Map::new()
                    .with("from-sequence-number", from)
                    .with("message-count", 1),
            )),
            ..Message::default()
        };
        node.requests.send(OutgoingDelivery::new(encode(&request)))
    };
    let reply = async || {
        let delivery = within(node.replies.recv()).await.unwrap();
        decode(&delivery)
            .properties
            .unwrap()
            .correlation_id
            .unwrap()
    };
    let interfere = |fault: fn(String) -> Fault| order(&emulator, fault(q1()));

    interfere(|entity| Fault::Delay {
        entity,
        operation: Answered::Manage,
        millis: 5000,
        times: 1,
    });
    peek("late", 0).await.unwrap();
    emulator.advance(Duration::from_millis(4999)).await.unwrap();
    assert!(node.replies.try_recv().is_none());
    emulator.advance(Duration::from_millis(1)).await.unwrap();
    assert_eq!(reply().await, MessageId::String("late".into()));

    interfere(|entity| Fault::LoseAnswer {
        entity,
        operation: Answered::Manage,
        applied: true,
        times: 1,
    });
    peek("lost", 0).await.unwrap();
    interfere(|entity| Fault::Reverse {
        entity,
        operation: Answered::Manage,
        count: 3,
    });
    for id in ["a", "b", "c", "d"] {
        peek(id, 0).await.unwrap();
    }
    for id in ["c", "b", "a", "d"] {
        assert_eq!(reply().await, MessageId::String(id.into()));
    }
    assert_eq!(queue.counts().unwrap().active, 1);
}

#[tokio::test]
async fn a_connection_is_refused() {
    let (emulator, _, _) = queue().await;
    order(
        &emulator,
        Fault::RefuseOpen {
            condition: "amqp:connection:forced".into(),
            description: "full".into(),
            times: 1,
        },
    );
    let mut config = Config::new("test");
    config.sasl = Sasl::Client(vec![Credentials::Anonymous]);
    let refused = Connection::over(emulator.connect(), Side::Client, config);
    match within(refused.closed()).await {
        ConnectionError::ClosedByPeer(Some(error)) => {
            assert_eq!(error.condition, *"amqp:connection:forced");
            assert_eq!(error.description.as_deref(), Some("full"));
        }
        other => panic!("{other:?}"),
    }
    Client::connect(&emulator).await;
}

#[tokio::test]
async fn clients_are_refused_whatever_their_mechanism() {
    let (emulator, _, _) = queue().await;
    for credentials in [Credentials::Anonymous, Credentials::Mssbcbs] {
        let code = SaslFailure::SysPerm;
        order(&emulator, Fault::RefuseSasl { code, times: 1 });
        let mut config = Config::new("test");
        config.sasl = Sasl::Client(vec![credentials]);
        let refused = Connection::over(emulator.connect(), Side::Client, config);
        match within(refused.closed()).await {
            ConnectionError::Authentication(SaslCode::SysPerm) => {}
            other => panic!("{other:?}"),
        }
        Client::connect(&emulator).await;
    }
}

#[tokio::test]
async fn a_session_is_stolen() {
    let (emulator, client, _) = queue().await;
    emulator
        .default_namespace()
        .create_queue(
            "s",
            QueueOptions {
                requires_session: true,
                ..QueueOptions::default()
            },
        )
        .unwrap();
    send(&client.sender("s").await, &session_message("a", "1")).await;
    let receiver = client
        .attach_receiver(session_filter("s", "a", 1))
        .await
        .unwrap();
    within(receiver.recv()).await.unwrap();
    order(
        &emulator,
        Fault::StealSession {
            entity: "s".into(),
            session: "a".into(),
        },
    );
    let error = link_error(within(receiver.ended()).await);
    assert_eq!(error.condition, *"com.microsoft:session-lock-lost");
    let refused = client.attach_receiver(session_filter("s", "a", 1)).await;
    let error = link_error(refused.err().unwrap());
    assert_eq!(error.condition, *"com.microsoft:session-cannot-be-locked");
    emulator.advance(secs(60)).await.unwrap();
    let again = client
        .attach_receiver(session_filter("s", "a", 1))
        .await
        .unwrap();
    assert_eq!(text(&within(again.recv()).await.unwrap()), "1");
}

#[tokio::test]
async fn a_message_is_dead_lettered() {
    let (emulator, client, queue) = queue().await;
    let sender = client.sender("q1").await;
    send(&sender, &message("1")).await;
    send(&sender, &message("2")).await;
    let receiver = client.receiver("q1", 1).await;
    let locked = within(receiver.recv()).await.unwrap();
    for sequence_number in [1, 2] {
        order(
            &emulator,
            Fault::DeadLetter {
                entity: q1(),
                sequence_number,
                reason: "Poison".into(),
                description: "on order".into(),
            },
        );
    }
    let counts = queue.counts().unwrap();
    assert_eq!((counts.active, counts.dead_letter), (0, 2));
    let error = rejection(settle(&receiver, &locked, DeliveryState::ACCEPTED).await);
    assert_eq!(error.condition, *"com.microsoft:message-lock-lost");
    let dead = client.receiver("q1/$DeadLetterQueue", 2).await;
    for expected in ["1", "2"] {
        let delivery = within(dead.recv()).await.unwrap();
        assert_eq!(text(&delivery), expected);
        assert_eq!(
            application_property(&delivery, "DeadLetterReason"),
            Some("Poison".into())
        );
    }
}
