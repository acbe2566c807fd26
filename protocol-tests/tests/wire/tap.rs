//! A client of an emulator in memory, and the frames that it sends.

use std::fmt;
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use protocol_tests::notation;
use servicebus::{Client, ClientOptions, Connect, Connecting};
use servicebus_amqp::codec::{Frame, decode_frame};
use servicebus_amqp::engine::{Config, Side};
use servicebus_amqp::net::Connection;
use servicebus_emulator::Emulator;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Where the bytes of the client are read along.
#[derive(Clone, Default)]
pub(crate) struct Tap(Arc<Mutex<BytesMut>>);

impl Tap {
    pub(crate) fn client(&self, emulator: &Arc<Emulator>, options: ClientOptions) -> Client {
        let connector: Arc<dyn Connect> = Arc::new(Line {
            tap: self.clone(),
            emulator: Arc::clone(emulator),
        });
        let options = options.connector(connector);
        Client::from_connection_string_with(&emulator.connection_string(), options).unwrap()
    }

    /// What the client has sent since this was asked last. What an operation was answered for is among it.
    pub(crate) fn sent(&self) -> Vec<String> {
        let mut bytes = self.0.lock().unwrap();
        let mut sent = Vec::new();
        loop {
            if bytes.starts_with(b"AMQP") {
                let layer = if bytes.split_to(8)[4] == 3 {
                    "sasl"
                } else {
                    "amqp"
                };
                sent.push(format!("protocol-header {layer}"));
                continue;
            }
            let Some(frame) = decode_frame(&mut bytes, u32::MAX).unwrap() else {
                return sent;
            };
            if !matches!(frame, Frame::Empty { .. }) {
                sent.push(notation::frame(&frame).unwrap());
            }
        }
    }
}

struct Line {
    tap: Tap,
    emulator: Arc<Emulator>,
}

impl Connect for Line {
    fn connect(&self, config: Config) -> Connecting<'_> {
        Box::pin(async {
            let (near, client) = tokio::io::duplex(64 * 1024);
            let (mut near_read, mut near_write) = tokio::io::split(near);
            let (mut far_read, mut far_write) = tokio::io::split(self.emulator.connect());
            let tap = self.tap.clone();
            tokio::spawn(async move {
                let mut bytes = vec![0; 64 * 1024];
                while let Ok(count @ 1..) = near_read.read(&mut bytes).await {
                    tap.0.lock().unwrap().extend_from_slice(&bytes[..count]);
                    if far_write.write_all(&bytes[..count]).await.is_err() {
                        break;
                    }
                }
                let _ = far_write.shutdown().await;
            });
            tokio::spawn(async move { tokio::io::copy(&mut far_read, &mut near_write).await });
            let connection = Connection::over(client, Side::Client, config);
            connection.opened().await?;
            Ok(connection)
        })
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}
