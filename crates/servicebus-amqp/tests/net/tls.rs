use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use servicebus_amqp::engine::Config;
use servicebus_amqp::net::{
    ConnectError, ConnectOptions, Connection, ListenOptions, Listener, TlsOptions, Transport,
};

use crate::pair::exchange;

/// A listener for the name `localhost`, and the certificate to trust.
pub(crate) async fn listener() -> (Listener, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
    let options = ListenOptions::default().with_tls(Arc::new(config));
    (
        Listener::bind("127.0.0.1:0", options).await.unwrap(),
        cert.pem(),
    )
}

pub(crate) fn trusting(pem: &str) -> TlsOptions {
    TlsOptions::default()
        .add_root_pem(pem.as_bytes())
        .unwrap()
        .with_server_name("localhost")
}

pub(crate) async fn open(listener: &Listener, options: ConnectOptions) -> (Connection, Connection) {
    let (client, served) = attempt(listener, "127.0.0.1", &options).await;
    (client.unwrap(), served.unwrap())
}

/// What connecting to this host gives the client, and what it gives the listener.
async fn attempt(
    listener: &Listener,
    host: &str,
    options: &ConnectOptions,
) -> (
    Result<Connection, ConnectError>,
    Result<Connection, ConnectError>,
) {
    let port = listener.local_addr().unwrap().port();
    let connect = Connection::connect(host, port, options, Config::new("client"));
    let accept = async {
        listener
            .accept()
            .await
            .unwrap()
            .open(Config::new("listener"))
            .await
    };
    tokio::join!(connect, accept)
}

#[tokio::test]
async fn one_port_takes_every_transport() {
    let (listener, pem) = listener().await;
    for transport in [
        Transport::Tcp,
        Transport::Tls,
        Transport::WebSocket,
        Transport::SecureWebSocket,
    ] {
        let options = ConnectOptions::new(transport).with_tls(trusting(&pem));
        let (client, served) = open(&listener, options).await;
        exchange(&client, &served).await;
        client.close().await;
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_trusts_is_refused() {
    let (listener, _) = listener().await;
    let options = ConnectOptions::new(Transport::Tls);
    let (client, served) = attempt(&listener, "localhost", &options).await;
    assert!(matches!(client, Err(ConnectError::Tls(_))), "{client:?}");
    assert!(served.is_err());
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let (listener, pem) = listener().await;
    let options = ConnectOptions::new(Transport::Tls)
        .with_tls(trusting(&pem).with_server_name("elsewhere.example"));
    let (client, _) = attempt(&listener, "127.0.0.1", &options).await;
    assert!(matches!(client, Err(ConnectError::Tls(_))), "{client:?}");
}

#[tokio::test]
async fn a_listener_can_refuse_what_is_not_tls() {
    let plain = Listener::bind("127.0.0.1:0", ListenOptions::default().without_plain())
        .await
        .unwrap();
    let options = ConnectOptions::new(Transport::Tcp);
    let (client, served) = attempt(&plain, "127.0.0.1", &options).await;
    assert!(client.is_err());
    assert!(matches!(served, Err(ConnectError::Tls(_))), "{served:?}");
}

#[test]
fn a_pem_text_without_a_certificate_is_an_error() {
    for text in [
        "",
        "hello",
        "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n",
    ] {
        let result = TlsOptions::default().add_root_pem(text.as_bytes());
        assert!(
            matches!(result, Err(ConnectError::Tls(_))),
            "{text:?}: {result:?}"
        );
    }
}
