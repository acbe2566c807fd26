//! Case B29: AMQP in WebSocket messages whose bounds are not those of frames.

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use servicebus_amqp::codec::{AMQP_HEADER, encode_frame};
use servicebus_amqp::engine::{Config, ConnectionError};
use servicebus_amqp::net::{ConnectError, ConnectOptions, Connection, Transport};
use servicebus_amqp::types::{Open, Performative};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

fn options() -> ConnectOptions {
    ConnectOptions::new(Transport::WebSocket).with_websocket("/$servicebus/websocket", "AMQPWSB10")
}

/// A server that answers any request with this sub-protocol, and what was asked of it.
async fn serve(
    listener: &TcpListener,
    answer: Option<&'static str>,
) -> (WebSocketStream<TcpStream>, String, String) {
    let (tcp, _) = listener.accept().await.unwrap();
    let (mut path, mut offered) = (String::new(), String::new());
    #[expect(
        clippy::result_large_err,
        reason = "the signature is the one of tungstenite's callback"
    )]
    let callback = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        path = request.uri().path().to_owned();
        offered = request.headers()["sec-websocket-protocol"]
            .to_str()
            .unwrap()
            .to_owned();
        if let Some(answer) = answer {
            response
                .headers_mut()
                .insert("sec-websocket-protocol", answer.parse().unwrap());
        }
        Ok(response)
    };
    let socket = tokio_tungstenite::accept_hdr_async(tcp, callback)
        .await
        .unwrap();
    (socket, path, offered)
}

/// The bytes with which a listener opens a connection.
fn opening() -> Vec<u8> {
    let mut bytes = bytes::BytesMut::from(&AMQP_HEADER[..]);
    let open = Open {
        container_id: "server".into(),
        hostname: None,
        max_frame_size: 65536,
        channel_max: 10,
        idle_time_out: None,
        outgoing_locales: Vec::new(),
        incoming_locales: Vec::new(),
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: None,
    };
    encode_frame(&mut bytes, 0, &Performative::Open(Box::new(open)));
    bytes.to_vec()
}

#[tokio::test]
async fn b29_frames_may_be_cut_anywhere() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for size in [1, 3, 11, 1000] {
        let options = options();
        let connect = Connection::connect("127.0.0.1", port, &options, Config::new("client"));
        let server = async {
            let (mut socket, path, offered) = serve(&listener, Some("AMQPWSB10")).await;
            assert_eq!(
                (path.as_str(), offered.as_str()),
                ("/$servicebus/websocket", "AMQPWSB10")
            );
            for part in opening().chunks(size) {
                socket
                    .send(Message::Ping(Bytes::from_static(b"there?")))
                    .await
                    .unwrap();
                socket
                    .send(Message::Binary(Bytes::copy_from_slice(part)))
                    .await
                    .unwrap();
                socket.send(Message::Binary(Bytes::new())).await.unwrap();
            }
            socket
        };
        let (client, _socket) = tokio::join!(connect, server);
        assert_eq!(
            client.unwrap().opened().await.unwrap().container_id,
            "server"
        );
    }
}

#[tokio::test]
async fn b29_text_and_abnormal_closes_break_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let error_close = CloseFrame {
        code: CloseCode::Error,
        reason: "oops".into(),
    };
    for (message, words) in [
        (Message::text("hello"), "text"),
        (Message::Close(Some(error_close)), "1011"),
    ] {
        let options = options();
        let connect = Connection::connect("127.0.0.1", port, &options, Config::new("client"));
        let server = async {
            let (mut socket, ..) = serve(&listener, Some("AMQPWSB10")).await;
            socket
                .send(Message::Binary(opening().into()))
                .await
                .unwrap();
            socket.send(message).await.unwrap();
            while let Some(Ok(_)) = socket.next().await {}
        };
        let ((), error) = tokio::join!(server, async {
            match connect.await {
                Ok(client) => client.closed().await,
                Err(ConnectError::Connection(error)) => error,
                Err(error) => panic!("{error}"),
            }
        });
        let ConnectionError::Io(error) = error else {
            panic!("{error}")
        };
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_speak_amqp_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = options();
    let connect = Connection::connect("127.0.0.1", port, &options, Config::new("client"));
    let (client, _) = tokio::join!(connect, serve(&listener, None));
    let error = client.unwrap_err();
    assert!(matches!(error, ConnectError::WebSocket { .. }), "{error}");
}

#[tokio::test]
async fn a_sub_protocol_that_is_no_word_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = ConnectOptions::new(Transport::WebSocket).with_websocket("/", "two\nlines");
    let error = Connection::connect("127.0.0.1", port, &options, Config::new("client"))
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::WebSocket { .. }), "{error}");
}
