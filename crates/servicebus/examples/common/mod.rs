//! Where the examples run: against an emulator in this process or, when `SERVICEBUS_CONNECTION_STRING` is set, against a
//! real namespace, which needs the queues `orders` and, with sessions, `carts`, both empty.

#![allow(dead_code, reason = "each example uses its part of this")]

use std::time::Instant;

use servicebus::{Client, ReceivedMessage};
use servicebus_emulator::Emulator;
use servicebus_emulator::broker::QueueOptions;

/// A client, and the emulator that it talks to, if that is one: it stops when this is dropped.
pub(crate) struct Namespace {
    pub(crate) client: Client,
    _emulator: Option<Emulator>,
}

pub(crate) type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

#[allow(clippy::disallowed_methods, reason = "programs read the clock")]
pub(crate) async fn connect() -> Result<Namespace> {
    if let Ok(text) = std::env::var("SERVICEBUS_CONNECTION_STRING") {
        let client = Client::from_connection_string(&text)?;
        println!("working with {}", client.namespace());
        return Ok(Namespace {
            client,
            _emulator: None,
        });
    }
    let began = Instant::now();
    let emulator = Emulator::start().await?;
    let namespace = emulator.default_namespace();
    namespace.create_queue("orders", QueueOptions::default())?;
    let options = QueueOptions {
        requires_session: true,
        ..QueueOptions::default()
    };
    namespace.create_queue("carts", options)?;
    println!(
        "an emulator is up in this process, after {:.0?}; with SERVICEBUS_CONNECTION_STRING set, a real namespace is used",
        began.elapsed()
    );
    let client = Client::from_connection_string(&emulator.connection_string())?;
    Ok(Namespace {
        client,
        _emulator: Some(emulator),
    })
}

/// The body of a message that is text.
pub(crate) fn text(message: &ReceivedMessage) -> String {
    message.text().unwrap_or_default().to_string()
}
