//! Transactions: all or nothing, over one entity and several.

use servicebus::{
    DeadLetter, ErrorKind, KeepLock, LockToken, Receiver, ReceiverOptions, Settlement, SubQueue,
    TransactionScope,
};
use servicebus_emulator::{Failure, Fault, Operated};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_commit_makes_everything_take_effect() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["order"]).await;
    let sender = world.client.sender("q");
    let order = soon(world.client.receiver("q").receive()).await.unwrap();
    let transaction = world.client.transaction();
    soon(transaction.send(&sender, "a")).await.unwrap();
    soon(transaction.send(&sender, "b")).await.unwrap();
    soon(transaction.complete(order)).await.unwrap();
    // Nothing is visible yet.
    assert_eq!(queue.counts().unwrap().active, 1);
    soon(transaction.commit()).await.unwrap();
    let receiver = world.client.receiver("q");
    let messages = soon(receiver.receive_batch(5, secs(1))).await.unwrap();
    assert_eq!(texts(&messages), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_leaves_everything_as_it_was() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["order"]).await;
    let sender = world.client.sender("q");
    let order = soon(world.client.receiver("q").receive()).await.unwrap();
    let token = order.lock_token();
    let transaction = world.client.transaction();
    soon(transaction.send(&sender, "a")).await.unwrap();
    soon(transaction.complete(order)).await.unwrap();
    soon(transaction.rollback()).await.unwrap();
    let snapshot = queue.snapshot().unwrap();
    assert_eq!(snapshot.counts.active, 1);
    // The lock is as before.
    let receiver = world.client.receiver("q");
    soon(receiver.settle(token, Settlement::Complete))
        .await
        .unwrap();
    assert_eq!(queue.counts().unwrap().active, 0);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_dropped_is_rolled_back() {
    let world = World::new().await;
    let queue = world.queue("q");
    let sender = world.client.sender("q");
    world.send("q", &["order"]).await;
    let order = soon(world.client.receiver("q").receive()).await.unwrap();
    let token = order.lock_token();
    let transaction = world.client.transaction();
    soon(transaction.send(&sender, "a")).await.unwrap();
    soon(transaction.complete(order)).await.unwrap();
    drop(transaction);
    soon(sender.send("after")).await.unwrap();
    let receiver = world.client.receiver("q");
    soon(complete_when_rolled_back(&receiver, token)).await;
    assert_eq!(queue.counts().unwrap().active, 1);
}

#[tokio::test(start_paused = true)]
async fn an_empty_transaction_does_nothing() {
    let world = World::new().await;
    soon(world.client.transaction().commit()).await.unwrap();
    soon(world.client.transaction().rollback()).await.unwrap();
    assert!(world.emulator.connections().is_empty());
}

