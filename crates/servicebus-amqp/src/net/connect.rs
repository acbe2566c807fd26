use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::transport::{BoxedStream, Proxy, TlsOptions, bracketed, connect_websocket, open_tunnel};
use super::{ConnectError, Connection};
use crate::engine;

/// What carries the AMQP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// TLS from the first byte, on port 5671 by convention.
    #[default]
    Tls,
    /// Plain TCP, on port 5672 by convention.
    Tcp,
    /// WebSocket over TLS (`wss`), on port 443 by convention.
    SecureWebSocket,
    /// Plain WebSocket (`ws`), on port 80 by convention.
    WebSocket,
}

impl Transport {
    /// The port that goes with the transport by convention.
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Tls => 5671,
            Self::Tcp => 5672,
            Self::SecureWebSocket => 443,
            Self::WebSocket => 80,
        }
    }
}

/// How to reach a peer and what to say to it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// What carries the connection. TLS by default; nothing ever falls back to a plain transport.
    pub transport: Transport,
    /// How the peer's certificate is checked.
    pub tls: TlsOptions,
    /// The HTTP proxy to go through. None by default.
    pub proxy: Option<Proxy>,
    /// The path of the WebSocket. `/` by default.
    pub websocket_path: String,
    /// The sub-protocol of the WebSocket. `amqp` by default.
    pub websocket_protocol: &'static str,
    /// How long it may take from the look-up of the host's name to the peer's `open`. 30 seconds by default.
    pub timeout: Duration,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            transport: Transport::default(),
            tls: TlsOptions::default(),
            proxy: None,
            websocket_path: "/".to_owned(),
            websocket_protocol: "amqp",
            timeout: Duration::from_secs(30),
        }
    }
}

impl ConnectOptions {
    /// Options for this transport, with defaults for the rest.
    pub fn new(transport: Transport) -> Self {
        Self {
            transport,
            ..Self::default()
        }
    }

    /// Sets how the peer's certificate is checked.
    #[must_use]
    pub fn with_tls(mut self, tls: TlsOptions) -> Self {
        self.tls = tls;
        self
    }

    /// Goes through this HTTP proxy.
    #[must_use]
    pub fn with_proxy(mut self, proxy: Proxy) -> Self {
        self.proxy = Some(proxy);
        self
    }

    /// Sets the path and the sub-protocol of the WebSocket.
    #[must_use]
    pub fn with_websocket(mut self, path: impl Into<String>, protocol: &'static str) -> Self {
        self.websocket_path = path.into();
        self.websocket_protocol = protocol;
        self
    }

    /// Sets how long connecting may take.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl Connection {
    /// Connects to a host and opens an AMQP connection. The host's name is looked up anew each time.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] says at which layer it failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the socket; nothing stays behind.
    pub async fn connect(
        host: &str,
        port: u16,
        options: &ConnectOptions,
        config: engine::Config,
    ) -> Result<Self, ConnectError> {
        let connecting = async {
            // Boxed: the handshakes of TLS and WebSocket take 16 KiB, once per connection.
            let stream = Box::pin(open_stream(host, port, options)).await?;
            let connection = Self::over(stream, engine::Side::Client, config);
            connection.opened().await?;
            Ok(connection)
        };
        timeout(options.timeout, connecting)
            .await
            .map_err(|_| ConnectError::Timeout)?
    }
}

async fn open_stream(
    host: &str,
    port: u16,
    options: &ConnectOptions,
) -> Result<BoxedStream, ConnectError> {
    let tcp = match &options.proxy {
        Some(proxy) => open_tunnel(proxy, host, port).await?,
        None => TcpStream::connect((host.trim_matches(['[', ']']), port)).await?,
    };
    tcp.set_nodelay(true)?;
    let url = |scheme: &str| {
        let host = bracketed(host);
        format!("{scheme}://{host}:{port}{}", options.websocket_path)
    };
    match options.transport {
        Transport::Tcp => Ok(Box::new(tcp)),
        Transport::Tls => options.tls.connect(host, tcp).await,
        Transport::WebSocket => {
            connect_websocket(&url("ws"), options.websocket_protocol, tcp).await
        }
        Transport::SecureWebSocket => {
            let stream = options.tls.connect(host, tcp).await?;
            connect_websocket(&url("wss"), options.websocket_protocol, stream).await
        }
    }
}
