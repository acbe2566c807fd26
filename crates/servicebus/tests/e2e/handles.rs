//! A service that takes few links in a session.

use std::fmt;
use std::sync::Arc;

use bytes::BytesMut;
use servicebus::{Client, Connect, Connecting};
use servicebus_amqp::codec::{Frame, decode_frame, encode_frame};
use servicebus_amqp::engine::{Config, Side};
use servicebus_amqp::net::Connection;
use servicebus_amqp::types::Performative;
use servicebus_emulator::Emulator;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use crate::support::*;

/// Connects to the emulator, whose begins say another handle-max on the way.
struct Limiting {
    emulator: Arc<Emulator>,
    handle_max: u32,
}

impl Connect for Limiting {
    fn connect(&self, config: Config) -> Connecting<'_> {
        Box::pin(async {
            let (near, client) = tokio::io::duplex(64 * 1024);
            tokio::spawn(carry(near, self.emulator.connect(), self.handle_max));
            let connection = Connection::over(client, Side::Client, config);
            connection.opened().await?;
            Ok(connection)
        })
    }
}

impl fmt::Debug for Limiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Limiting")
    }
}

async fn carry(near: DuplexStream, far: DuplexStream, handle_max: u32) {
    let (mut near_read, mut near_write) = tokio::io::split(near);
    let (mut far_read, mut far_write) = tokio::io::split(far);
    let there = tokio::io::copy(&mut near_read, &mut far_write);
    let back = async {
        let mut input = BytesMut::new();
        while far_read.read_buf(&mut input).await.is_ok_and(|n| n > 0) {
            while let Some(mut unit) = take_unit(&mut input) {
                limit(&mut unit, handle_max);
                if near_write.write_all(&unit).await.is_err() {
                    return;
                }
            }
        }
    };
    tokio::select! {
        _ = there => {}
        () = back => {}
    }
}

/// A protocol header or a frame, once the whole of it is there.
fn take_unit(input: &mut BytesMut) -> Option<BytesMut> {
    let start = *input.first_chunk::<4>()?;
    let len = match &start {
        b"AMQP" => 8,
        _ => u32::from_be_bytes(start) as usize,
    };
    (input.len() >= len).then(|| input.split_to(len))
}

fn limit(unit: &mut BytesMut, handle_max: u32) {
    if unit.starts_with(b"AMQP") {
        return;
    }
    let frame = decode_frame(&mut unit.clone(), u32::MAX).unwrap().unwrap();
    if let Frame::Amqp {
        channel,
        performative: Performative::Begin(mut begin),
        ..
    } = frame
    {
        begin.handle_max = handle_max;
        unit.clear();
        encode_frame(unit, channel, &Performative::Begin(begin));
    }
}

/// Uses links and pairs of links to this many queues at a time, and counts the sessions that it takes.
async fn sessions_for(queues: usize, handle_max: u32) -> usize {
    let world = World::with_frames().await;
    let emulator = Arc::clone(&world.emulator);
    let connector: Arc<dyn Connect> = Arc::new(Limiting {
        emulator,
        handle_max,
    });
    let client = Client::from_connection_string_with(
        &world.emulator.connection_string(),
        impatient().connector(connector),
    )
    .unwrap();
    let mut senders = Vec::new();
    for name in (0..queues).map(|number| format!("q{number}")) {
        world.queue(&name);
        let sender = client.sender(name.as_str());
        soon(sender.send("m")).await.unwrap();
        soon(client.receiver(name.as_str()).peek(1)).await.unwrap();
        senders.push(sender);
    }
    // A sender and a pair to each queue, and a pair to $cbs.
    assert_eq!(world.count_frames("Attach {"), 3 * queues + 2);
    for handle in (handle_max + 1)..(handle_max + 9) {
        assert_eq!(world.count_frames(&format!("handle: {handle},")), 0);
    }
    world.count_frames("Begin {")
}

#[tokio::test(start_paused = true)]
async fn b22_links_beyond_the_handle_max_go_to_further_sessions() {
    // Four links or pairs of links go into a session; the pair to $cbs has one of its own.
    assert_eq!(sessions_for(10, 7).await, 1 + 5);
}

#[tokio::test(start_paused = true)]
async fn b22_a_session_that_takes_one_pair() {
    assert_eq!(sessions_for(3, 1).await, 1 + 6);
}
