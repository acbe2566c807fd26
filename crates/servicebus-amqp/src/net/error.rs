use std::io;

use tokio_tungstenite::tungstenite;

use crate::engine::ConnectionError;

/// Why a connection could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The host could not be resolved or reached, or the stream broke before AMQP was spoken.
    #[error("cannot reach the peer: {0}")]
    Io(#[from] io::Error),
    /// TLS could not be agreed on, the peer's certificate among the causes. Trying again will not help.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The HTTP proxy did not open a tunnel.
    #[error("the proxy failed: {0}")]
    Proxy(String),
    /// The server did not open a WebSocket that carries AMQP.
    #[error("the WebSocket {url} failed: {reason}")]
    WebSocket {
        /// What was asked for.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The peer did not open the AMQP connection.
    #[error("the peer did not open the connection: {0}")]
    Connection(#[from] ConnectionError),
    /// It took longer than the time-out allows.
    #[error("the connection was not open in time")]
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
