//! Locks: renewed by oneself and in the background, for as long as is asked for, and what is said when one is lost.

use servicebus::{ErrorKind, KeepLock, ReceiverOptions, RetryOptions};
use servicebus_emulator::{Failure, Fault, Operated};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_lock_is_renewed_by_hand() {
    let world = World::new().await;
    world.queue_with_locks("q", secs(10));
    world.send("q", &["m"]).await;
    let options = ReceiverOptions::new().keep_lock(KeepLock::Off);
    let receiver = world.client.receiver_with("q", options);
    let message = soon(receiver.receive()).await.unwrap();
    let before = message.locked_until().unwrap();
    world.advance(secs(5)).await;
    let until = soon(message.renew_lock()).await.unwrap().unwrap();
    assert_eq!(until.duration_since(before).unwrap(), secs(5));
    assert_eq!(message.locked_until(), Some(until));
    world.advance(secs(9)).await;
    soon(message.complete()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn b71_a_lock_is_kept_for_a_long_handler() {
    let world = World::new().await;
    let queue = world.queue_with_locks("q", secs(60));
    world.send("q", &["m"]).await;
    let options = ReceiverOptions::new().keep_lock(KeepLock::UntilSettled);
    let message = world
        .client
        .receiver_with("q", options)
        .receive()
        .await
        .unwrap();
    let lost = message.lock_lost();
    // Thirteen minutes.
    world.pass(secs(780)).await;
    assert!(!lost.is_cancelled());
    let stored = &queue.snapshot().unwrap().messages[0];
    assert_eq!(stored.message.delivery_count(), 0, "no delivery has failed");
    message.complete().await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 0);
}

/// The service takes the link away, which was idle for ten minutes: the lock is still good.
#[tokio::test(start_paused = true)]
async fn b71_a_long_handler_outlives_its_link() {
    let world = World::new().await;
    let queue = world.queue_with_locks("q", secs(60));
    world.send("q", &["m"]).await;
    let options = ReceiverOptions::new().keep_lock(KeepLock::UntilSettled);
    let receiver = world.client.receiver_with("q", options);
    let message = receiver.receive().await.unwrap();
    world.pass(secs(600)).await;
    world.detach("q", Failure::DetachForced);
    world.pass(secs(180)).await;
    assert!(!message.lock_lost().is_cancelled());
    message.complete().await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 0);
}

#[tokio::test(start_paused = true)]
async fn b83_renewal_ends_at_its_time_and_the_holder_is_told_when_the_lock_is_over() {
    let world = World::new().await;
    let queue = world.queue_with_locks("q", secs(10));
    world.send("q", &["m"]).await;
    let options = ReceiverOptions::new().keep_lock(KeepLock::For(secs(30)));
    let message = world
        .client
        .receiver_with("q", options)
        .receive()
        .await
        .unwrap();
    let lost = message.lock_lost();
    world.pass(secs(29)).await;
    assert!(!lost.is_cancelled());
    world.pass(secs(20)).await;
    assert!(lost.is_cancelled());
    let error = message.complete().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageLockLost);
    assert_eq!(queue.counts().unwrap().active, 1);
}

/// One lost lock among many is found out, and the others are renewed.
#[tokio::test(start_paused = true)]
async fn b83_one_lost_lock_is_told_to_its_holder_alone() {
    let world = World::new().await;
    let queue = world.queue_with_locks("q", secs(10));
    let all: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    world.client.sender("q").send_all(all).await.unwrap();
    let receiver = world.client.receiver("q");
    let messages = soon(receiver.receive_batch(10, secs(1))).await.unwrap();
    let lost: Vec<_> = messages.iter().map(|message| message.lock_lost()).collect();
    world.order(Fault::ExpireLock {
        entity: "q".into(),
        sequence_number: messages[3].sequence_number(),
    });
    world.pass(secs(60)).await;
    for (index, (message, lost)) in messages.into_iter().zip(lost).enumerate() {
        assert_eq!(lost.is_cancelled(), index == 3, "{index}");
        let result = message.complete().await;
        assert_eq!(result.is_ok(), index != 3, "{index}");
    }
    assert_eq!(queue.counts().unwrap().active, 1);
}

/// A passing failure of a renewal costs no lock.
#[tokio::test(start_paused = true)]
async fn b83_a_renewal_that_fails_in_passing_is_repeated() {
    let world = World::new().await;
    world.queue_with_locks("q", secs(10));
    world.send("q", &["m"]).await;
    let message = world.client.receiver("q").receive().await.unwrap();
    for error in [
        Failure::InternalError,
        Failure::Timeout,
        Failure::Unauthorized,
    ] {
        world.order(Fault::Fail {
            entity: "q".into(),
            operation: Operated::Renew,
            error,
            times: 1,
        });
        world.pass(secs(12)).await;
    }
    message.complete().await.unwrap();
}

/// What a renewal is refused for need not have cost the lock: its holder goes on, and the renewal is repeated.
#[tokio::test(start_paused = true)]
async fn b83_a_renewal_that_is_refused_is_no_lost_lock() {
    let world = World::new().await;
    world.queue_with_locks("q", secs(10));
    world.send("q", &["m"]).await;
    let message = world.client.receiver("q").receive().await.unwrap();
    let lost = message.lock_lost();
    world.order(Fault::Fail {
        entity: "q".into(),
        operation: Operated::Renew,
        error: Failure::EntityDisabled,
        times: 2,
    });
    world.pass(secs(20)).await;
    assert!(!lost.is_cancelled());
    message.complete().await.unwrap();
}

