//! The bytes themselves, where clients in the field are more particular than the specification.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use crate::common::*;
use servicebus_amqp::engine::{Config, Credentials, Sasl, SessionOptions, Side};
use servicebus_amqp::net::Connection;
use servicebus_emulator::broker::QueueOptions;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// A stream that keeps what is read from it.
struct Recorder {
    stream: DuplexStream,
    read: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Recorder {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.read
            .lock()
            .unwrap()
            .extend_from_slice(&buf.filled()[before..]);
        polled
    }
}

impl AsyncWrite for Recorder {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The number of fields of each performative of one kind, by hand.
fn fields(bytes: &[u8], performative: u8) -> Vec<u32> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while rest.len() >= 8 {
        if rest.starts_with(b"AMQP") {
            rest = &rest[8..];
            continue;
        }
        let size = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        let frame = &rest[..size];
        rest = &rest[size..];
        let amqp = frame[5] == 0;
        let body = &frame[usize::from(frame[4]) * 4..];
        if !amqp || body.is_empty() || body[..3] != [0x00, 0x53, performative] {
            continue;
        }
        found.push(match body[3] {
            0x45 => 0,
            0xc0 => body[5].into(),
            0xd0 => u32::from_be_bytes(body[8..12].try_into().unwrap()),
            other => panic!("{other:#x} is no list"),
        });
    }
    found
}

/// B108: the Python SDK before 7.14.4 and others read open, begin and attach by position.
#[tokio::test]
async fn b108_performatives_have_all_their_fields() {
    let emulator = emulator().await;
    emulator
        .default_namespace()
        .create_queue("q1", QueueOptions::default())
        .unwrap();
    let read = Arc::new(Mutex::new(Vec::new()));
    let stream = Recorder {
        stream: emulator.connect(),
        read: Arc::clone(&read),
    };
    let mut config = Config::new("test");
    config.sasl = Sasl::Client(vec![Credentials::Anonymous]);
    let connection = Connection::over(stream, Side::Client, config);
    connection.opened().await.unwrap();
    let session = connection.begin(SessionOptions::default()).await.unwrap();
    let client = Client {
        connection,
        session,
    };
    client.sender("q1").await;
    client.receiver("q1", 1).await;
    client.node("q1/$management").await;
    client.node("$cbs").await;

    let read = read.lock().unwrap();
    assert_eq!(fields(&read, 0x10), [10], "open");
    assert_eq!(fields(&read, 0x11), [8], "begin");
    assert_eq!(fields(&read, 0x12), [14; 6], "attach");
}
