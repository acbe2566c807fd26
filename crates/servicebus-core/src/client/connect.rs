use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use servicebus_amqp::engine::Config;
use servicebus_amqp::net::{ConnectError, Connection};

/// The future of [`Connect::connect`].
pub type Connecting<'a> =
    Pin<Box<dyn Future<Output = Result<Connection, ConnectError>> + Send + 'a>>;

/// Opens AMQP connections for a client: over the network, or in memory to an emulator.
pub trait Connect: Debug + Send + Sync + 'static {
    /// Opens a connection with these settings, and waits for the peer's `open`. Names are looked up anew each time.
    ///
    /// It has to come to an end by itself, for there is one attempt at a time; dropping the future has to give it up.
    fn connect(&self, config: Config) -> Connecting<'_>;
}
