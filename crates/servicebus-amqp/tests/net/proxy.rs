use servicebus_amqp::engine::Config;
use servicebus_amqp::net::{
    ConnectError, ConnectOptions, Connection, ListenOptions, Listener, Proxy, Transport,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::pair::exchange;

/// Reads the request, gives this answer, and, where `to` is set, tunnels. Returns the lines of the request.
async fn serve(proxy: &TcpListener, answer: &str, to: Option<u16>) -> Vec<String> {
    let (stream, _) = proxy.accept().await.unwrap();
    let mut stream = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        if line == "\r\n" || line.is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    stream.write_all(answer.as_bytes()).await.unwrap();
    if let Some(port) = to {
        let mut onwards = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        tokio::spawn(async move { copy_bidirectional(&mut stream, &mut onwards).await });
    }
    lines
}

#[tokio::test]
async fn every_transport_goes_through_the_tunnel() {
    let (listener, pem) = crate::tls::listener().await;
    let port = listener.local_addr().unwrap().port();
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy_port = proxy.local_addr().unwrap().port();
    for transport in [Transport::Tcp, Transport::SecureWebSocket] {
        let options = ConnectOptions::new(transport)
            .with_tls(crate::tls::trusting(&pem))
            .with_proxy(Proxy::new("127.0.0.1", proxy_port).with_credentials("user", "pass"));
        let connect =
            Connection::connect("namespace.example", 5671, &options, Config::new("client"));
        let accept = async {
            listener
                .accept()
                .await
                .unwrap()
                .open(Config::new("listener"))
                .await
        };
        let answer = "HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n";
        let (client, served, request) =
            tokio::join!(connect, accept, serve(&proxy, answer, Some(port)));
        assert_eq!(
            request,
            [
                "CONNECT namespace.example:5671 HTTP/1.1",
                "Host: namespace.example:5671",
                "Proxy-Authorization: Basic dXNlcjpwYXNz",
            ]
        );
        exchange(&client.unwrap(), &served.unwrap()).await;
    }
}

#[tokio::test]
async fn a_proxy_that_does_not_tunnel_is_a_typed_error() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(10_000));
    for (answer, words) in [
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407"),
        ("SSH-2.0-OpenSSH\r\n\r\n", "not HTTP"),
        ("", "without an answer"),
        (long.as_str(), "longer"),
    ] {
        let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = proxy.local_addr().unwrap().port();
        let options = ConnectOptions::new(Transport::Tcp).with_proxy(Proxy::new("127.0.0.1", port));
        let connect =
            Connection::connect("namespace.example", 5672, &options, Config::new("client"));
        let (client, _) = tokio::join!(connect, serve(&proxy, answer, None));
        let error = client.unwrap_err();
        assert!(
            matches!(&error, ConnectError::Proxy(reason) if reason.contains(words)),
            "{error}"
        );
    }
}

#[test]
fn credentials_do_not_show() {
    let proxy = Proxy::new("127.0.0.1", 3128).with_credentials("user", "S3CRETKEY");
    let options = ConnectOptions::default().with_proxy(proxy);
    assert!(!format!("{options:?}").contains("S3CRETKEY"));
}

#[tokio::test]
async fn a_refused_connection_keeps_the_cause_of_the_system() {
    let port = Listener::bind("127.0.0.1:0", ListenOptions::default())
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let options = ConnectOptions::new(Transport::Tcp);
    let error = Connection::connect("127.0.0.1", port, &options, Config::new("client"))
        .await
        .unwrap_err();
    let ConnectError::Io(error) = error else {
        panic!("{error}")
    };
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}
