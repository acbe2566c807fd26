//! Credit: what is delivered when, and how a drain ends.

use crate::common::*;
use bytes::BytesMut;
use servicebus_amqp::codec::encode_frame;
use servicebus_amqp::engine::CreditMode;
use servicebus_amqp::types::{
    Attach, Begin, Detach, Flow, Open, Performative, ReceiverSettleMode, Role, Source, Target,
};
use servicebus_emulator::Emulator;
use servicebus_emulator::broker::{QueueOptions, Snapshot};
use tokio::io::AsyncWriteExt as _;

async fn queue(messages: usize) -> (Emulator, Client) {
    let emulator = emulator().await;
    emulator
        .default_namespace()
        .create_queue("q1", QueueOptions::default())
        .unwrap();
    let client = Client::connect(&emulator).await;
    let sender = client.sender("q1").await;
    for number in 0..messages {
        send(&sender, &message(&number.to_string())).await;
    }
    (emulator, client)
}

#[tokio::test]
async fn no_more_is_delivered_than_there_is_credit() {
    let (_emulator, client) = queue(5).await;
    let receiver = client.receiver("q1", 2).await;
    for expected in ["0", "1"] {
        assert_eq!(text(&within(receiver.recv()).await.unwrap()), expected);
    }
    receiver.drain().await.unwrap();
    assert!(receiver.try_recv().is_none());
    receiver.add_credit(1).unwrap();
    assert_eq!(text(&within(receiver.recv()).await.unwrap()), "2");
    assert_eq!(receiver.status().unwrap().credit, 0);
}

/// JavaScript closes the link and Go stalls if a drain is not answered.
#[tokio::test]
async fn a_drain_ends_with_what_is_there() {
    let (_emulator, client) = queue(3).await;
    let receiver = client.receiver("q1", 10).await;
    within(receiver.drain()).await.unwrap();
    assert_eq!(receiver.inbox_len(), 3);
    assert_eq!(receiver.status().unwrap().credit, 0);
    // An empty queue, twice.
    for _ in 0..2 {
        receiver.set_credit(CreditMode::Exact(5)).unwrap();
        within(receiver.drain()).await.unwrap();
    }
    assert_eq!(receiver.inbox_len(), 3);
    send(&client.sender("q1").await, &message("late")).await;
    receiver.set_credit(CreditMode::Exact(1)).unwrap();
    let deliveries = receiver.take(3);
    assert_eq!(deliveries.len(), 3);
    assert_eq!(text(&within(receiver.recv()).await.unwrap()), "late");
}

/// Credit that waits is served in the order in which it came.
#[tokio::test]
async fn receivers_are_served_in_turn() {
    let (_emulator, client) = queue(0).await;
    let (first, second) = (
        client.receiver("q1", 1).await,
        client.receiver("q1", 1).await,
    );
    let sender = client.sender("q1").await;
    for text in ["a", "b"] {
        send(&sender, &message(text)).await;
    }
    assert_eq!(text(&within(first.recv()).await.unwrap()), "a");
    assert_eq!(text(&within(second.recv()).await.unwrap()), "b");
}

/// Credit of one connection, messages of another.
#[tokio::test]
async fn a_message_wakes_a_receiver_of_another_connection() {
    let (emulator, client) = queue(0).await;
    let other = Client::connect(&emulator).await;
    let receiver = other.receiver("q1", 100).await;
    let sender = client.sender("q1").await;
    for number in 0..100 {
        send(&sender, &message(&number.to_string())).await;
    }
    for number in 0..100 {
        let delivery = within(receiver.recv()).await.unwrap();
        assert_eq!(text(&delivery), number.to_string());
        complete(&receiver, &delivery).await;
    }
}

/// A message that waits for the session's window belongs to nobody yet; when the link goes, it is there at once.
#[tokio::test]
async fn a_message_that_never_left_comes_again_uncounted() {
    let (emulator, client) = queue(3).await;
    // A client that takes one transfer and never renews its window.
    let mut stuck = emulator.connect();
    let attach = Attach {
        name: "stuck".into(),
        handle: 0,
        role: Role::Receiver,
        snd_settle_mode: Default::default(),
        rcv_settle_mode: ReceiverSettleMode::Second,
        source: Some(Box::new(Source::new("q1"))),
        target: Some(Target::new("client").into()),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    };
    let begin = Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: 1,
        outgoing_window: 1,
        handle_max: 10,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    };
    let open = Open {
        container_id: "stuck".into(),
        hostname: None,
        max_frame_size: 65_536,
        channel_max: 10,
        idle_time_out: None,
        outgoing_locales: Vec::new(),
        incoming_locales: Vec::new(),
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    };
    let flow = Flow {
        next_incoming_id: Some(0),
        incoming_window: 1,
        outgoing_window: 1,
        handle: Some(0),
        delivery_count: Some(0),
        link_credit: Some(10),
        ..Flow::default()
    };
    let mut bytes = BytesMut::from(&b"AMQP\x00\x01\x00\x00"[..]);
    for performative in [
        Performative::Open(Box::new(open)),
        Performative::Begin(Box::new(begin)),
        Performative::Attach(Box::new(attach)),
        Performative::Flow(flow),
    ] {
        encode_frame(&mut bytes, 0, &performative);
    }
    stuck.write_all(&bytes).await.unwrap();
    let queue = emulator.default_namespace().entity("q1");
    let locked = |queue: &Snapshot| queue.messages.iter().filter(|m| m.lock.is_some()).count();
    queue
        .wait_until(|queue| locked(queue) == 3, SOON)
        .await
        .unwrap();
    let detach = Detach {
        handle: 0,
        closed: true,
        error: None,
    };
    let mut bytes = BytesMut::new();
    encode_frame(&mut bytes, 0, &Performative::Detach(detach));
    stuck.write_all(&bytes).await.unwrap();
    queue
        .wait_until(|queue| locked(queue) == 1, SOON)
        .await
        .unwrap();

    let receiver = client.receiver("q1", 10).await;
    for expected in ["1", "2"] {
        let delivery = within(receiver.recv()).await.unwrap();
        assert_eq!(text(&delivery), expected);
        assert_eq!(delivery_count(&delivery), 0);
    }
}
