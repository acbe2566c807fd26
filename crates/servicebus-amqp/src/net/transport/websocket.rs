//! AMQP in binary WebSocket messages. Frames of AMQP and messages of WebSocket need not align (case B29).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::header::SEC_WEBSOCKET_PROTOCOL;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};

use super::{BoxedStream, ByteStream};
use crate::net::ConnectError;

/// The sub-protocols that name AMQP 1.0: the registered one, and the one that Azure's clients use.
const SUB_PROTOCOLS: [&str; 2] = ["amqp", "AMQPWSB10"];

/// The largest WebSocket message that is taken. Peers send an AMQP frame or a few of them in one.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// The most bytes of AMQP that one outgoing message carries.
const MAX_OUTGOING: usize = 256 * 1024;

/// Opens a WebSocket over a stream that leads to the host.
pub(in crate::net) async fn connect_websocket(
    url: &str,
    sub_protocol: &'static str,
    stream: impl ByteStream + 'static,
) -> Result<BoxedStream, ConnectError> {
    let mut request = url
        .into_client_request()
        .map_err(|error| ConnectError::websocket(url, error.to_string()))?;
    let sub_protocol_header = HeaderValue::from_str(sub_protocol)
        .map_err(|error| ConnectError::websocket(url, format!("its sub-protocol: {error}")))?;
    request
        .headers_mut()
        .insert(SEC_WEBSOCKET_PROTOCOL, sub_protocol_header);
    let (socket, response) =
        tokio_tungstenite::client_async_with_config(request, stream, Some(config()))
            .await
            .map_err(|error| ConnectError::from_websocket(url, error))?;
    let chosen = response
        .headers()
        .get(SEC_WEBSOCKET_PROTOCOL)
        .and_then(|value| value.to_str().ok());
    if chosen.is_none_or(|chosen| !chosen.eq_ignore_ascii_case(sub_protocol)) {
        let reason = format!(
            "the server answered with sub-protocol {chosen:?} where {sub_protocol:?} was asked for"
        );
        return Err(ConnectError::websocket(url, reason));
    }
    Ok(Box::new(AmqpWebSocket::new(socket)))
}

/// Answers a WebSocket request; any path will do.
pub(in crate::net) async fn accept_websocket(
    stream: impl ByteStream + 'static,
) -> io::Result<BoxedStream> {
    let socket = tokio_tungstenite::accept_hdr_async_with_config(
        stream,
        choose_sub_protocol,
        Some(config()),
    )
    .await
    .map_err(into_io)?;
    Ok(Box::new(AmqpWebSocket::new(socket)))
}

#[expect(
    clippy::result_large_err,
    reason = "the signature is the one of tungstenite's callback"
)]
fn choose_sub_protocol(
    request: &Request,
    mut response: Response,
) -> Result<Response, ErrorResponse> {
    let offered = request.headers().get_all(SEC_WEBSOCKET_PROTOCOL);
    let mut names = offered
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let chosen = names.find_map(|name| {
        let name = name.trim();
        SUB_PROTOCOLS
            .iter()
            .any(|known| known.eq_ignore_ascii_case(name))
            .then(|| HeaderValue::from_str(name).ok())?
    });
    if let Some(chosen) = chosen {
        response
            .headers_mut()
            .insert(SEC_WEBSOCKET_PROTOCOL, chosen);
        Ok(response)
    } else {
        let mut refusal = ErrorResponse::new(Some(format!(
            "offer one of the sub-protocols {SUB_PROTOCOLS:?}"
        )));
        *refusal.status_mut() = StatusCode::BAD_REQUEST;
        Err(refusal)
    }
}

fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(16 * 1024)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * MAX_OUTGOING)
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
}

fn into_io(error: tungstenite::Error) -> io::Error {
    match error {
        tungstenite::Error::Io(error) => error,
        error => io::Error::other(error),
    }
}

/// The bytes in the binary messages of a WebSocket.
struct AmqpWebSocket<S> {
    socket: WebSocketStream<S>,
    unread: Bytes,
}

impl<S> AmqpWebSocket<S> {
    fn new(socket: WebSocketStream<S>) -> Self {
        Self {
            socket,
            unread: Bytes::new(),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for AmqpWebSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            let message = match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                Some(Ok(message)) => message,
                Some(Err(tungstenite::Error::ConnectionClosed)) | None => {
                    return Poll::Ready(Ok(()));
                }
                Some(Err(error)) => return Poll::Ready(Err(into_io(error))),
            };
            match message {
                Message::Binary(bytes) => self.unread = bytes,
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
                Message::Text(_) => {
                    let error = "a text message on a WebSocket that carries AMQP";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
                }
                Message::Close(Some(frame))
                    if frame.code != CloseCode::Normal && frame.code != CloseCode::Away =>
                {
                    let error = format!(
                        "the peer closed the WebSocket with code {}: {}",
                        frame.code, frame.reason
                    );
                    return Poll::Ready(Err(io::Error::new(
                        io::ErrorKind::ConnectionAborted,
                        error,
                    )));
                }
                Message::Close(_) => return Poll::Ready(Ok(())),
            }
        }
        let length = self.unread.len().min(buf.remaining());
        buf.put_slice(self.unread.split_to(length).chunk());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for AmqpWebSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(into_io)?;
        let bytes = buf.get(..MAX_OUTGOING).unwrap_or(buf);
        Pin::new(&mut self.socket)
            .start_send(Message::Binary(Bytes::copy_from_slice(bytes)))
            .map_err(into_io)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx).map_err(into_io)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(Pin::new(&mut self.socket).poll_close(cx)) {
            Ok(())
            | Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                Poll::Ready(Ok(()))
            }
            Err(error) => Poll::Ready(Err(into_io(error))),
        }
    }
}
