use std::fmt;
use std::io;

use tokio_tungstenite::tungstenite;

use crate::engine::ConnectionError;

/// Why a connection could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The host could not be resolved or reached, or the stream broke before AMQP was spoken.
    Io(io::Error),
    /// TLS could not be agreed on, the peer's certificate among the causes. Trying again will not help.
    Tls(String),
    /// The HTTP proxy did not open a tunnel.
    Proxy(String),
    /// The server did not open a WebSocket that carries AMQP.
    WebSocket {
        /// What was asked for.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The peer did not open the AMQP connection.
    Connection(ConnectionError),
    /// It took longer than the time-out allows.
    Timeout,
}

impl ConnectError {
    pub(super) fn tls(reason: impl Into<String>) -> Self {
        Self::Tls(reason.into())
    }

    pub(super) fn proxy(reason: impl Into<String>) -> Self {
        Self::Proxy(reason.into())
    }

    pub(super) fn websocket(url: &str, reason: impl Into<String>) -> Self {
        Self::WebSocket {
            url: url.to_owned(),
            reason: reason.into(),
        }
    }

    /// The TLS layer reports its own errors inside of I/O errors.
    pub(super) fn from_tls_io(error: io::Error) -> Self {
        match error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>())
        {
            Some(error) => Self::Tls(error.to_string()),
            None => Self::Io(error),
        }
    }

    pub(super) fn from_websocket(url: &str, error: tungstenite::Error) -> Self {
        match error {
            tungstenite::Error::Io(error) => Self::Io(error),
            tungstenite::Error::Http(response) => {
                Self::websocket(url, format!("the server answered {}", response.status()))
            }
            error => Self::websocket(url, error.to_string()),
        }
    }
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ConnectionError> for ConnectError {
    fn from(error: ConnectionError) -> Self {
        Self::Connection(error)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot reach the peer: {error}"),
            Self::Tls(reason) => write!(f, "TLS failed: {reason}"),
            Self::Proxy(reason) => write!(f, "the proxy failed: {reason}"),
            Self::WebSocket { url, reason } => write!(f, "the WebSocket {url} failed: {reason}"),
            Self::Connection(error) => write!(f, "the peer did not open the connection: {error}"),
            Self::Timeout => f.write_str("the connection was not open in time"),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Connection(error) => Some(error),
            Self::Tls(_) | Self::Proxy(_) | Self::WebSocket { .. } | Self::Timeout => None,
        }
    }
}
