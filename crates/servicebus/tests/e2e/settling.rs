//! Settling: the four ways, the broker's answer, and the ways that are left when the link has gone.

use servicebus::types::{Map, Value};
use servicebus::{DeadLetter, ErrorKind, ReceiverOptions, Settlement, SubQueue};
use servicebus_emulator::{Answered, Failure, Fault, Operated};

use crate::line::Line;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn b55_four_ways_to_settle() {
    let world = World::new().await;
    let queue = world.queue("q");
    let receiver = world.client.receiver("q");
    world.send("q", &["m"]).await;

    let message = soon(receiver.receive()).await.unwrap();
    let attempt = Map::new().with("attempt", 1);
    soon(message.abandon_with(attempt)).await.unwrap();
    let message = soon(receiver.receive()).await.unwrap();
    assert_eq!(message.delivery_count(), 2);
    assert_eq!(message.property("attempt"), Some(Value::Int(1)));

    let number = message.sequence_number();
    soon(message.defer_with(Map::new().with("parked", true)))
        .await
        .unwrap();
    assert_eq!(queue.counts().unwrap().deferred, 1);
    let message = soon(receiver.receive_deferred([number]))
        .await
        .unwrap()
        .remove(0);
    assert_eq!(message.property("parked"), Some(Value::from(true)));

    let why = DeadLetter::new("r").description("d").property("step", "x");
    soon(message.dead_letter(why)).await.unwrap();
    assert_eq!(queue.counts().unwrap().dead_letter, 1);
    let dead = ReceiverOptions::new().sub_queue(SubQueue::DeadLetter);
    let message = soon(world.client.receiver_with("q", dead).receive())
        .await
        .unwrap();
    assert_eq!(message.dead_letter_reason().as_deref(), Some("r"));
    assert_eq!(
        message.dead_letter_error_description().as_deref(),
        Some("d")
    );
    assert_eq!(message.property("step"), Some(Value::from("x")));
    soon(message.complete()).await.unwrap();
    assert_eq!(queue.counts().unwrap().dead_letter, 0);
}

/// The error is the broker's, it is not repeated, the link stays, and the message is given back.
#[tokio::test(start_paused = true)]
async fn b58_a_lock_that_ran_out_is_an_error_of_that_message_alone() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["1", "2"]).await;
    let receiver = world.client.receiver("q");
    let first = soon(receiver.receive()).await.unwrap();
    let second = soon(receiver.receive()).await.unwrap();
    let fault = Fault::ExpireLock {
        entity: "q".into(),
        sequence_number: first.sequence_number(),
    };
    world.order(fault);
    let error = soon(first.complete()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageLockLost);
    assert_eq!(error.error().entity(), Some("q"));
    assert_eq!(error.into_message().text().as_deref(), Some("1"));
    soon(second.complete()).await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 1);
    let again = soon(receiver.receive()).await.unwrap();
    assert_eq!(again.delivery_count(), 2);
}

/// A passing failure of the broker is tried again.
#[tokio::test(start_paused = true)]
async fn b58_an_internal_error_is_tried_again() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["m"]).await;
    let message = soon(world.client.receiver("q").receive()).await.unwrap();
    world.order(Fault::Fail {
        entity: "q".into(),
        operation: Operated::Settle,
        error: Failure::InternalError,
        times: 1,
    });
    soon(message.complete()).await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 0);
}

/// The link is gone: the lock is good, and the management node settles by it.
#[tokio::test(start_paused = true)]
async fn b60_a_message_is_settled_after_its_link_was_replaced() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["1", "2", "3", "4"]).await;
    let receiver = world.client.receiver("q");
    let mut messages = soon(receiver.receive_batch(3, secs(1))).await.unwrap();
    world.detach("q", Failure::DetachForced);
    let other = soon(receiver.receive()).await.unwrap();
    assert_eq!(other.text().as_deref(), Some("4"));

    soon(messages.remove(0).complete()).await.unwrap();
    soon(messages.remove(0).dead_letter(DeadLetter::new("r")))
        .await
        .unwrap();
    soon(messages.remove(0).defer()).await.unwrap();
    soon(other.abandon()).await.unwrap();
    let counts = queue.counts().unwrap();
    assert_eq!(
        (counts.active, counts.dead_letter, counts.deferred),
        (1, 1, 1)
    );
}

