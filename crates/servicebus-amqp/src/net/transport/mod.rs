//! Byte streams that carry AMQP: TCP, TLS, WebSocket, and whatever else reads and writes.

mod prefixed;
mod proxy;
mod tls;
mod websocket;

use std::borrow::Cow;

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

/// A host as it stands before a port: an IPv6 address in brackets (RFC 3986 §3.2.2).
pub(super) fn bracketed(host: &str) -> Cow<'_, str> {
    if host.contains(':') && !host.starts_with('[') {
        Cow::Owned(format!("[{host}]"))
    } else {
        Cow::Borrowed(host)
    }
}

#[cfg(test)]
mod tests {
    use super::bracketed;

    #[test]
    fn only_bare_ipv6_addresses_get_brackets() {
        for (host, expected) in [
            ("::1", "[::1]"),
            ("[::1]", "[::1]"),
            ("127.0.0.1", "127.0.0.1"),
            ("namespace.example", "namespace.example"),
        ] {
            assert_eq!(bracketed(host), expected);
        }
    }
}
