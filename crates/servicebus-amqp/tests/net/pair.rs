//! Two ends of one connection in one process.

use std::time::Duration;

use bytes::Bytes;
use servicebus_amqp::engine::{
    Config, CreditMode, LinkOptions, OutgoingDelivery, SessionOptions, Side,
};
use servicebus_amqp::net::{AcceptedLink, Connection, ReceiverLink, SenderLink, Session};
use servicebus_amqp::types::{Attach, Role, Source, Target};

/// How long a test waits for what should take no time.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// Two connections over an in-memory pipe.
pub(crate) fn connections() -> (Connection, Connection) {
    connections_with(Config::new("client"), Config::new("listener"))
}

pub(crate) fn connections_with(client: Config, listener: Config) -> (Connection, Connection) {
    let (near, far) = tokio::io::duplex(64 * 1024);
    (
        Connection::over(near, Side::Client, client),
        Connection::over(far, Side::Listener, listener),
    )
}

pub(crate) async fn sessions(client: &Connection, listener: &Connection) -> (Session, Session) {
    let (ours, theirs) = tokio::join!(client.begin(SessionOptions::default()), listener.accept());
    (ours.unwrap(), theirs.unwrap())
}

/// A link on which `sender` sends: the sending and the receiving handle. The attaching side is `sender`'s.
pub(crate) async fn link(
    from: &Session,
    to: &Session,
    credit: CreditMode,
) -> (SenderLink, ReceiverLink) {
    link_with(from, to, |_| {}, |_, options| options.credit = credit).await
}

pub(crate) async fn link_with(
    from: &Session,
    to: &Session,
    ours: impl FnOnce(&mut LinkOptions),
    theirs: impl FnOnce(&Attach, &mut LinkOptions),
) -> (SenderLink, ReceiverLink) {
    let mut options = LinkOptions::new(Source::new("here"), Target::new("there"));
    ours(&mut options);
    let attach = from.attach_sender("link", options, LIMIT);
    let accept = async {
        let incoming = to.accept().await.unwrap();
        let mut answer = LinkOptions::answer(incoming.attach());
        theirs(incoming.attach(), &mut answer);
        assert_eq!(incoming.attach().role, Role::Sender);
        match incoming.accept(answer).unwrap() {
            AcceptedLink::Receiver(receiver) => receiver,
            AcceptedLink::Sender(_) => panic!("both ends send"),
        }
    };
    let (sender, receiver) = tokio::join!(attach, accept);
    (sender.unwrap(), receiver)
}

pub(crate) fn message(body: impl Into<Bytes>) -> OutgoingDelivery {
    OutgoingDelivery::new(body.into())
}

/// Sends a message from one connection to the other, and has it accepted.
pub(crate) async fn exchange(client: &Connection, listener: &Connection) {
    let (ours, theirs) = sessions(client, listener).await;
    let (sender, receiver) = link(&ours, &theirs, CreditMode::Window(10)).await;
    let (outcome, delivery) = tokio::join!(sender.send(message("hello")), async {
        let delivery = receiver.recv().await.unwrap();
        receiver
            .settle(
                delivery.delivery,
                servicebus_amqp::types::DeliveryState::ACCEPTED,
            )
            .unwrap();
        delivery
    });
    assert_eq!(delivery.payload, "hello");
    assert_eq!(
        outcome.unwrap(),
        Some(servicebus_amqp::types::DeliveryState::ACCEPTED)
    );
}
