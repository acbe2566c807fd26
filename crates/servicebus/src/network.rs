use servicebus_amqp::engine::Config;
use servicebus_amqp::net::{ConnectOptions, Connection, Transport as AmqpTransport};
use servicebus_core::client::{Connect, Connecting};
use servicebus_core::connection_string::{Endpoint, Security};
use servicebus_core::options::{ClientOptions, Transport};

/// The path and the sub-protocol by which the service knows AMQP over WebSocket.
const WEBSOCKET_PATH: &str = "/$servicebus/websocket";
const WEBSOCKET_PROTOCOL: &str = "AMQPWSB10";

/// Opens connections over the network.
#[derive(Debug)]
pub(crate) struct Network {
    host: String,
    port: u16,
    options: ConnectOptions,
}

impl Network {
    /// To the namespace, or to the endpoint that the options name in its place.
    pub(crate) fn new(namespace: &Endpoint, options: &ClientOptions) -> Self {
        let endpoint = options.custom_endpoint.as_ref().unwrap_or(namespace);
        let (transport, port) = match (options.transport, endpoint.security()) {
            (Transport::WebSocket, Security::Plain) => (AmqpTransport::WebSocket, None),
            (Transport::WebSocket, _) => (AmqpTransport::SecureWebSocket, None),
            (_, Security::Plain) => (AmqpTransport::Tcp, Some(endpoint.amqp_port())),
            (_, _) => (AmqpTransport::Tls, Some(endpoint.amqp_port())),
        };
        let port = port
            .or_else(|| endpoint.port())
            .unwrap_or_else(|| transport.default_port());
        let mut connect = ConnectOptions::new(transport)
            .with_tls(options.tls.clone())
            .with_websocket(WEBSOCKET_PATH, WEBSOCKET_PROTOCOL)
            .with_timeout(options.connect_timeout);
        connect.proxy.clone_from(&options.proxy);
        Self {
            host: endpoint.host().to_owned(),
            port,
            options: connect,
        }
    }
}

impl Connect for Network {
    fn connect(&self, config: Config) -> Connecting<'_> {
        Box::pin(Connection::connect(
            &self.host,
            self.port,
            &self.options,
            config,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(endpoint: &str, options: &ClientOptions) -> (String, u16, AmqpTransport) {
        let network = Network::new(&endpoint.parse().unwrap(), options);
        (network.host, network.port, network.options.transport)
    }

    #[test]
    fn b30_only_what_is_dialled_is_the_custom_endpoint() {
        let options =
            ClientOptions::new().custom_endpoint("gw.local:7000".parse::<Endpoint>().unwrap());
        let found = network("ns.servicebus.windows.net", &options);
        assert_eq!(found, ("gw.local".into(), 7000, AmqpTransport::Tls));
    }

    #[test]
    fn b113_ports_by_transport_and_security() {
        let tcp = ClientOptions::new();
        let web = ClientOptions::new().transport(Transport::WebSocket);
        assert_eq!(network("ns", &tcp), ("ns".into(), 5671, AmqpTransport::Tls));
        assert_eq!(
            network("ns", &web),
            ("ns".into(), 443, AmqpTransport::SecureWebSocket)
        );
        let plain: Endpoint = "localhost:33894".parse().unwrap();
        let network = Network::new(&plain.plain(), &tcp);
        assert_eq!(
            (network.port, network.options.transport),
            (33894, AmqpTransport::Tcp)
        );
        let plain: Endpoint = "localhost".parse().unwrap();
        let network = Network::new(&plain.clone().plain(), &tcp);
        assert_eq!(network.port, 5672);
        let network = Network::new(&plain.plain(), &web);
        assert_eq!(
            (network.port, network.options.transport),
            (80, AmqpTransport::WebSocket)
        );
    }
}
