use std::sync::Arc;

use servicebus_amqp::engine::{Config, ConnectionError, Credentials, PlainAmqp, Sasl, Side};
use servicebus_amqp::net::Connection;
use servicebus_amqp::types::{SaslCode, Symbol};

use crate::pair::exchange;

fn offering(mechanisms: &[&'static str]) -> Config {
    let mut config = Config::new("listener");
    config.sasl = Sasl::Listener {
        mechanisms: mechanisms
            .iter()
            .map(|name| Symbol::from_static(name))
            .collect(),
        plain_amqp: PlainAmqp::Refuse,
    };
    config
}

fn having(credentials: Vec<Credentials>) -> Config {
    let mut config = Config::new("client");
    config.sasl = Sasl::Client(credentials);
    config
}

fn plain(password: &'static str) -> Credentials {
    Credentials::Plain {
        username: "user".into(),
        password: password.into(),
    }
}

fn connect(client: Config, listener: Config) -> (Connection, Connection) {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let check: Arc<servicebus_amqp::net::Authenticator> =
        Arc::new(
            |init| match (init.mechanism.as_str(), init.initial_response.as_deref()) {
                ("PLAIN", Some(b"\0user\0secret")) | ("ANONYMOUS", _) => SaslCode::Ok,
                ("MSSBCBS", _) => SaslCode::SysTemp,
                _ => SaslCode::Auth,
            },
        );
    (
        Connection::over(near, Side::Client, client),
        Connection::over_authenticated(far, listener, check),
    )
}

#[tokio::test]
async fn the_application_decides_on_a_password() {
    let (client, listener) = connect(having(vec![plain("secret")]), offering(&["PLAIN"]));
    exchange(&client, &listener).await;

    let (client, _listener) = connect(having(vec![plain("wrong")]), offering(&["PLAIN"]));
    let error = client.opened().await.unwrap_err();
    assert!(
        matches!(error, ConnectionError::Authentication(SaslCode::Auth)),
        "{error}"
    );
}

#[tokio::test]
async fn b24_the_first_mechanism_in_common_is_used() {
    let credentials = vec![Credentials::Mssbcbs, Credentials::Anonymous];
    let (client, listener) = connect(having(credentials), offering(&["PLAIN", "ANONYMOUS"]));
    exchange(&client, &listener).await;
}

#[tokio::test]
async fn the_application_decides_on_clients_without_credentials() {
    let (client, _listener) = connect(
        having(vec![Credentials::Mssbcbs]),
        offering(&["MSSBCBS", "ANONYMOUS"]),
    );
    let error = client.opened().await.unwrap_err();
    assert!(
        matches!(error, ConnectionError::Authentication(SaslCode::SysTemp)),
        "{error}"
    );
}

#[tokio::test]
async fn a_listener_that_cannot_check_credentials_takes_only_clients_without() {
    for (credentials, taken) in [
        (Credentials::Anonymous, true),
        (Credentials::Mssbcbs, true),
        (Credentials::External, false),
        (plain("secret"), false),
    ] {
        let offer = offering(&["MSSBCBS", "ANONYMOUS", "EXTERNAL", "PLAIN"]);
        let (near, far) = tokio::io::duplex(64 * 1024);
        let client = Connection::over(near, Side::Client, having(vec![credentials]));
        let _listener = Connection::over(far, Side::Listener, offer);
        match client.opened().await {
            Ok(_) => assert!(taken),
            Err(ConnectionError::Authentication(SaslCode::Auth)) => assert!(!taken),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn b24_without_a_mechanism_in_common_the_error_names_the_offers() {
    let (client, _listener) = connect(
        having(vec![Credentials::Anonymous]),
        offering(&["SCRAM-SHA-256"]),
    );
    let error = client.opened().await.unwrap_err();
    assert!(error.to_string().contains("SCRAM-SHA-256"), "{error}");
}
