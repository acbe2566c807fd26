//! Receiving: one, many, ahead, without a lock, by number.

use futures_util::StreamExt as _;
use servicebus::{ErrorKind, KeepLock, Message, MessageState, ReceiverOptions, SubQueue};
use servicebus_emulator::{Failure, Fault, Operated};

use crate::line::Line;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_message_is_sent_received_and_completed() {
    let world = World::new().await;
    let queue = world.queue("orders");
    let sent = Message::new("hello")
        .message_id("order-17")
        .subject("greeting");
    soon(world.client.sender("orders").send(sent))
        .await
        .unwrap();

    let message = soon(world.client.receiver("orders").receive())
        .await
        .unwrap();
    assert_eq!(message.text().as_deref(), Some("hello"));
    assert_eq!(message.message_id().unwrap().to_string(), "order-17");
    assert_eq!(message.subject(), Some("greeting"));
    assert_eq!(message.delivery_count(), 1);
    assert_eq!(queue.counts().unwrap().active, 1);
    soon(message.complete()).await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 0);
    soon(world.client.close()).await;
}

#[tokio::test(start_paused = true)]
async fn b117_a_batch_is_filled_by_what_is_there() {
    let world = World::new().await;
    world.queue("q");
    let all: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    world
        .client
        .sender("q")
        .send_all(all.clone())
        .await
        .unwrap();
    let receiver = world.client.receiver("q");
    let batch = soon(receiver.receive_batch(30, secs(5))).await.unwrap();
    assert_eq!(texts(&batch), all[..30]);
    let rest = soon(receiver.receive_batch(30, secs(5))).await.unwrap();
    assert_eq!(texts(&rest), all[30..]);
}

/// Each batch is full and costs a round trip and the time that messages are waited for, on a line of a tenth of a second.
#[tokio::test(start_paused = true)]
async fn b117_batches_are_full_on_a_long_line() {
    let world = World::new().await;
    world.queue("q");
    let all: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    world.client.sender("q").send_all(all).await.unwrap();
    let client = Line::of_length(millis(50)).client(&world.emulator, impatient());
    let receiver = client.receiver("q");
    let mut held = receiver.receive_batch(100, secs(5)).await.unwrap();
    let began = tokio::time::Instant::now();
    for _ in 1..20 {
        let batch = receiver.receive_batch(100, secs(5)).await.unwrap();
        assert_eq!(batch.len(), 100);
        held.extend(batch);
    }
    let took = began.elapsed();
    assert!(took <= millis(19 * 250), "{took:?}");
    assert_eq!(held.len(), 2000);
}

#[tokio::test(start_paused = true)]
async fn nothing_there_is_an_empty_batch_after_the_wait() {
    let world = World::new().await;
    world.queue("q");
    let receiver = world.client.receiver("q");
    let began = tokio::time::Instant::now();
    assert!(receiver.receive_batch(5, secs(3)).await.unwrap().is_empty());
    let waited = began.elapsed();
    assert!(waited >= secs(3) && waited < secs(4), "{waited:?}");
    assert!(receiver.receive_within(secs(0)).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn receive_and_delete_takes_messages_for_good() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["1", "2"]).await;
    let receiver = world.client.deleting_receiver("q");
    let messages = soon(receiver.receive_batch(2, secs(5))).await.unwrap();
    assert_eq!(texts(&messages), ["1", "2"]);
    assert_eq!(queue.counts().unwrap().active, 0);
}

#[tokio::test(start_paused = true)]
async fn prefetch_keeps_the_window_open() {
    let world = World::new().await;
    let queue = world.queue("q");
    let receiver = world
        .client
        .receiver_with("q", ReceiverOptions::new().prefetch(20));
    let all: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    world
        .client
        .sender("q")
        .send_all(all.clone())
        .await
        .unwrap();
    for expected in &all {
        let message = soon(receiver.receive()).await.unwrap();
        assert_eq!(message.text().as_deref(), Some(expected.as_str()));
        let ahead = queue.snapshot().unwrap();
        let locked = ahead.messages.iter().filter(|m| m.lock.is_some()).count();
        assert!(locked <= 21, "{locked}");
        soon(message.complete()).await.unwrap();
    }
}

