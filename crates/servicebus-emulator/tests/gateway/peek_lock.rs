//! Receiving with locks: deliver, settle, expire.

use crate::common::*;
use servicebus_amqp::engine::OutgoingDelivery;
use servicebus_amqp::types::{AmqpError, DeliveryState, Map, Modified, Outcome, Symbol, Value};
use servicebus_emulator::Emulator;
use servicebus_emulator::broker::QueueOptions;

/// An emulator with the queue `q1`, whose locks last five seconds, and one message there.
async fn one_message() -> (Emulator, Client) {
    let emulator = emulator().await;
    let options = QueueOptions {
        lock_duration: secs(5),
        max_delivery_count: 3,
        ..QueueOptions::default()
    };
    emulator
        .default_namespace()
        .create_queue("q1", options)
        .unwrap();
    let client = Client::connect(&emulator).await;
    send(&client.sender("q1").await, &message("hello")).await;
    (emulator, client)
}

fn modified(failed: Option<bool>, here: Option<bool>, annotations: Option<Map>) -> DeliveryState {
    DeliveryState::Outcome(Outcome::Modified(Box::new(Modified {
        delivery_failed: failed,
        undeliverable_here: here,
        message_annotations: annotations,
    })))
}

fn dead_letter(info: Map) -> DeliveryState {
    DeliveryState::Outcome(Outcome::Rejected(Some(Box::new(AmqpError {
        condition: Symbol::from_static("com.microsoft:dead-letter"),
        description: None,
        info: Some(info),
    }))))
}

#[tokio::test]
async fn a_message_is_sent_delivered_and_completed() {
    let (emulator, client) = one_message().await;
    let receiver = client.receiver("q1", 1).await;
    let delivery = within(receiver.recv()).await.unwrap();
    assert_eq!(text(&delivery), "hello");
    assert_eq!(delivery.tag.len(), 16);
    assert!(!delivery.settled);
    assert_eq!(delivery_count(&delivery), 0);
    let timestamp = |key| annotation(&delivery, key).unwrap().as_timestamp().unwrap();
    assert_eq!(
        annotation(&delivery, "x-opt-sequence-number"),
        Some(Value::Long(1))
    );
    assert_eq!(timestamp("x-opt-enqueued-time").as_millis(), START_MILLIS);
    assert_eq!(
        timestamp("x-opt-locked-until").as_millis(),
        START_MILLIS + 5000
    );
    assert_eq!(annotation(&delivery, "x-opt-message-state"), None);

    let queue = emulator.default_namespace().entity("q1");
    assert_eq!(queue.counts().unwrap().active, 1);
    complete(&receiver, &delivery).await;
    assert_eq!(queue.counts().unwrap().active, 0);
}

/// .NET sets no field, Python delivery-failed and undeliverable-here, JavaScript only the latter.
#[tokio::test]
async fn abandon_counts_whatever_fields_are_set() {
    for (failed, here) in [(None, None), (Some(true), Some(false)), (None, Some(false))] {
        let (_emulator, client) = one_message().await;
        let receiver = client.receiver("q1", 2).await;
        let delivery = within(receiver.recv()).await.unwrap();
        let properties = Map::new().with(Symbol::from_static("why"), "later");
        let state = modified(failed, here, Some(properties));
        let answer = settle(&receiver, &delivery, state).await;
        // The same type of outcome, which Python and Java compare.
        assert_eq!(answer, Some(modified(failed, here, None)));
        let again = within(receiver.recv()).await.unwrap();
        assert_eq!(delivery_count(&again), 1);
        assert_eq!(application_property(&again, "why"), Some("later".into()));
        assert_ne!(again.tag, delivery.tag);
    }
}

#[tokio::test]
async fn a_released_message_comes_again_uncounted() {
    let (_emulator, client) = one_message().await;
    let receiver = client.receiver("q1", 2).await;
    let delivery = within(receiver.recv()).await.unwrap();
    let answer = settle(&receiver, &delivery, DeliveryState::RELEASED).await;
    assert_eq!(answer, Some(DeliveryState::RELEASED));
    let again = within(receiver.recv()).await.unwrap();
    assert_eq!(delivery_count(&again), 0);
}

