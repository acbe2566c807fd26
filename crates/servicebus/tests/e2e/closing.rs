//! Closing: once and again, while something waits, and by dropping.

use servicebus::{ClientState, ErrorKind, Settlement};
use servicebus_emulator::Fault;

use crate::line::Line;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn b122_everything_fails_after_close_and_close_can_be_repeated() {
    let world = World::new().await;
    world.queue("q");
    world.send("q", &["1", "2"]).await;
    let client = &world.client;
    let sender = client.sender("q");
    let receiver = client.receiver("q");
    let message = soon(receiver.receive()).await.unwrap();
    let waiting = tokio::spawn({
        let receiver = client.receiver("q");
        async move {
            let _held = soon(receiver.receive()).await.unwrap();
            receiver.receive().await
        }
    });
    tokio::task::yield_now().await;
    soon(client.close()).await;
    soon(client.close()).await;
    assert!(client.is_closed() && sender.is_closed() && receiver.is_closed());
    assert_eq!(*client.state().borrow(), ClientState::Closed);
    assert_eq!(
        soon(waiting).await.unwrap().unwrap_err().kind(),
        ErrorKind::Closed
    );
    let kinds = [
        soon(sender.send("m")).await.unwrap_err().kind(),
        soon(sender.batch()).await.unwrap_err().kind(),
        soon(receiver.receive()).await.unwrap_err().kind(),
        soon(receiver.peek(1)).await.unwrap_err().kind(),
        soon(message.complete()).await.unwrap_err().kind(),
        soon(client.accept_session("q", "a"))
            .await
            .unwrap_err()
            .kind(),
        soon(client.list_sessions("q", None))
            .await
            .unwrap_err()
            .kind(),
        soon(client.transaction().send(&sender, "m"))
            .await
            .unwrap_err()
            .kind(),
    ];
    assert_eq!(kinds, [ErrorKind::Closed; 8]);
    soon(world.no_connections()).await;
}

#[tokio::test(start_paused = true)]
async fn b122_a_sender_or_receiver_that_is_closed_does_not_come_back() {
    let world = World::new().await;
    let queue = world.queue("q");
    let sender = world.client.sender("q");
    let receiver = world.client.receiver("q");
    soon(sender.send("1")).await.unwrap();
    let message = soon(receiver.receive()).await.unwrap();
    soon(sender.close()).await;
    soon(receiver.close()).await;
    soon(receiver.close()).await;
    assert_eq!(
        soon(sender.clone().send("2")).await.unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(
        soon(receiver.receive()).await.unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert!(queue.snapshot().unwrap().receivers.is_empty());
    let token = message.lock_token();
    let settled = soon(receiver.settle(token, Settlement::Complete)).await;
    let renewed = soon(receiver.renew_locks([token])).await;
    assert_eq!(settled.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(renewed.unwrap_err().kind(), ErrorKind::Closed);
    // Others go on, and so does what was received before.
    soon(message.complete()).await.unwrap();
    soon(world.client.sender("q").send("3")).await.unwrap();
}

/// B27: a peer that does not answer does not hold up anybody.
#[tokio::test(start_paused = true)]
async fn b27_close_is_bounded_when_the_peer_is_silent() {
    let world = World::new().await;
    world.queue("q");
    let sender = world.client.sender("q");
    let receiver = world.client.receiver("q");
    sender.send("1").await.unwrap();
    receiver.receive().await.unwrap().complete().await.unwrap();
    let waiting = tokio::spawn({
        let receiver = receiver.clone();
        async move { receiver.receive().await }
    });
    tokio::task::yield_now().await;
    world.order(Fault::HalfOpen { connection: None });
    let began = tokio::time::Instant::now();
    receiver.close().await;
    sender.close().await;
    world.client.close().await;
    assert!(began.elapsed() <= secs(17), "{:?}", began.elapsed());
    assert_eq!(
        waiting.await.unwrap().unwrap_err().kind(),
        ErrorKind::Closed
    );
}

/// Messages that wait here are given back when the last handle goes, and the connection is closed.
#[tokio::test(start_paused = true)]
async fn b122_dropping_is_closing() {
    let World { emulator, client } = World::new().await;
    let queue = emulator
        .default_namespace()
        .create_queue("q", servicebus_emulator::broker::QueueOptions::default())
        .unwrap();
    let sender = client.sender("q");
    soon(sender.send_all(["1", "2", "3"])).await.unwrap();
    let options = servicebus::ReceiverOptions::new().prefetch(5);
    let receiver = client.receiver_with("q", options);
    complete_next(&receiver).await;
    soon(queue.wait_until(|now| now.messages.iter().all(|m| m.lock.is_some()), secs(5)))
        .await
        .unwrap();
    drop(receiver);
    soon(queue.wait_until(|now| now.messages.iter().all(|m| m.lock.is_none()), secs(5)))
        .await
        .unwrap();
    assert!(queue.snapshot().unwrap().receivers.is_empty());
    drop((sender, client));
    soon(no_connections(&emulator)).await;
}

/// B89: a close that is dropped can be done again.
#[tokio::test(start_paused = true)]
async fn b89_a_close_that_was_dropped_can_be_repeated() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["1", "2"]).await;
    let options = servicebus::ReceiverOptions::new().prefetch(5);
    let receiver = world.client.receiver_with("q", options);
    receiver.receive().await.unwrap().complete().await.unwrap();
    {
        let mut close = Box::pin(receiver.close());
        assert!(futures_util::poll!(&mut close).is_pending());
    }
    soon(receiver.close()).await;
    soon(queue.wait_until(
        |now| now.receivers.is_empty() && now.messages.iter().all(|m| m.lock.is_none()),
        secs(5),
    ))
    .await
    .unwrap();
}

/// What is under way when the client is closed comes to its end, and what waits here is given back.
#[tokio::test(start_paused = true)]
async fn close_waits_for_what_is_under_way() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["1", "2", "3"]).await;
    let options = servicebus::ReceiverOptions::new().prefetch(5);
    let receiver = world.client.receiver_with("q", options);
    let message = soon(receiver.receive()).await.unwrap();
    let sender = world.client.sender("q");
    soon(sender.send("4")).await.unwrap();
    let mut send = Box::pin(sender.send("5"));
    let mut complete = Box::pin(message.complete());
    assert!(futures_util::poll!(&mut send).is_pending());
    assert!(futures_util::poll!(&mut complete).is_pending());
    let (sent, completed, ()) =
        soon(async { tokio::join!(send, complete, world.client.close()) }).await;
    sent.unwrap();
    completed.unwrap();
    let messages = queue.snapshot().unwrap().messages;
    assert_eq!(messages.len(), 4);
    assert!(messages.iter().all(|message| message.lock.is_none()));
}