/// A message whose lock ran out while it waited here is not handed out.
#[tokio::test(start_paused = true)]
async fn b82_a_message_that_waited_for_longer_than_its_lock_is_not_handed_out() {
    let world = World::new().await;
    world.queue_with_locks("q", secs(10));
    world.send("q", &["1", "2", "3"]).await;
    let options = ReceiverOptions::new().prefetch(3).keep_lock(KeepLock::Off);
    let receiver = world.client.receiver_with("q", options);
    let first = receiver.receive().await.unwrap();
    first.complete().await.unwrap();
    world.pass(secs(11)).await;
    // Locked anew, for a second time.
    for expected in ["2", "3"] {
        let again = soon(receiver.receive()).await.unwrap();
        assert_eq!(again.text().as_deref(), Some(expected));
        assert_eq!(again.delivery_count(), 2);
        soon(again.complete()).await.unwrap();
    }
}

/// Locks of messages that wait here are renewed.
#[tokio::test(start_paused = true)]
async fn b82_locks_of_messages_that_wait_are_kept() {
    let world = World::new().await;
    let queue = world.queue_with_locks("q", secs(10));
    world.send("q", &["1", "2", "3"]).await;
    let receiver = world
        .client
        .receiver_with("q", ReceiverOptions::new().prefetch(3));
    let first = receiver.receive().await.unwrap();
    world.pass(secs(60)).await;
    first.complete().await.unwrap();
    for expected in ["2", "3"] {
        let message = soon(receiver.receive()).await.unwrap();
        assert_eq!(message.text().as_deref(), Some(expected));
        assert_eq!(message.delivery_count(), 1);
        soon(message.complete()).await.unwrap();
    }
    assert_eq!(queue.counts().unwrap().active, 0);
}

#[tokio::test(start_paused = true)]
async fn messages_come_as_a_stream() {
    let world = World::new().await;
    world.queue("q");
    world.send("q", &["1", "2", "3"]).await;
    let mut stream = world.client.receiver("q").stream();
    for expected in ["1", "2", "3"] {
        let message = soon(stream.next()).await.unwrap().unwrap();
        assert_eq!(message.text().as_deref(), Some(expected));
        soon(message.complete()).await.unwrap();
    }
}

/// Features 100: many receives on one receiver.
#[tokio::test(start_paused = true)]
async fn many_tasks_receive_from_one_receiver() {
    let world = World::new().await;
    let queue = world.queue("q");
    let receiver = world.client.receiver("q");
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let receiver = receiver.clone();
            tokio::spawn(async move {
                let message = receiver.receive().await.unwrap();
                let text = message.text().unwrap().to_string();
                message.complete().await.unwrap();
                text
            })
        })
        .collect();
    let all: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    world
        .client
        .sender("q")
        .send_all(all.clone())
        .await
        .unwrap();
    let mut received = Vec::new();
    for task in tasks {
        received.push(soon(task).await.unwrap());
    }
    received.sort_by_key(|text| text.parse::<u32>().unwrap());
    assert_eq!(received, all);
    assert_eq!(queue.counts().unwrap().active, 0);
}

