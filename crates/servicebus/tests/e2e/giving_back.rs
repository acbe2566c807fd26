//! What becomes of messages that nobody waits for any more: they are kept for the next receive, given back, or given out.

use servicebus::{ErrorKind, Mode, Receiver, ReceiverOptions};
use servicebus_emulator::Failure;

use crate::line::Line;
use crate::support::*;

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
    complete_next(&receiver).await;
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

/// What was deleted at the broker is given out, though its link is gone by then.
#[tokio::test(start_paused = true)]
async fn b65_receive_and_delete_loses_nothing_with_its_link() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["1", "2", "3", "4"]).await;
    let options = ReceiverOptions::new().prefetch(10);
    let receiver = world.client.deleting_receiver_with("q", options);
    soon(receiver.receive()).await.unwrap();
    soon(queue.wait_until(|now| now.messages.is_empty(), secs(5)))
        .await
        .unwrap();
    world.detach("q", Failure::DetachForced);
    world.send("q", &["5"]).await;
    let mut rest = Vec::new();
    while rest.len() < 4 {
        let batch = soon(receiver.receive_batch(10, secs(1))).await.unwrap();
        rest.extend(texts(&batch));
    }
    assert_eq!(rest, ["2", "3", "4", "5"]);
}

/// Receives that are dropped at any moment, and links that end: each message is returned once.
#[tokio::test(start_paused = true)]
async fn b65_receive_and_delete_loses_nothing_to_dropped_receives() {
    let world = World::new().await;
    world.queue("q");
    let sender = world.client.sender("q");
    let receiver = world.client.deleting_receiver("q");
    let mut received = Vec::new();
    for round in 0..400 {
        sender.send(round.to_string()).await.unwrap();
        if round % 50 == 49 {
            world.detach("q", Failure::DetachForced);
        }
        let mut receive = Box::pin(receiver.receive());
        for _ in 0..round % 23 {
            if let std::task::Poll::Ready(message) = futures_util::poll!(&mut receive) {
                received.push(message.unwrap());
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    loop {
        let rest = receiver.receive_batch(400, secs(1)).await.unwrap();
        if rest.is_empty() {
            break;
        }
        received.extend(rest);
    }
    let all: Vec<String> = (0..400).map(|n| n.to_string()).collect();
    assert_eq!(texts(&received), all);
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
