//! How long a receive waits: `None` says that there was no message, and not that nobody could be asked.

use std::sync::atomic::Ordering;

use servicebus::ErrorKind;
use servicebus_emulator::Fault;
use tokio::time::Instant;

use crate::line::Line;
use crate::recovery::world_away;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_answer_is_not_an_empty_queue() {
    let (world, away) = world_away().await;
    let receiver = world.client.receiver("q");
    let began = Instant::now();
    let error = receiver.receive_within(secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Communication);
    assert!(error.to_string().contains("no such road"), "{error}");
    // As any operation: the first attempt and three more.
    assert_eq!(away.tried.load(Ordering::Relaxed), 4);
    assert!(began.elapsed() < secs(15), "{:?}", began.elapsed());
    // What is here already can be said at once.
    let began = Instant::now();
    assert!(receiver.receive_within(secs(0)).await.unwrap().is_none());
    assert_eq!(began.elapsed(), secs(0));
    away.away.store(false, Ordering::Relaxed);
    world.send("q", &["m"]).await;
    assert!(receiver.receive_within(secs(1)).await.unwrap().is_some());
}

/// Those who wait behind a receive that cannot attach the link are told with it, instead of trying one after the other.
#[tokio::test(start_paused = true)]
async fn many_receives_of_a_host_that_does_not_answer_end_together() {
    let (world, away) = world_away().await;
    let receiver = world.client.receiver("q");
    let began = Instant::now();
    let receives = (0..20).map(|_| receiver.receive_within(secs(1)));
    for result in futures_util::future::join_all(receives).await {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Communication);
    }
    assert_eq!(away.tried.load(Ordering::Relaxed), 4);
    assert!(began.elapsed() < secs(15), "{:?}", began.elapsed());
}

/// Connecting and attaching take longer here than the wait, which begins when the link is attached.
#[tokio::test(start_paused = true)]
async fn the_wait_begins_when_the_link_is_attached() {
    let world = World::new().await;
    world.queue("q");
    let line = Line::of_length(millis(100));
    let client = line.client(&world.emulator, impatient());
    let receiver = client.receiver("q");
    let began = Instant::now();
    let receives = (0..3).map(|_| receiver.receive_within(millis(500)));
    for result in futures_util::future::join_all(receives).await {
        assert!(result.unwrap().is_none());
    }
    let first = began.elapsed();
    assert!(first > secs(1), "{first:?}");
    let began = Instant::now();
    assert!(
        receiver
            .receive_within(millis(500))
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(began.elapsed(), millis(500), "the link is attached");

    world.send("q", &["m"]).await;
    let another = line.client(&world.emulator, impatient()).receiver("q");
    let message = another.receive_within(millis(500)).await.unwrap().unwrap();
    assert_eq!(message.text().as_deref(), Some("m"));
}

/// While the link is gone nobody can say whether there are messages.
#[tokio::test(start_paused = true)]
async fn time_without_a_link_does_not_count() {
    let (world, away) = world_away().await;
    away.away.store(false, Ordering::Relaxed);
    let receiver = world.client.receiver("q");
    assert!(receiver.receive_within(secs(1)).await.unwrap().is_none());
    let began = Instant::now();
    let events = async {
        tokio::time::sleep(secs(3)).await;
        away.away.store(true, Ordering::Relaxed);
        world.order(Fault::Drop { connection: None });
        // The attempts after the first are 1.6, 3.2 and 6.4 s apart, or up to half of that less.
        tokio::time::sleep(secs(4)).await;
        away.away.store(false, Ordering::Relaxed);
    };
    let (received, ()) = tokio::join!(receiver.receive_within(secs(5)), events);
    assert!(received.unwrap().is_none());
    // Three seconds before the loss, and two once the link was there again.
    assert!(began.elapsed() >= secs(9), "{:?}", began.elapsed());
    assert!(began.elapsed() < secs(20), "{:?}", began.elapsed());
}

/// Ending a receive early, at any moment of connecting and attaching, costs nothing and nobody.
#[tokio::test(start_paused = true)]
async fn a_receive_can_be_dropped_while_the_link_is_attached() {
    let world = World::new().await;
    let queue = world.queue("q");
    let line = Line::of_length(millis(100));
    let client = line.client(&world.emulator, impatient());
    let receiver = client.receiver("q");
    for _ in 0..200 {
        let receive = receiver.receive_within(secs(1));
        if tokio::time::timeout(millis(10), receive).await.is_ok() {
            break;
        }
    }
    world.send("q", &["m"]).await;
    let message = soon(receiver.receive_within(secs(1))).await.unwrap();
    soon(message.unwrap().complete()).await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 0);
}
