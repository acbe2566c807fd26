//! What runs for weeks does not grow: tasks, links and locks come to an end.

use std::future::Future;

use servicebus::{KeepLock, ReceiverOptions};

use crate::support::*;

/// Does it often, and sees that no task is left behind.
async fn leaves_no_task<F: Future>(rounds: usize, mut round: impl FnMut(usize) -> F) {
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    for n in 0..20 {
        round(n).await;
    }
    tokio::time::sleep(secs(30)).await;
    let before = tasks();
    for n in 0..rounds {
        round(n).await;
    }
    tokio::time::sleep(secs(30)).await;
    let after = tasks();
    assert!(after <= before, "{before} tasks before, {after} after");
}

#[tokio::test(start_paused = true)]
async fn b119_receives_that_get_nothing() {
    let world = World::new().await;
    world.queue("q");
    let receiver = world.client.receiver("q");
    leaves_no_task(20_000, |_| async {
        assert!(receiver.receive_within(millis(10)).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn b119_senders_and_receivers_that_come_and_go() {
    let world = World::new().await;
    let queue = world.queue("q");
    leaves_no_task(500, |n| {
        let (client, close) = (world.client.clone(), n % 2 == 0);
        async move {
            let (sender, receiver) = (client.sender("q"), client.receiver("q"));
            sender.send("m").await.unwrap();
            receiver.receive().await.unwrap().complete().await.unwrap();
            if close {
                sender.close().await;
                receiver.close().await;
            }
        }
    })
    .await;
    assert!(queue.snapshot().unwrap().receivers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn b119_connections_that_are_lost() {
    let world = World::new().await;
    world.queue("q");
    let sender = world.client.sender("q");
    let receiver = world.client.receiver("q");
    leaves_no_task(200, |_| async {
        sender.send("m").await.unwrap();
        receiver.receive().await.unwrap().complete().await.unwrap();
        receiver.peek(1).await.unwrap();
        world.order(servicebus_emulator::Fault::Drop { connection: None });
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn b119_sends_that_are_dropped() {
    let world = World::new().await;
    world.queue("q");
    let sender = world.client.sender("q");
    sender.send("attached").await.unwrap();
    leaves_no_task(5000, |n| {
        let sender = sender.clone();
        async move {
            let mut send = Box::pin(sender.send("m"));
            for _ in 0..n % 5 {
                if futures_util::poll!(&mut send).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
    })
    .await;
    sender.send("in order").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn b119_accepts_that_find_no_session() {
    let world = World::new().await;
    let queue = world.session_queue("q");
    leaves_no_task(200, |_| async {
        let accept = world.client.accept_next_session("q", millis(500));
        let pass = async {
            tokio::task::yield_now().await;
            world.advance(secs(1)).await;
        };
        let (session, ()) = tokio::join!(accept, pass);
        assert!(session.unwrap().is_none());
    })
    .await;
    assert!(queue.snapshot().unwrap().receivers.is_empty());
}

/// Messages that others settle, or nobody, are forgotten by the link that they came on when their locks are over.
#[tokio::test(start_paused = true)]
async fn b66_messages_that_are_not_settled_here_are_forgotten() {
    let world = World::with_frames().await;
    world.queue_with_locks("q", secs(5));
    let options = ReceiverOptions::new().keep_lock(KeepLock::Off);
    let receiver = world.client.receiver_with("q", options);
    let sender = world.client.sender("q");
    let elsewhere = world.another_client().receiver("q");
    for _ in 0..10 {
        sender
            .send_all((0..200).map(|n| n.to_string()))
            .await
            .unwrap();
        let mut received = 0;
        while received < 200 {
            let batch = soon(receiver.receive_batch(200, secs(1))).await.unwrap();
            received += batch.len();
            for message in batch {
                let token = message.lock_token();
                drop(message);
                elsewhere
                    .settle(token, servicebus::Settlement::Complete)
                    .await
                    .unwrap();
            }
        }
        // What is forgotten here is stated there: that is how the engine lets go of it.
        let before = world.count_frames("Disposition");
        world.pass(secs(6)).await;
        assert!(world.count_frames("Disposition") > before);
    }
    sender.send("last").await.unwrap();
    let last = soon(receiver.receive()).await.unwrap();
    assert_eq!(last.text().as_deref(), Some("last"));
    last.complete().await.unwrap();
}