/// B93: after one operation has failed there is no commit.
#[tokio::test(start_paused = true)]
async fn b93_a_failed_operation_is_the_end_of_the_transaction() {
    let world = World::new().await;
    let queue = world.queue("q");
    let sender = world.client.sender("q");
    let transaction = world.client.transaction();
    soon(transaction.send(&sender, "a")).await.unwrap();
    world.order(Fault::Fail {
        entity: "q".into(),
        operation: Operated::Send,
        error: Failure::QuotaExceeded,
        times: 1,
    });
    let error = soon(transaction.send(&sender, "b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
    let error = soon(transaction.commit()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transaction);
    assert_eq!(queue.counts().unwrap().active, 0);
    // The next one works.
    let transaction = world.client.transaction();
    soon(transaction.send(&sender, "c")).await.unwrap();
    soon(transaction.commit()).await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 1);
}

/// What the service has rolled back is not committed.
#[tokio::test(start_paused = true)]
async fn b93_a_commit_that_comes_too_late_is_refused() {
    let world = World::new().await;
    let queue = world.queue("q");
    let sender = world.client.sender("q");
    let transaction = world.client.transaction();
    transaction.send(&sender, "a").await.unwrap();
    world.pass(secs(125)).await;
    let error = soon(transaction.commit()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transaction);
    assert_eq!(queue.counts().unwrap().active, 0);
}

/// The coordinator is lost with its connection, and with it the transaction; the next one has another.
#[tokio::test(start_paused = true)]
async fn b93_a_lost_coordinator_is_replaced() {
    let world = World::new().await;
    let queue = world.queue("q");
    let sender = world.client.sender("q");
    let transaction = world.client.transaction();
    soon(transaction.send(&sender, "a")).await.unwrap();
    let mut state = world.client.state();
    state.borrow_and_update();
    world.order(Fault::Drop { connection: None });
    soon(state.changed()).await.unwrap();
    let error = soon(transaction.commit()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transaction);
    assert_eq!(queue.counts().unwrap().active, 0);
    let transaction = world.client.transaction();
    soon(transaction.send(&sender, "b")).await.unwrap();
    soon(transaction.commit()).await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_lost_connection_cannot_be_enlisted() {
    let world = World::new().await;
    world.queue("q");
    world.send("q", &["order"]).await;
    let order = soon(world.client.receiver("q").receive()).await.unwrap();
    world.order(Fault::Drop { connection: None });
    soon(world.client.sender("q").send("on the next connection"))
        .await
        .unwrap();
    let transaction = world.client.transaction();
    let error = soon(transaction.complete(order)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transaction);
    soon(error.into_message().complete()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_four_ways_to_settle_in_a_transaction() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["1", "2", "3", "4"]).await;
    let receiver = world.client.receiver("q");
    let mut messages = soon(receiver.receive_batch(4, secs(1))).await.unwrap();
    let transaction = world.client.transaction();
    soon(transaction.complete(messages.remove(0)))
        .await
        .unwrap();
    soon(transaction.abandon(messages.remove(0))).await.unwrap();
    soon(transaction.defer(messages.remove(0))).await.unwrap();
    let why = DeadLetter::new("r");
    soon(transaction.dead_letter(messages.remove(0), why))
        .await
        .unwrap();
    soon(transaction.commit()).await.unwrap();
    let counts = queue.counts().unwrap();
    assert_eq!(
        (counts.active, counts.deferred, counts.dead_letter),
        (1, 1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_transaction_has_at_most_a_hundred_messages() {
    let world = World::new().await;
    let queue = world.queue("q");
    let sender = world.client.sender("q");
    let transaction = world.client.transaction();
    for n in 0..100 {
        soon(transaction.send(&sender, n.to_string()))
            .await
            .unwrap();
    }
    let error = soon(transaction.send(&sender, "one more"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation);
    soon(transaction.commit()).await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 100);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_across_entities() {
    let options = impatient().transactions(TransactionScope::CrossEntity);
    let world = World::with(options).await;
    let from = world.queue("from");
    let to = world.queue("to");
    let receiver = world.client.receiver("from");
    world.client.sender("from").send("order").await.unwrap();
    let order = soon(receiver.receive()).await.unwrap();
    let transaction = world.client.transaction();
    soon(transaction.complete(order)).await.unwrap();
    soon(transaction.send(&world.client.sender("to"), "shipped"))
        .await
        .unwrap();
    soon(transaction.commit()).await.unwrap();
    assert_eq!(from.counts().unwrap().active, 0);
    assert_eq!(to.counts().unwrap().active, 1);
}

/// Transactions of two clients have nothing to do with one another, whatever their ids are.
#[tokio::test(start_paused = true)]
async fn what_belongs_to_another_client_cannot_be_enlisted() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["theirs"]).await;
    let other = world.another_client();
    let (theirs, ours) = (other.sender("q"), world.client.sender("q"));
    let their_transaction = other.transaction();
    soon(their_transaction.send(&theirs, "1")).await.unwrap();
    let transaction = world.client.transaction();
    soon(transaction.send(&ours, "2")).await.unwrap();
    let error = soon(transaction.send(&theirs, "3")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation);
    let message = soon(other.receiver("q").receive()).await.unwrap();
    let error = soon(transaction.complete(message)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation);
    soon(error.into_message().complete()).await.unwrap();
    soon(their_transaction.commit()).await.unwrap();
    soon(transaction.rollback()).await.unwrap();
    let messages = queue.snapshot().unwrap().messages;
    assert_eq!(messages.len(), 1);
}

/// A roll-back that is dropped goes on in the background.
#[tokio::test(start_paused = true)]
async fn a_rollback_that_is_dropped_is_not_forgotten() {
    let world = World::new().await;
    world.queue("q");
    world.send("q", &["order"]).await;
    let receiver = world.client.receiver("q");
    let order = soon(receiver.receive()).await.unwrap();
    let token = order.lock_token();
    let transaction = world.client.transaction();
    soon(transaction.complete(order)).await.unwrap();
    assert!(futures_util::poll!(Box::pin(transaction.rollback())).is_pending());
    soon(complete_when_rolled_back(&receiver, token)).await;
}

/// The locks of messages in a transaction are kept until it is committed.
#[tokio::test(start_paused = true)]
async fn b71_locks_are_kept_until_the_commit() {
    let world = World::new().await;
    let queue = world.queue_with_locks("q", secs(10));
    world.send("q", &["order"]).await;
    let sender = world.client.sender("q");
    let order = world.client.receiver("q").receive().await.unwrap();
    let transaction = world.client.transaction();
    transaction.complete(order).await.unwrap();
    transaction.send(&sender, "shipped").await.unwrap();
    world.pass(secs(60)).await;
    transaction.commit().await.unwrap();
    let messages = queue.snapshot().unwrap().messages;
    assert_eq!(messages.len(), 1);
    assert!(messages[0].lock.is_none());
}

/// When a transaction is rolled back nobody holds its messages any more: they come again when their locks are over.
#[tokio::test(start_paused = true)]
async fn messages_of_a_transaction_that_is_rolled_back_come_again() {
    let world = World::new().await;
    world.queue_with_locks("q", secs(10));
    world.send("q", &["order"]).await;
    let options = ReceiverOptions::new().keep_lock(KeepLock::UntilSettled);
    let receiver = world.client.receiver_with("q", options);
    let transaction = world.client.transaction();
    let order = receiver.receive().await.unwrap();
    transaction.complete(order).await.unwrap();
    world.pass(secs(20)).await;
    transaction.rollback().await.unwrap();
    world.pass(secs(11)).await;
    let again = soon(receiver.receive()).await.unwrap();
    assert_eq!(again.delivery_count(), 2);
    again.complete().await.unwrap();
}

/// With several connections, what belongs to one entity is on one of them.
#[tokio::test(start_paused = true)]
async fn a_transaction_has_one_connection_of_several() {
    let world = World::with(impatient().connections(3)).await;
    let queue = world.queue("q");
    world.queue("other");
    let sender = world.client.sender("q");
    soon(sender.send_all(["1", "2"])).await.unwrap();
    let elsewhere = world.client.sender("other");
    soon(elsewhere.send("3")).await.unwrap();
    let receiver = world.client.receiver("q");
    let dead = soon(receiver.receive()).await.unwrap();
    soon(dead.dead_letter(DeadLetter::new("r"))).await.unwrap();
    let options = ReceiverOptions::new().sub_queue(SubQueue::DeadLetter);
    let dead_letters = world.client.receiver_with("q", options);
    let live = soon(receiver.receive()).await.unwrap();
    let dead = soon(dead_letters.receive()).await.unwrap();
    let transaction = world.client.transaction();
    soon(transaction.complete(live)).await.unwrap();
    soon(transaction.send(&sender, "a")).await.unwrap();
    soon(transaction.commit()).await.unwrap();
    soon(dead.complete()).await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 1);

    // What is on another connection is refused, and the transaction goes on.
    assert_eq!(world.emulator.connections().len(), 2, "one for each entity");
    let transaction = world.client.transaction();
    soon(transaction.send(&sender, "b")).await.unwrap();
    let error = soon(transaction.send(&elsewhere, "c")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOperation);
    soon(transaction.commit()).await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 2);
}

/// Completes a message as soon as the transaction that holds it is gone.
async fn complete_when_rolled_back(receiver: &Receiver, token: LockToken) {
    while receiver.settle(token, Settlement::Complete).await.is_err() {
        tokio::task::yield_now().await;
    }
}
