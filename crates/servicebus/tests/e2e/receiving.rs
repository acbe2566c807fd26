//! Receiving: one, many, ahead, without a lock, by number; and what becomes of messages that nobody waits for any more.

use futures_util::StreamExt as _;
use servicebus::{
    ErrorKind, KeepLock, Message, MessageState, Mode, Receiver, ReceiverOptions, SubQueue,
};
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

/// The broker has as much credit as receives wait for, and none when they have ended.
#[tokio::test(start_paused = true)]
async fn b36_credit_is_taken_back_when_a_receive_ends_early() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["1", "2", "3"]).await;
    let receiver = world.client.receiver("q");
    let first = soon(receiver.receive_batch(10, secs(1))).await.unwrap();
    assert_eq!(texts(&first), ["1", "2", "3"]);
    soon(queue.wait_until(|now| now.receivers[0].credit == 0, secs(5)))
        .await
        .unwrap();
    // What comes now is not locked by anybody.
    world.send("q", &["4"]).await;
    assert!(queue.snapshot().unwrap().messages[3].lock.is_none());
    let next = soon(receiver.receive_batch(10, secs(1))).await.unwrap();
    assert_eq!(texts(&next), ["4"]);
    assert_eq!(next[0].delivery_count(), 1);
}

/// A receive that is dropped at any moment neither loses a message nor leaves it locked and unknown.
#[tokio::test(start_paused = true)]
async fn b106_a_message_that_arrives_as_the_receive_is_dropped_is_not_lost() {
    let world = World::new().await;
    let queue = world.queue("q");
    let receiver = world.client.receiver("q");
    let sender = world.client.sender("q");
    // Both links are attached.
    sender.send("0").await.unwrap();
    soon(receiver.receive())
        .await
        .unwrap()
        .complete()
        .await
        .unwrap();
    let mut received = Vec::new();
    for round in 0..200 {
        let number = round.to_string();
        let send = sender.send(number.clone());
        let receive = async {
            for _ in 0..round % 23 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            message = receiver.receive() => received.push(message.unwrap()),
            _ = async { tokio::join!(send, receive) } => {}
        }
    }
    while received.len() < 200 {
        received.push(soon(receiver.receive()).await.unwrap());
    }
    let mut numbers: Vec<usize> = texts(&received)
        .iter()
        .map(|t| t.parse().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..200).collect::<Vec<_>>());
    let most = received
        .iter()
        .map(|message| message.delivery_count())
        .max();
    assert_eq!(most, Some(1), "released messages keep their count");
    assert_eq!(queue.counts().unwrap().active, 200);
}

#[tokio::test(start_paused = true)]
async fn b106_a_message_that_nobody_asks_for_is_given_back_with_its_count() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["only"]).await;
    let receiver = world.client.receiver("q");
    // The message is here when the call that asked for it is dropped.
    {
        let mut receive = std::pin::pin!(receiver.receive());
        let arrived = queue.wait_until(|now| now.messages[0].lock.is_some(), secs(5));
        tokio::select! {
            biased;
            arrived = arrived => { arrived.unwrap(); }
            _ = &mut receive => panic!("the receive is polled after the message is locked only"),
        }
    }
    soon(queue.wait_until(|now| now.messages[0].lock.is_none(), secs(5)))
        .await
        .unwrap();
    let other = world.another_client();
    let message = soon(other.receiver("q").receive()).await.unwrap();
    assert_eq!(message.delivery_count(), 1);
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