/// Settlements under way when the link goes, alone or with its connection, all come to an end.
#[tokio::test(start_paused = true)]
async fn b59_settlements_under_way_when_the_link_goes() {
    let faults = [
        Fault::Detach {
            entity: "q".into(),
            error: Failure::DetachForced,
        },
        Fault::Drop { connection: None },
    ];
    for fault in faults {
        let world = World::new().await;
        let queue = world.queue("q");
        let all: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        world.client.sender("q").send_all(all).await.unwrap();
        let receiver = world.client.receiver("q");
        let messages = soon(receiver.receive_batch(50, secs(1))).await.unwrap();
        assert_eq!(messages.len(), 50);
        world.order(lost_answers(Answered::Settle, false, 40));
        let settling =
            tokio::spawn(async move { receiver.settle_all(messages, Settlement::Complete).await });
        // Ten are answered.
        soon(queue.wait_until(|now| now.messages.len() == 40, secs(5)))
            .await
            .unwrap();
        world.order(fault);
        let failed = soon(settling).await.unwrap();
        assert!(failed.is_empty(), "{failed:?}");
        assert_eq!(queue.counts().unwrap().active, 0);
    }
}

/// The disposition took effect and its answer was lost: nothing says that the message was lost to another.
#[tokio::test(start_paused = true)]
async fn b59_a_settlement_whose_answer_was_lost_is_uncertain() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["m"]).await;
    let message = soon(world.client.receiver("q").receive()).await.unwrap();
    let error = world.complete_without_answer(&queue, message).await;
    assert_eq!(error.kind(), ErrorKind::Uncertain);
}

/// Features 64: another process settles by the token.
#[tokio::test(start_paused = true)]
async fn b56_a_message_is_settled_by_its_token_alone() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["m", "n"]).await;
    let receiver = world.client.receiver("q");
    let message = soon(receiver.receive()).await.unwrap();
    let token = message.lock_token();
    let received = message.into_message();
    assert_eq!(received.text().as_deref(), Some("m"));

    let elsewhere = world.another_client().receiver("q");
    let ends = soon(elsewhere.renew_locks([token])).await.unwrap();
    assert_eq!(ends.len(), 1);
    soon(elsewhere.settle(token, Settlement::Complete))
        .await
        .unwrap();
    assert_eq!(queue.counts().unwrap().active, 1);
    let error = soon(elsewhere.settle(token, Settlement::Complete))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageLockLost);
}

/// A thousand settlements do not wait for one another, nor for a receive that waits: on a line where each takes a
/// twentieth of a second, all do.
#[tokio::test(start_paused = true)]
async fn b64_settling_many_at_once_while_a_receive_waits() {
    let world = World::new().await;
    let queue = world.queue("q");
    let all: Vec<String> = (0..1001).map(|n| n.to_string()).collect();
    world.client.sender("q").send_all(all).await.unwrap();
    let client = Line::of_length(millis(25)).client(&world.emulator, impatient());
    let receiver = client.receiver("q");
    let mut messages = Vec::new();
    while messages.len() < 1001 {
        messages.extend(soon(receiver.receive_batch(1001, secs(1))).await.unwrap());
    }
    let waiting = tokio::spawn({
        let receiver = receiver.clone();
        async move { receiver.receive_within(secs(60)).await }
    });
    tokio::time::sleep(millis(100)).await;
    let began = tokio::time::Instant::now();
    messages.remove(0).complete().await.unwrap();
    assert!(began.elapsed() <= millis(60), "{:?}", began.elapsed());
    let began = tokio::time::Instant::now();
    let failed = receiver.settle_all(messages, Settlement::Complete).await;
    assert!(began.elapsed() <= millis(500), "{:?}", began.elapsed());
    assert!(failed.is_empty());
    assert_eq!(queue.counts().unwrap().active, 0);
    assert!(!waiting.is_finished());
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_reason_that_is_too_long_is_refused_here() {
    let world = World::new().await;
    world.queue("q");
    world.send("q", &["m"]).await;
    let message = soon(world.client.receiver("q").receive()).await.unwrap();
    let error = soon(message.dead_letter(DeadLetter::new("x".repeat(4097))))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    soon(error.into_message().complete()).await.unwrap();
}

/// Over the management node as well: a repetition that is refused says nothing about the first attempt.
#[tokio::test(start_paused = true)]
async fn b59_a_repeated_request_whose_first_answer_was_lost_is_uncertain() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["m"]).await;
    let message = soon(world.client.receiver("q").receive()).await.unwrap();
    let line = Line::delaying(millis(0));
    let elsewhere = line.client(&world.emulator, impatient()).receiver("q");
    soon(elsewhere.peek(1)).await.unwrap();
    line.cut();
    let settling = tokio::spawn({
        let token = message.lock_token();
        async move { elsewhere.settle(token, Settlement::Complete).await }
    });
    soon(queue.wait_until(|now| now.messages.is_empty(), secs(5)))
        .await
        .unwrap();
    world.order(Fault::Drop { connection: None });
    let error = soon(settling).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Uncertain);
}
