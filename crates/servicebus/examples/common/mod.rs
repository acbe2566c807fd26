//! Where the examples run: against an emulator in this process or, when `SERVICEBUS_CONNECTION_STRING` is set, against a
//! real namespace, which needs the queues `orders` and, with sessions, `carts`.

use servicebus::Client;
use servicebus_emulator::Emulator;
use servicebus_emulator::broker::QueueOptions;

/// A client, and the emulator that it talks to, if that is one.
pub(crate) struct Namespace {
    pub(crate) client: Client,
    pub(crate) emulator: Option<Emulator>,
}

pub(crate) type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

pub(crate) async fn connect() -> Result<Namespace> {
    if let Ok(text) = std::env::var("SERVICEBUS_CONNECTION_STRING") {
        let client = Client::from_connection_string(&text)?;
        return Ok(Namespace {
            client,
            emulator: None,
        });
    }
    let emulator = Emulator::start().await?;
    let namespace = emulator.default_namespace();
    namespace.create_queue("orders", QueueOptions::default())?;
    let mut options = QueueOptions::default();
    options.requires_session = true;
    namespace.create_queue("carts", options)?;
    let client = Client::from_connection_string(&emulator.connection_string())?;
    Ok(Namespace {
        client,
        emulator: Some(emulator),
    })
}
