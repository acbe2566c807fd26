//! Whether a send would succeed: by sending.

use std::time::Duration;

use bytes::Bytes;
use servicebus_amqp::engine::{
    Config, Credentials, LinkOptions, OutgoingDelivery, Sasl, SessionOptions, Side,
};
use servicebus_amqp::net::Connection;
use servicebus_amqp::types::{DeliveryState, Source, Target};
use servicebus_emulator::broker::QueueOptions;
use servicebus_emulator::{DEFAULT_KEY, Emulator};
use tokio::net::TcpStream;

/// A namespace that no client uses, so that a probe leaves nothing behind.
const NAMESPACE: &str = "$health";
const QUEUE: &str = "probe";
const LIMIT: Duration = Duration::from_secs(2);

/// One data section without data.
const MESSAGE: &[u8] = &[0x00, 0x53, 0x75, 0xa0, 0];

/// Sends a message through the emulator's port.
///
/// # Errors
///
/// What went wrong, in words.
pub(crate) async fn check(emulator: &Emulator) -> Result<(), String> {
    let namespace = emulator.namespace(NAMESPACE);
    let queue = namespace.entity(QUEUE);
    if queue.counts().is_err() {
        namespace
            .create_queue(QUEUE, QueueOptions::default())
            .map_err(|error| error.to_string())?;
    }
    let sent = tokio::time::timeout(LIMIT, send(emulator))
        .await
        .map_err(|_| format!("a send took longer than {LIMIT:?}"))?;
    // The queue may have been deleted with all others meanwhile.
    let _ = queue.purge();
    sent
}

async fn send(emulator: &Emulator) -> Result<(), String> {
    let mut config = Config::new("health");
    config.sasl = Sasl::Client(vec![Credentials::Plain {
        username: NAMESPACE.into(),
        password: DEFAULT_KEY.into(),
    }]);
    let connection = match emulator.local_addr() {
        Some(address) => {
            let stream = TcpStream::connect(address)
                .await
                .map_err(|error| error.to_string())?;
            Connection::over(stream, Side::Client, config)
        }
        None => Connection::over(emulator.connect(), Side::Client, config),
    };
    let session = connection
        .begin(SessionOptions::default())
        .await
        .map_err(|error| error.to_string())?;
    let options = LinkOptions::new(Source::new("health"), Target::new(QUEUE));
    let sender = session
        .attach_sender("health", options, LIMIT)
        .await
        .map_err(|error| error.to_string())?;
    let message = OutgoingDelivery::new(Bytes::from_static(MESSAGE));
    let outcome = sender
        .send(message)
        .await
        .map_err(|error| error.to_string())?;
    connection.close().await;
    match outcome {
        Some(DeliveryState::ACCEPTED) => Ok(()),
        other => Err(format!("a message was not accepted: {other:?}")),
    }
}
