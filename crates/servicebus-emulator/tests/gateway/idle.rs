//! Links and connections that do nothing.

use crate::common::*;
use servicebus_amqp::engine::ConnectionError;
use servicebus_emulator::broker::QueueOptions;
use servicebus_emulator::{Clock, Emulator, IdleTimes};

async fn queue() -> (Emulator, Client) {
    let start = std::time::UNIX_EPOCH + std::time::Duration::from_millis(START_MILLIS as u64);
    let emulator = Emulator::builder()
        .in_memory()
        .clock(Clock::manual(start))
        .idle_times(IdleTimes::service())
        .start()
        .await
        .unwrap();
    let options = QueueOptions {
        lock_duration: secs(300),
        ..QueueOptions::default()
    };
    emulator
        .default_namespace()
        .create_queue("q1", options)
        .unwrap();
    let client = Client::connect(&emulator).await;
    (emulator, client)
}

/// B107: also a receiver that waits with credit.
#[tokio::test]
async fn b107_an_idle_link_is_detached_after_ten_minutes() {
    let (emulator, client) = queue().await;
    let receiver = client.receiver("q1", 1).await;
    emulator.advance(secs(300)).await.unwrap();
    let sender = client.sender("q1").await;
    emulator.advance(secs(299)).await.unwrap();
    assert!(receiver.error().is_none());
    emulator.advance(secs(1)).await.unwrap();
    let error = link_error(within(receiver.ended()).await);
    assert_eq!(error.condition, *"amqp:link:detach-forced");

    send(&sender, &message("1")).await;
    emulator.advance(secs(599)).await.unwrap();
    assert!(sender.error().is_none());
    emulator.advance(secs(1)).await.unwrap();
    let error = link_error(within(sender.ended()).await);
    assert_eq!(error.condition, *"amqp:link:detach-forced");
}

/// B112: while messages are locked, the client is at work.
#[tokio::test]
async fn b112_a_link_with_locked_messages_is_not_idle() {
    let (emulator, client) = queue().await;
    send(&client.sender("q1").await, &message("1")).await;
    let receiver = client.receiver("q1", 1).await;
    let delivery = within(receiver.recv()).await.unwrap();
    let management = client.node("q1/$management").await;
    let tag: [u8; 16] = delivery.tag[..].try_into().unwrap();
    for _ in 0..5 {
        emulator.advance(secs(250)).await.unwrap();
        let token = servicebus_amqp::types::Uuid::from_bytes_le(tag);
        let tokens = servicebus_amqp::types::Array::new(vec![token.into()]).unwrap();
        let body = servicebus_amqp::types::Map::new().with("lock-tokens", tokens);
        assert_eq!(management.call("renew-lock", body).await.status, 200);
    }
    complete(&receiver, &delivery).await;
}

#[tokio::test]
async fn a_connection_without_links_is_closed_after_five_minutes() {
    let (emulator, client) = queue().await;
    let sender = client.sender("q1").await;
    emulator.advance(secs(400)).await.unwrap();
    assert!(client.connection.error().is_none());
    sender.detach(Default::default(), None).await;
    emulator.advance(secs(299)).await.unwrap();
    assert!(client.connection.error().is_none());
    emulator.advance(secs(1)).await.unwrap();
    match within(client.connection.closed()).await {
        ConnectionError::ClosedByPeer(Some(error)) => {
            assert_eq!(error.condition, *"amqp:connection:forced");
        }
        other => panic!("{other:?}"),
    }
}
