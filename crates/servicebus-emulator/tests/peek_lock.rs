//! Receiving with locks: deliver, settle, expire.

mod common;

use common::*;
use servicebus_amqp::types::{DeliveryState, Value};
use servicebus_emulator::broker::QueueOptions;

#[tokio::test]
async fn a_message_is_sent_delivered_and_completed() {
    let emulator = emulator().await;
    let queue = emulator
        .default_namespace()
        .create_queue("q1", QueueOptions::default())
        .unwrap();
    let client = Client::connect(&emulator).await;
    let sender = client.sender("q1").await;
    send(&sender, &message("hello")).await;

    let receiver = client.receiver("q1", 1).await;
    let delivery = within(receiver.recv()).await.unwrap();
    assert_eq!(text(&delivery), "hello");
    assert_eq!(delivery.tag.len(), 16);
    assert!(!delivery.settled);
    assert_eq!(delivery_count(&delivery), 0);
    assert_eq!(
        annotation(&delivery, "x-opt-sequence-number"),
        Some(Value::Long(1))
    );
    assert_eq!(queue.counts().unwrap().active, 1);
    complete(&receiver, &delivery).await;
    assert_eq!(queue.counts().unwrap().active, 0);
}

/// B109
#[tokio::test]
async fn b109_a_lock_that_ran_out_is_lost() {
    let emulator = emulator().await;
    let options = QueueOptions {
        lock_duration: secs(5),
        ..QueueOptions::default()
    };
    let namespace = emulator.default_namespace();
    namespace.create_queue("q1", options).unwrap();
    let client = Client::connect(&emulator).await;
    send(&client.sender("q1").await, &message("hello")).await;
    let first = client.receiver("q1", 1).await;
    let late = within(first.recv()).await.unwrap();

    emulator.advance(secs(6)).await.unwrap();
    let error = rejection(settle(&first, &late, DeliveryState::ACCEPTED).await);
    assert_eq!(error.condition, *"com.microsoft:message-lock-lost");

    let second = client.receiver("q1", 1).await;
    let again = within(second.recv()).await.unwrap();
    assert_eq!(delivery_count(&again), 1);
    complete(&second, &again).await;
}