/// A deferred message has its own lock token, and is settled by it.
#[tokio::test(start_paused = true)]
async fn b63_deferred_messages_are_received_by_number() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["later"]).await;
    let receiver = world.client.receiver("q");
    let message = soon(receiver.receive()).await.unwrap();
    let number = message.sequence_number();
    soon(message.defer()).await.unwrap();
    assert_eq!(queue.counts().unwrap().deferred, 1);
    assert!(receiver.receive_within(millis(50)).await.unwrap().is_none());

    let deferred = soon(receiver.receive_deferred([number])).await.unwrap();
    assert_eq!(texts(&deferred), ["later"]);
    assert_eq!(deferred[0].state(), MessageState::Deferred);
    for message in deferred {
        soon(message.complete()).await.unwrap();
    }
    assert_eq!(queue.counts().unwrap().deferred, 0);
    let error = soon(receiver.receive_deferred([number])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageNotFound);
    assert!(
        soon(receiver.receive_deferred([]))
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn b68_peek_goes_on_where_it_stopped_and_locks_nothing() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["1", "2", "3", "4", "5"]).await;
    let receiver = world.client.receiver("q");
    assert_eq!(texts(&soon(receiver.peek(2)).await.unwrap()), ["1", "2"]);
    assert_eq!(texts(&soon(receiver.peek(2)).await.unwrap()), ["3", "4"]);
    let from_start = soon(receiver.peek_from(0, 1)).await.unwrap();
    assert_eq!(texts(&from_start), ["1"]);
    assert_eq!(from_start[0].delivery_count(), 0);
    assert_eq!(texts(&soon(receiver.peek(9)).await.unwrap()), ["5"]);
    assert!(soon(receiver.peek(9)).await.unwrap().is_empty());
    assert!(
        queue
            .snapshot()
            .unwrap()
            .messages
            .iter()
            .all(|m| m.lock.is_none())
    );
}

#[tokio::test(start_paused = true)]
async fn b67_peek_on_an_empty_queue_is_an_empty_list() {
    let world = World::new().await;
    world.queue("q");
    world.session_queue("sessions");
    let receiver = world.client.receiver("q");
    assert!(soon(receiver.peek(10)).await.unwrap().is_empty());
    let ids = soon(world.client.list_sessions("sessions", None)).await;
    assert_eq!(ids.unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_subscription_and_its_dead_letter_queue() {
    let world = World::new().await;
    world.topic("events", &["audit", "other"]);
    let subscription = || servicebus::Subscription::new("events", "audit");
    soon(world.client.sender("events").send("hello"))
        .await
        .unwrap();
    let message = soon(world.client.receiver(subscription()).receive())
        .await
        .unwrap();
    let why = servicebus::DeadLetter::new("bad").description("no id");
    soon(message.dead_letter(why)).await.unwrap();

    let options = ReceiverOptions::new().sub_queue(SubQueue::DeadLetter);
    let dead = world.client.receiver_with(subscription(), options);
    let message = soon(dead.receive()).await.unwrap();
    assert_eq!(message.dead_letter_reason().as_deref(), Some("bad"));
    assert_eq!(
        message.dead_letter_error_description().as_deref(),
        Some("no id")
    );
    let replay = Message::from(&*message);
    assert!(replay.application_properties.is_empty());
    soon(message.complete()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn purge_deletes_what_is_not_locked() {
    let world = World::new().await;
    let queue = world.queue("q");
    let all: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    world.client.sender("q").send_all(all).await.unwrap();
    let receiver = world.client.receiver("q");
    let held = soon(receiver.receive()).await.unwrap();
    world.advance(secs(1)).await;
    let before = world.emulator.now();
    assert_eq!(soon(receiver.delete_batch(5, before)).await.unwrap(), 5);
    assert_eq!(soon(receiver.purge(Some(before))).await.unwrap(), 14);
    assert_eq!(queue.counts().unwrap().active, 1);
    soon(held.complete()).await.unwrap();
    assert_eq!(soon(receiver.purge(Some(before))).await.unwrap(), 0);
}

/// A busy management node does not keep messages away that come on an attached link.
#[tokio::test(start_paused = true)]
async fn b101_messages_come_while_requests_are_held_off() {
    let retry = impatient().retry.max_retries(0).busy_wait(secs(60));
    let world = World::with(impatient().retry(retry)).await;
    world.queue("q");
    let receiver = world.client.receiver("q");
    assert!(receiver.receive_within(secs(1)).await.unwrap().is_none());
    let sender = world.another_client().sender("q");
    world.order(Fault::Fail {
        entity: "q".into(),
        operation: Operated::Manage,
        error: Failure::ServerBusy,
        times: 1,
    });
    let error = receiver.peek(1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServiceBusy);
    let (message, sent) = soon(async { tokio::join!(receiver.receive(), sender.send("m")) }).await;
    sent.unwrap();
    message.unwrap().complete().await.unwrap();
}
