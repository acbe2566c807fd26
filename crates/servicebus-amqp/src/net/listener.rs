use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls::ServerConfig;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::transport::{BoxedStream, ByteStream, Prefixed, accept_websocket};
use super::{ConnectError, Connection};
use crate::engine;

/// The first byte of a TLS handshake record.
const TLS_HANDSHAKE: u8 = 0x16;

/// Accepts AMQP connections on a TCP port: plain, over TLS and over WebSocket, told apart by their first bytes.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    options: Arc<ListenOptions>,
}

/// What a [`Listener`] accepts.
#[derive(Clone)]
#[non_exhaustive]
pub struct ListenOptions {
    /// The certificate and key for TLS. None by default: TLS is refused.
    pub tls: Option<Arc<ServerConfig>>,
    /// Whether connections without TLS are taken. True by default.
    pub plain: bool,
    /// How long a peer may take for TLS and WebSocket handshakes. 10 seconds by default.
    pub timeout: Duration,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            tls: None,
            plain: true,
            timeout: Duration::from_secs(10),
        }
    }
}

impl ListenOptions {
    /// Takes TLS with this certificate and key.
    #[must_use]
    pub fn with_tls(mut self, tls: Arc<ServerConfig>) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Refuses connections without TLS.
    #[must_use]
    pub fn without_plain(mut self) -> Self {
        self.plain = false;
        self
    }

    /// Sets how long a peer may take for TLS and WebSocket handshakes.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl fmt::Debug for ListenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenOptions")
            .field("tls", &self.tls.is_some())
            .field("plain", &self.plain)
            .field("timeout", &self.timeout)
            .finish()
    }
}

impl Listener {
    /// Listens on an address; port 0 lets the system choose.
    ///
    /// # Errors
    ///
    /// The system's error when it can't be listened on.
    pub async fn bind(address: impl ToSocketAddrs, options: ListenOptions) -> io::Result<Self> {
        let tcp = TcpListener::bind(address).await?;
        Ok(Self {
            tcp,
            options: Arc::new(options),
        })
    }

    /// The address that is listened on.
    ///
    /// # Errors
    ///
    /// The system's error when it does not know.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Waits for the next connection. Handshakes are left to [`Incoming`], so that a slow peer delays nobody.
    ///
    /// # Errors
    ///
    /// The system's error, as when it is out of file descriptors; the listener can be used again.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn accept(&self) -> io::Result<Incoming> {
        let (tcp, peer) = self.tcp.accept().await?;
        tcp.set_nodelay(true)?;
        Ok(Incoming {
            tcp,
            peer,
            options: Arc::clone(&self.options),
        })
    }
}

/// A connection that a [`Listener`] accepted and that has said nothing yet.
#[derive(Debug)]
pub struct Incoming {
    tcp: TcpStream,
    peer: SocketAddr,
    options: Arc<ListenOptions>,
}

impl Incoming {
    /// The address of the peer.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// Does the handshakes of TLS, WebSocket and AMQP, up to the peer's `open`.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] says at which layer it failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the socket.
    pub async fn open(self, config: engine::Config) -> Result<Connection, ConnectError> {
        let connection =
            Connection::over(self.into_stream().await?, engine::Side::Listener, config);
        connection.opened().await?;
        Ok(connection)
    }

    /// Does the handshakes of TLS and WebSocket, for those who drive the engine on their own.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] says at which layer it failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the socket.
    pub async fn into_stream(self) -> Result<Box<dyn ByteStream>, ConnectError> {
        let Self { tcp, options, .. } = self;
        timeout(options.timeout, Box::pin(identify(tcp, &options)))
            .await
            .map_err(|_| ConnectError::Timeout)?
    }
}

async fn identify(tcp: TcpStream, options: &ListenOptions) -> Result<BoxedStream, ConnectError> {
    let mut first = [0];
    if tcp.peek(&mut first).await? == 0 {
        return Err(closed_before_first_byte());
    }
    if first == [TLS_HANDSHAKE] {
        let Some(tls) = &options.tls else {
            return Err(ConnectError::tls(
                "the peer speaks TLS, and this listener has no certificate",
            ));
        };
        let mut stream = TlsAcceptor::from(Arc::clone(tls))
            .accept(tcp)
            .await
            .map_err(ConnectError::from_tls_io)?;
        if stream.read(&mut first).await? == 0 {
            return Err(closed_before_first_byte());
        }
        return upgrade(first, Prefixed::new(Bytes::copy_from_slice(&first), stream)).await;
    }
    if !options.plain {
        return Err(ConnectError::tls(
            "the peer does not speak TLS, and this listener takes nothing else",
        ));
    }
    upgrade(first, tcp).await
}

/// Answers the WebSocket request of a peer that speaks HTTP; the engine tells AMQP from garbage.
async fn upgrade(
    first: [u8; 1],
    stream: impl ByteStream + 'static,
) -> Result<BoxedStream, ConnectError> {
    if first == *b"G" {
        Ok(accept_websocket(stream).await?)
    } else {
        Ok(Box::new(stream))
    }
}

fn closed_before_first_byte() -> ConnectError {
    ConnectError::Io(io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the peer closed before its first byte",
    ))
}
