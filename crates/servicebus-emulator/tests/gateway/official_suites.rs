//! What the official SDKs' own tests expect of the service, and no document says.

use crate::common::*;
use servicebus_amqp::types::{Map, MessageId, Symbol, Value};
use servicebus_emulator::broker::QueueOptions;

/// The Python SDK compares the lock token with the one among the delivery annotations, and those it sent itself with those
/// it receives.
#[tokio::test]
async fn deliveries_have_annotations_of_the_sender_and_the_lock() {
    let emulator = emulator().await;
    let namespace = emulator.default_namespace();
    namespace
        .create_queue("q1", QueueOptions::default())
        .unwrap();
    let client = Client::connect(&emulator).await;
    let mut annotated = message("hello");
    let of_sender = Map::new()
        .with(Symbol::from_static("hop"), 3_i32)
        // Only the broker's own counts.
        .with(Symbol::from_static("x-opt-lock-token"), "mine");
    annotated.delivery_annotations = Some(of_sender.into());
    let sender = client.sender("q1").await;
    send(&sender, &annotated).await;
    send(&sender, &message("plain")).await;

    let receiver = client.receiver("q1", 1).await;
    let delivery = within(receiver.recv()).await.unwrap();
    let annotations = decode(&delivery).delivery_annotations.unwrap();
    let annotations = annotations.decode().unwrap();
    assert_eq!(annotations.get("hop"), Some(&Value::Int(3)));
    let Some(Value::Uuid(token)) = annotations.get("x-opt-lock-token") else {
        panic!("no lock token in {annotations:?}");
    };
    assert_eq!(token.to_bytes_le()[..], delivery.tag[..]);
    complete(&receiver, &delivery).await;

    let receiver = client
        .attach_receiver(receive_and_delete("q1", 1))
        .await
        .unwrap();
    let delivery = within(receiver.recv()).await.unwrap();
    let annotations = decode(&delivery).delivery_annotations.unwrap();
    assert_eq!(annotations.decode().unwrap(), Map::new());
}

/// Both SDKs tell "the entity is not there" by the status of `put-token`.
#[tokio::test]
async fn a_token_for_an_entity_that_is_not_there_is_answered_not_found() {
    let emulator = emulator().await;
    let namespace = emulator.default_namespace();
    namespace
        .create_queue("q1", QueueOptions::default())
        .unwrap();
    let client = Client::connect(&emulator).await;
    let cbs = client.node("$cbs").await;
    for (audience, status) in [
        ("sb://localhost/q1", 202),
        ("sb://localhost/q1/$management", 202),
        ("sb://localhost/q1/$DeadLetterQueue", 202),
        ("sb://localhost/", 202),
        ("sb://localhost/nowhere", 404),
    ] {
        let properties = Map::new()
            .with("operation", "put-token")
            .with("type", "jwt")
            .with("name", audience);
        let id = MessageId::String(unique("token"));
        let reply = cbs
            .exchange(id, properties, Value::from("header.claims.signature"))
            .await;
        let reply = read_reply(
            reply,
            "status-code",
            "error-condition",
            "status-description",
        );
        assert_eq!(reply.status, status, "{audience}");
        if status == 404 {
            assert_eq!(reply.condition, Some(Symbol::from_static("amqp:not-found")));
            assert!(
                reply.description.contains("could not be found"),
                "{}",
                reply.description
            );
        }
    }
}

/// The Python SDK waits on such a link for as long as the lock lasts, and expects the link to be there still.
#[tokio::test]
async fn a_session_that_is_received_and_deleted_stays_with_its_link() {
    let emulator = emulator().await;
    let options = QueueOptions {
        requires_session: true,
        lock_duration: secs(5),
        ..QueueOptions::default()
    };
    let namespace = emulator.default_namespace();
    namespace.create_queue("q1", options).unwrap();
    let client = Client::connect(&emulator).await;
    let mut options = session_filter("q1", "red", 10);
    let deleting = receive_and_delete("q1", 10);
    options.snd_settle_mode = deleting.snd_settle_mode;
    options.rcv_settle_mode = deleting.rcv_settle_mode;
    let receiver = client.attach_receiver(options).await.unwrap();

    emulator.advance(secs(60)).await.unwrap();
    send(&client.sender("q1").await, &session_message("red", "late")).await;
    let delivery = within(receiver.recv()).await.unwrap();
    assert_eq!(text(&delivery), "late");
}