/// Messages that were fetched ahead and wait here longer than their link lives are not lost to their locks.
#[tokio::test(start_paused = true)]
async fn b83_locks_of_messages_fetched_ahead_outlive_their_link() {
    let world = World::new().await;
    world.queue_with_locks("q", secs(10));
    world.send("q", &["1", "2", "3", "4", "5"]).await;
    let options = ReceiverOptions::new().prefetch(5);
    let receiver = world.client.receiver_with("q", options);
    let first = receiver.receive().await.unwrap();
    world.detach("q", Failure::DetachForced);
    first.complete().await.unwrap();
    let second = receiver.receive().await.unwrap();
    // As long as a handler may take.
    world.pass(secs(40)).await;
    second.complete().await.unwrap();
    let rest = receiver.receive_batch(5, secs(1)).await.unwrap();
    assert_eq!(texts(&rest), ["3", "4", "5"]);
    for message in rest {
        assert_eq!(message.delivery_count(), 1);
        message.complete().await.unwrap();
    }
}

/// Nothing is renewed once a message is settled.
#[tokio::test(start_paused = true)]
async fn b83_no_renewal_after_the_message_is_settled() {
    let world = World::with_frames().await;
    world.queue_with_locks("q", secs(10));
    world.send("q", &["m"]).await;
    let message = world.client.receiver("q").receive().await.unwrap();
    let before = world.count_frames("Transfer");
    world.pass(secs(8)).await;
    message.complete().await.unwrap();
    let after = world.count_frames("Transfer");
    assert!(after > before, "the lock was renewed");
    world.pass(secs(30)).await;
    assert_eq!(world.count_frames("Transfer"), after);
}

/// A message that is dropped comes again when its lock runs out, to anybody.
#[tokio::test(start_paused = true)]
async fn a_message_that_is_dropped_is_not_kept() {
    let world = World::new().await;
    world.queue_with_locks("q", secs(10));
    world.send("q", &["m"]).await;
    let receiver = world.client.receiver("q");
    drop(receiver.receive().await.unwrap());
    world.pass(secs(11)).await;
    let again = soon(receiver.receive()).await.unwrap();
    assert_eq!(again.delivery_count(), 2);
    again.complete().await.unwrap();
}

/// B84: many locks, few requests, none lost.
#[tokio::test(start_paused = true)]
async fn b84_many_locks_are_renewed_together() {
    let world = World::with_frames().await;
    let queue = world.queue_with_locks("q", secs(30));
    let all: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    world.client.sender("q").send_all(all).await.unwrap();
    let receiver = world.client.receiver("q");
    let mut messages = Vec::new();
    while messages.len() < 2000 {
        messages.extend(soon(receiver.receive_batch(2000, secs(1))).await.unwrap());
    }
    let before = world.count_frames("Transfer");
    world.pass(secs(120)).await;
    let requests = world.count_frames("Transfer") - before;
    assert!(
        requests < 1000,
        "{requests} requests to renew 2000 locks six times each"
    );
    let failed = receiver
        .settle_all(messages, servicebus::Settlement::Complete)
        .await;
    assert!(failed.is_empty(), "{}", failed.len());
    assert_eq!(queue.counts().unwrap().active, 0);
}

/// Stopping to receive is not the end of what was received.
#[tokio::test(start_paused = true)]
async fn b86_a_lock_is_renewed_after_its_receiver_was_closed() {
    let world = World::new().await;
    let queue = world.queue_with_locks("q", secs(10));
    world.send("q", &["1", "2"]).await;
    let receiver = world.client.receiver("q");
    let messages = soon(receiver.receive_batch(2, secs(1))).await.unwrap();
    world.pass(secs(5)).await;
    receiver.close().await;
    world.pass(secs(30)).await;
    // Nor is it when the last handle is gone.
    drop(receiver);
    world.pass(secs(30)).await;
    for message in messages {
        assert!(!message.lock_lost().is_cancelled());
        message.complete().await.unwrap();
    }
    assert_eq!(queue.counts().unwrap().active, 0);
}

/// The clocks of client and service may differ: locks are kept all the same. (By more than half an hour no token is good.)
#[tokio::test(start_paused = true)]
async fn clocks_that_differ_do_not_cost_locks() {
    for ahead in [-1200i64, 1200] {
        let offset = secs(ahead.unsigned_abs());
        let start = if ahead > 0 {
            system_time() + offset
        } else {
            system_time() - offset
        };
        let world = World::starting_at(start, RetryOptions::default()).await;
        let queue = world.queue_with_locks("q", secs(20));
        world.send("q", &["m"]).await;
        let message = world.client.receiver("q").receive().await.unwrap();
        world.pass(secs(100)).await;
        message.complete().await.unwrap();
        assert_eq!(queue.counts().unwrap().active, 0);
    }
}

/// How long a lock lasts is a guess when the clocks differ. A message in the hands of the application is not given back
/// because of it.
#[tokio::test(start_paused = true)]
async fn a_message_in_hand_is_not_given_back_on_a_guess() {
    let start = system_time() - secs(1200);
    let world = World::starting_at(start, RetryOptions::default()).await;
    let queue = world.queue_with_locks("q", secs(60));
    world.send("q", &["m"]).await;
    let options = ReceiverOptions::new().keep_lock(KeepLock::Off);
    let receiver = world.client.receiver_with("q", options);
    let message = receiver.receive().await.unwrap();
    world.pass(secs(40)).await;
    assert!(queue.snapshot().unwrap().messages[0].lock.is_some());
    message.complete().await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 0);
}
