use std::fmt;
use std::io;

use data_encoding::BASE64;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::bracketed;
use crate::net::ConnectError;

/// The longest answer of a proxy that is read, in bytes.
const MAX_ANSWER: usize = 8 * 1024;

/// An HTTP proxy that tunnels connections (`CONNECT`, RFC 9110 §9.3.6).
///
/// `Debug` leaves the credentials out.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    host: String,
    port: u16,
    credentials: Option<(String, String)>,
}

impl Proxy {
    /// The proxy at this host and port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
            credentials: None,
        }
    }

    /// Authenticates to the proxy with the scheme *Basic*.
    #[must_use]
    pub fn with_credentials(
        mut self,
        user: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        self.credentials = Some((user.into(), password.into()));
        self
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// Opens a connection to a host through a proxy.
pub(in crate::net) async fn open_tunnel(
    proxy: &Proxy,
    host: &str,
    port: u16,
) -> Result<TcpStream, ConnectError> {
    let mut stream = TcpStream::connect((proxy.host.as_str(), proxy.port))
        .await
        .map_err(|error| {
            ConnectError::Io(io::Error::new(
                error.kind(),
                format!("proxy {}:{}: {error}", proxy.host, proxy.port),
            ))
        })?;
    let host = bracketed(host);
    let mut request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
    if let Some((user, password)) = &proxy.credentials {
        let credentials = BASE64.encode(format!("{user}:{password}").as_bytes());
        request.push_str(&format!("Proxy-Authorization: Basic {credentials}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    read_answer(&mut stream).await?;
    Ok(stream)
}

/// Reads the head of the answer and nothing behind it: what follows belongs to the tunnel.
async fn read_answer(stream: &mut TcpStream) -> Result<(), ConnectError> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_ANSWER {
            return Err(ConnectError::proxy(format!(
                "its answer is longer than {MAX_ANSWER} bytes"
            )));
        }
        let byte = stream.read_u8().await.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                ConnectError::proxy("it closed the connection without an answer")
            }
            _ => ConnectError::Io(error),
        })?;
        head.push(byte);
    }
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    response
        .parse(&head)
        .map_err(|error| ConnectError::proxy(format!("its answer is not HTTP: {error}")))?;
    match response.code {
        Some(200..=299) => Ok(()),
        code => {
            let code = code.unwrap_or_default();
            let reason = response.reason.unwrap_or_default();
            Err(ConnectError::proxy(format!(
                "it refused the tunnel: {code} {reason}"
            )))
        }
    }
}