#[tokio::test]
async fn a_deferred_message_is_put_aside() {
    let (emulator, client) = one_message().await;
    let receiver = client.receiver("q1", 2).await;
    let delivery = within(receiver.recv()).await.unwrap();
    let state = modified(Some(true), Some(true), None);
    let answer = settle(&receiver, &delivery, state.clone()).await;
    assert_eq!(answer, Some(state));
    let counts = emulator.default_namespace().entity("q1").counts().unwrap();
    assert_eq!((counts.active, counts.deferred), (0, 1));
    assert!(receiver.try_recv().is_none());
}

/// JavaScript sends the keys as strings, others as symbols. The answer has no error: that would mean a refusal.
#[tokio::test]
async fn a_message_is_dead_lettered_with_its_reason() {
    let keys: [fn(&'static str) -> Value; 2] =
        [|key| key.into(), |key| Symbol::from_static(key).into()];
    for key in keys {
        let (_emulator, client) = one_message().await;
        let receiver = client.receiver("q1", 1).await;
        let delivery = within(receiver.recv()).await.unwrap();
        let info = Map::new()
            .with(key("DeadLetterReason"), "poison")
            .with(key("DeadLetterErrorDescription"), "cannot be read")
            .with(key("attempt"), 7);
        let answer = settle(&receiver, &delivery, dead_letter(info)).await;
        assert_eq!(
            answer,
            Some(DeliveryState::Outcome(Outcome::Rejected(None)))
        );

        let receiver = client.receiver("q1/$DeadLetterQueue", 1).await;
        let dead = within(receiver.recv()).await.unwrap();
        assert_eq!(text(&dead), "hello");
        assert_eq!(delivery_count(&dead), 0);
        for (key, value) in [
            ("DeadLetterReason", Value::from("poison")),
            ("DeadLetterErrorDescription", "cannot be read".into()),
            ("attempt", 7.into()),
        ] {
            assert_eq!(application_property(&dead, key), Some(value), "{key}");
        }
        complete(&receiver, &dead).await;
    }
}

/// B110
#[tokio::test]
async fn b110_too_many_deliveries_dead_letter_a_message() {
    let (_emulator, client) = one_message().await;
    let receiver = client.receiver("q1", 10).await;
    for count in 0..3 {
        let delivery = within(receiver.recv()).await.unwrap();
        assert_eq!(delivery_count(&delivery), count);
        settle(&receiver, &delivery, modified(None, None, None)).await;
    }
    let receiver = client.receiver("q1/$deadletterqueue", 1).await;
    let dead = within(receiver.recv()).await.unwrap();
    assert_eq!(
        application_property(&dead, "DeadLetterReason"),
        Some("MaxDeliveryCountExceeded".into())
    );
    assert_eq!(
        application_property(&dead, "DeadLetterErrorDescription"),
        Some("Message could not be consumed after 3 delivery attempts.".into())
    );
}

/// B109
#[tokio::test]
async fn b109_a_lock_that_ran_out_is_lost() {
    let (emulator, client) = one_message().await;
    let first = client.receiver("q1", 1).await;
    let late = within(first.recv()).await.unwrap();
    let second = client.receiver("q1", 1).await;

    emulator.advance(secs(6)).await.unwrap();
    let error = rejection(settle(&first, &late, DeliveryState::ACCEPTED).await);
    assert_eq!(error.condition, *"com.microsoft:message-lock-lost");
    // Python reads errors by position.
    assert!(error.info.is_some());

    let again = within(second.recv()).await.unwrap();
    assert_eq!(delivery_count(&again), 1);
    complete(&second, &again).await;
}

/// B109
#[tokio::test]
async fn b109_closing_a_link_keeps_its_locks() {
    let (emulator, client) = one_message().await;
    let first = client.receiver("q1", 1).await;
    within(first.recv()).await.unwrap();
    first.detach(Default::default(), None).await;

    let second = client.receiver("q1", 1).await;
    emulator.advance(secs(4)).await.unwrap();
    assert!(second.try_recv().is_none());
    emulator.advance(secs(1)).await.unwrap();
    let again = within(second.recv()).await.unwrap();
    assert_eq!(delivery_count(&again), 1);
}

/// What was never transferred was never received: its message is there for others at once, uncounted.
#[tokio::test]
async fn b109_a_lost_connection_keeps_its_locks() {
    let (emulator, client) = one_message().await;
    let receiver = client.receiver("q1", 1).await;
    within(receiver.recv()).await.unwrap();
    drop(receiver);
    client.connection.close().await;

    let client = Client::connect(&emulator).await;
    let second = client.receiver("q1", 1).await;
    emulator.advance(secs(4)).await.unwrap();
    assert!(second.try_recv().is_none());
    emulator.advance(secs(1)).await.unwrap();
    within(second.recv()).await.unwrap();
}

/// A client that settles at once, without waiting for an answer.
#[tokio::test]
async fn a_settlement_without_confirmation_takes_effect() {
    let (emulator, client) = one_message().await;
    let receiver = client.receiver("q1", 1).await;
    let delivery = within(receiver.recv()).await.unwrap();
    receiver
        .settle(delivery.delivery, DeliveryState::ACCEPTED)
        .unwrap();
    let queue = emulator.default_namespace().entity("q1");
    queue
        .wait_until(|q| q.counts.active == 0, SOON)
        .await
        .unwrap();
}

#[tokio::test]
async fn receive_and_delete_sends_settled_and_forgets() {
    let (emulator, client) = one_message().await;
    let receiver = client
        .attach_receiver(receive_and_delete("q1", 1))
        .await
        .unwrap();
    let delivery = within(receiver.recv()).await.unwrap();
    assert!(delivery.settled);
    assert_eq!(annotation(&delivery, "x-opt-locked-until"), None);
    let counts = emulator.default_namespace().entity("q1").counts().unwrap();
    assert_eq!(counts.active, 0);
}

/// All its messages or none, each with a number of its own.
#[tokio::test]
async fn a_batch_is_split() {
    let (_emulator, client) = one_message().await;
    let sender = client.sender("q1").await;
    let batch = servicebus_amqp::types::Message {
        body: servicebus_amqp::types::Body::DataSections(
            ["a", "b", "c"].map(|text| encode(&message(text))).into(),
        ),
        ..Default::default()
    };
    let mut delivery = OutgoingDelivery::new(encode(&batch));
    delivery.message_format = 0x8001_3700;
    let outcome = sender.send(delivery).await.unwrap();
    assert_eq!(outcome, Some(DeliveryState::ACCEPTED));

    let receiver = client.receiver("q1", 10).await;
    for (number, expected) in [(1, "hello"), (2, "a"), (3, "b"), (4, "c")] {
        let delivery = within(receiver.recv()).await.unwrap();
        assert_eq!(text(&delivery), expected);
        assert_eq!(
            annotation(&delivery, "x-opt-sequence-number"),
            Some(Value::Long(number))
        );
    }
}

/// A batch whose one part is no message leaves nothing behind.
#[tokio::test]
async fn a_broken_batch_is_refused_whole() {
    let (emulator, client) = one_message().await;
    let sender = client.sender("q1").await;
    let batch = servicebus_amqp::types::Message {
        body: servicebus_amqp::types::Body::DataSections(vec![
            encode(&message("a")),
            bytes::Bytes::from_static(b"\xff\xff"),
        ]),
        ..Default::default()
    };
    let mut delivery = OutgoingDelivery::new(encode(&batch));
    delivery.message_format = 0x8001_3700;
    let error = rejection(sender.send(delivery).await.unwrap());
    assert_eq!(error.condition, *"amqp:decode-error");
    let counts = emulator.default_namespace().entity("q1").counts().unwrap();
    assert_eq!(counts.active, 1);
}

/// Whoever lets very many locks run out is told so in the end, so that neither side keeps them for ever.
#[tokio::test]
async fn deliveries_whose_lock_ran_out_are_forgotten() {
    const MESSAGES: u32 = 500;
    let emulator = emulator().await;
    emulator
        .default_namespace()
        .create_queue(
            "q1",
            QueueOptions {
                max_delivery_count: u32::MAX,
                ..QueueOptions::default()
            },
        )
        .unwrap();
    let client = Client::connect(&emulator).await;
    let sender = client.sender("q1").await;
    for _ in 0..MESSAGES {
        send(&sender, &message("1")).await;
    }
    let receiver = client.receiver("q1", 20 * MESSAGES).await;
    let mut last = None;
    for _ in 0..10 {
        for _ in 0..MESSAGES {
            last = Some(within(receiver.recv()).await.unwrap());
        }
        emulator.advance(secs(60)).await.unwrap();
    }
    let last = last.unwrap();
    let error = rejection(settle(&receiver, &last, DeliveryState::ACCEPTED).await);
    assert_eq!(error.condition, *"com.microsoft:message-lock-lost");
    let unsettled = receiver.status().unwrap().unsettled;
    assert!(unsettled < 3000, "{unsettled} of 5,500 deliveries");
}
