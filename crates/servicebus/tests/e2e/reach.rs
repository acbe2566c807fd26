//! How far one client goes: over a long line, with many sessions, with many receivers that have nothing to do.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use servicebus::{Message, ReceiverOptions, SessionReceiver};

use crate::line::Line;
use crate::support::*;

/// Works on each message for a millisecond while the ones before it are settled; says how long all of them took.
async fn work_over(line: Line) -> Duration {
    const COUNT: usize = 5000;
    let world = World::new().await;
    let queue = world.queue("q");
    let all = (0..COUNT).map(|n| n.to_string());
    world.client.sender("q").send_all(all).await.unwrap();
    let client = line.client(&world.emulator, impatient());
    let options = ReceiverOptions::new().prefetch(1000);
    let receiver = client.receiver_with("q", options);
    // The link is attached, and its first messages are here.
    receiver.receive().await.unwrap().complete().await.unwrap();
    let began = tokio::time::Instant::now();
    let mut settling = tokio::task::JoinSet::new();
    let mut messages = receiver.stream().take(COUNT - 1);
    while let Some(message) = messages.next().await {
        tokio::time::sleep(millis(1)).await;
        settling.spawn(message.unwrap().complete());
    }
    while let Some(settled) = settling.join_next().await {
        settled.unwrap().unwrap();
    }
    assert_eq!(queue.counts().unwrap().active, 0);
    began.elapsed()
}

/// With fifty milliseconds each way, messages that are fetched ahead come at four fifths of the rate at least.
#[tokio::test(start_paused = true)]
async fn a_long_line_costs_little_with_prefetch() {
    let near = work_over(Line::of_length(millis(0))).await;
    let far = work_over(Line::of_length(millis(50))).await;
    assert!(far <= near.mul_f64(1.25), "{near:?} near, {far:?} far");
}

#[tokio::test(start_paused = true)]
async fn five_thousand_sessions_are_open_on_one_client() {
    const COUNT: usize = 5000;
    let world = World::new().await;
    let queue = world.session_queue("q");
    let client = &world.client;
    let accept = |n: usize| client.accept_session("q", n.to_string());
    let accepting = stream::iter(0..COUNT).map(accept).buffered(200);
    let sessions = accepting.map(Result::unwrap).collect();
    let sessions: Vec<SessionReceiver> = tokio::time::timeout(secs(300), sessions).await.unwrap();
    assert_eq!(queue.snapshot().unwrap().receivers.len(), COUNT);
    assert_eq!(world.emulator.connections().len(), 1);
    // All of them work.
    let messages = (0..COUNT).map(|n| Message::new(n.to_string()).session_id(n.to_string()));
    soon(client.sender("q").send_all(messages)).await.unwrap();
    for (n, session) in sessions.iter().enumerate() {
        let message = soon(session.receive()).await.unwrap();
        assert_eq!(message.text().unwrap(), n.to_string());
        soon(message.complete()).await.unwrap();
    }
    soon(sessions[COUNT - 1].set_state("done")).await.unwrap();
    assert_eq!(queue.counts().unwrap().active, 0);
}

/// Less than 16 KiB for a receiver, the emulator's part included.
#[test]
fn a_receiver_without_messages_costs_little() {
    const COUNT: usize = 500;
    let runtime = paused_runtime();
    let world = runtime.block_on(World::new());
    world.queue("q");
    let open = |count: usize| {
        runtime.block_on(async {
            let receivers: Vec<_> = (0..count).map(|_| world.client.receiver("q")).collect();
            let receives = receivers
                .iter()
                .map(|receiver| receiver.receive_within(secs(1)));
            for received in futures_util::future::join_all(receives).await {
                assert!(received.unwrap().is_none());
            }
            tokio::time::sleep(secs(30)).await;
            receivers
        })
    };
    let _first = open(20);
    let mut receivers = Vec::new();
    let memory = allocation_counter::measure(|| receivers = open(COUNT));
    let each = memory.bytes_current / i64::try_from(receivers.len()).unwrap();
    println!("an idle receiver, with the emulator's part of it: {each} bytes");
    assert!(each < 16 * 1024, "{each} bytes");
}
