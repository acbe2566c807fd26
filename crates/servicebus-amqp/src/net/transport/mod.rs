//! Byte streams that carry AMQP: TCP, TLS, WebSocket, and whatever else reads and writes.

mod prefixed;
mod proxy;
mod tls;
mod websocket;

use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) use prefixed::Prefixed;
pub use proxy::Proxy;
pub(super) use proxy::open_tunnel;
pub use tls::TlsOptions;
pub(super) use websocket::{accept_websocket, connect_websocket};

/// A byte stream that the driver can own: implemented for all that reads and writes.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// A byte stream of a kind that is chosen at run time.
pub(crate) type BoxedStream = Box<dyn ByteStream>;