/// Requests over management and the end of a transaction are under way as well.
#[tokio::test(start_paused = true)]
async fn close_waits_for_requests_and_commits() {
    let world = World::new().await;
    let queue = world.queue("q");
    let client = Line::of_length(millis(50)).client(&world.emulator, impatient());
    let sender = client.sender("q");
    let at = system_time() + secs(60);
    soon(sender.schedule("1", at)).await.unwrap();
    let transaction = client.transaction();
    soon(transaction.send(&sender, "2")).await.unwrap();
    let mut schedule = Box::pin(sender.schedule("3", at));
    let mut commit = Box::pin(transaction.commit());
    assert!(futures_util::poll!(&mut schedule).is_pending());
    assert!(futures_util::poll!(&mut commit).is_pending());
    let (scheduled, committed, ()) =
        soon(async { tokio::join!(schedule, commit, client.close()) }).await;
    scheduled.unwrap();
    committed.unwrap();
    let counts = queue.counts().unwrap();
    assert_eq!((counts.scheduled, counts.active), (2, 1));
}

/// What was not sent when the client was closed had no effect, and that is said.
#[tokio::test(start_paused = true)]
async fn b122_what_was_never_sent_is_not_uncertain() {
    let world = World::new().await;
    let queue = world.queue("q");
    world.send("q", &["1"]).await;
    let message = soon(world.client.receiver("q").receive()).await.unwrap();
    let client = Line::of_length(secs(1)).client(&world.emulator, impatient());
    let (sender, receiver) = (client.sender("q"), client.receiver("q"));
    let at = system_time() + secs(60);
    let mut delete = Box::pin(receiver.delete_batch(1, at));
    let mut schedule = Box::pin(sender.schedule("2", at));
    let mut settle = Box::pin(receiver.settle(message.lock_token(), Settlement::Complete));
    assert!(futures_util::poll!(&mut delete).is_pending());
    assert!(futures_util::poll!(&mut schedule).is_pending());
    assert!(futures_util::poll!(&mut settle).is_pending());
    let (deleted, scheduled, settled, ()) =
        soon(async { tokio::join!(delete, schedule, settle, client.close()) }).await;
    let kinds = [
        deleted.unwrap_err().kind(),
        scheduled.unwrap_err().kind(),
        settled.unwrap_err().kind(),
    ];
    assert_eq!(kinds, [ErrorKind::Closed; 3]);
    assert_eq!(queue.snapshot().unwrap().messages.len(), 1);
}

/// A link that was asked for by a call that nobody waits for any more does not outlive the close.
#[tokio::test(start_paused = true)]
async fn b122_a_link_that_was_being_made_is_closed_too() {
    let world = World::new().await;
    let queue = world.queue("q");
    let receiver = world.client.receiver("q");
    assert!(futures_util::poll!(Box::pin(receiver.receive())).is_pending());
    soon(queue.wait_until(|now| now.receivers.len() == 1, secs(5)))
        .await
        .unwrap();
    soon(receiver.close()).await;
    soon(queue.wait_until(|now| now.receivers.is_empty(), secs(5)))
        .await
        .unwrap();
}

/// What is on its way to a receiver that is dropped is given back as well.
#[tokio::test(start_paused = true)]
async fn b122_a_dropped_receiver_gives_back_what_is_on_its_way() {
    let world = World::new().await;
    let queue = world.queue("q");
    let line = Line::delaying(millis(100));
    let client = line.client(&world.emulator, impatient());
    let options = servicebus::ReceiverOptions::new().prefetch(5);
    let receiver = client.receiver_with("q", options);
    assert!(receiver.receive_within(secs(5)).await.unwrap().is_none());
    world.send("q", &["1", "2", "3"]).await;
    assert!(
        queue
            .snapshot()
            .unwrap()
            .messages
            .iter()
            .all(|m| m.lock.is_some())
    );
    drop(receiver);
    soon(queue.wait_until(
        |now| now.receivers.is_empty() && now.messages.iter().all(|m| m.lock.is_none()),
        secs(5),
    ))
    .await
    .unwrap();
    let rest = soon(world.client.receiver("q").receive_batch(5, secs(1)))
        .await
        .unwrap();
    assert_eq!(rest.len(), 3);
    assert!(rest.iter().all(|message| message.delivery_count() == 1));
}