/// What was fetched ahead in receive-and-delete is given out after close, then nothing more.
#[tokio::test(start_paused = true)]
async fn b65_receive_and_delete_loses_nothing_on_close() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["1", "2", "3", "4"]).await;
    let options = ReceiverOptions::new().prefetch(10);
    let receiver = world.client.deleting_receiver_with("q", options);
    let first = soon(receiver.receive()).await.unwrap();
    assert_eq!(first.text().as_deref(), Some("1"));
    soon(queue.wait_until(|now| now.messages.is_empty(), secs(5)))
        .await
        .unwrap();
    soon(receiver.close()).await;
    let rest = soon(receiver.receive_batch(10, secs(1))).await.unwrap();
    assert_eq!(texts(&rest), ["2", "3", "4"]);
    let error = soon(receiver.receive()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn what_was_fetched_ahead_is_given_back_on_close() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["1", "2", "3"]).await;
    let receiver = world
        .client
        .receiver_with("q", ReceiverOptions::new().prefetch(10));
    let first = soon(receiver.receive()).await.unwrap();
    soon(queue.wait_until(|now| now.messages.iter().all(|m| m.lock.is_some()), secs(5)))
        .await
        .unwrap();
    soon(receiver.close()).await;
    soon(queue.wait_until(
        |now| now.messages.iter().filter(|m| m.lock.is_some()).count() == 1,
        secs(5),
    ))
    .await
    .unwrap();
    // A message in the hands of the application is still its own.
    soon(first.complete()).await.unwrap();
    let other = world.another_client();
    let rest = soon(other.receiver("q").receive_batch(5, secs(1)))
        .await
        .unwrap();
    assert_eq!(texts(&rest), ["2", "3"]);
    assert!(rest.iter().all(|message| message.delivery_count() == 1));
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

/// Two receives wait, messages come for both, and one is dropped: what is left over when the other is served is given back.
#[tokio::test(start_paused = true)]
async fn b106_what_is_left_over_behind_a_slow_receive_is_given_back() {
    let world = World::new().await;
    let queue = world.queue("q");
    let receiver = world.client.receiver("q");
    let mut many = Box::pin(receiver.receive_batch(3, secs(60)));
    let mut one = Box::pin(receiver.receive());
    while queue
        .snapshot()
        .unwrap()
        .receivers
        .first()
        .is_none_or(|r| r.credit < 3)
    {
        assert!(futures_util::poll!(&mut many).is_pending());
        assert!(futures_util::poll!(&mut one).is_pending());
        tokio::time::sleep(millis(1)).await;
    }
    world.send("q", &["1", "2", "3"]).await;
    let locked = |count: usize| {
        move |now: &servicebus_emulator::broker::Snapshot| {
            now.messages.iter().filter(|m| m.lock.is_some()).count() == count
        }
    };
    soon(queue.wait_until(locked(3), secs(5))).await.unwrap();
    drop(many);
    // It is there, and the application is busy with other things.
    tokio::time::sleep(secs(1)).await;
    let message = soon(one).await.unwrap();
    soon(queue.wait_until(locked(1), secs(5))).await.unwrap();
    message.complete().await.unwrap();
    let other = world.another_client();
    let rest = soon(other.receiver("q").receive_batch(5, secs(1)))
        .await
        .unwrap();
    assert_eq!(rest.len(), 2);
    assert!(rest.iter().all(|message| message.delivery_count() == 1));
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

/// What is on its way when a receive ends is not forgotten by a close that follows at once.
#[tokio::test(start_paused = true)]
async fn b106_a_message_on_its_way_at_the_close_is_given_back() {
    let world = World::new().await;
    let queue = world.queue("q");
    let line = Line::delaying(millis(100));
    let client = line.client(&world.emulator, impatient());
    let receiver = client.receiver("q");
    receive_too_early(&world, &receiver).await;
    assert!(queue.snapshot().unwrap().messages[0].lock.is_some());
    receiver.close().await;
    soon(queue.wait_until(|now| now.messages[0].lock.is_none(), secs(1)))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn b65_a_deleted_message_on_its_way_at_the_close_is_given_out() {
    let world = World::new().await;
    world.queue("q");
    let line = Line::delaying(millis(100));
    let client = line.client(&world.emulator, impatient());
    let receiver = client.deleting_receiver("q");
    receive_too_early(&world, &receiver).await;
    receiver.close().await;
    let message = receiver.receive().await.unwrap();
    assert_eq!(message.text().as_deref(), Some("m"));
}

/// Ends a receive with nothing while a message is on its way to it, on a line that delays by a tenth of a second.
async fn receive_too_early<M: Mode>(world: &World, receiver: &Receiver<M>) {
    assert!(receiver.receive_within(secs(5)).await.unwrap().is_none());
    let send = async {
        tokio::time::sleep(millis(950)).await;
        world.send("q", &["m"]).await;
    };
    let (received, ()) = tokio::join!(receiver.receive_within(secs(1)), send);
    assert!(received.unwrap().is_none());
}
