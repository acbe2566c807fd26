//! Our AMQP layer as a client, and a small broker on its listener.

use std::sync::Arc;
use std::time::Duration;

use protocol_tests::peers::Failure;
use servicebus_amqp::engine::{
    Config, ConnectionError, Credentials, CreditMode, DetachMode, IncomingDelivery, LinkError,
    LinkOptions, OutgoingDelivery, PlainAmqp, SessionOptions,
};
use servicebus_amqp::net::{
    AcceptedLink, ConnectOptions, Connection, Incoming, IncomingLink, ListenOptions, Listener,
    ReceiverLink, SenderLink, Session, TlsOptions, Transport as NetTransport,
};
use servicebus_amqp::types::{
    self as amqp, AmqpError, Body, DeliveryState, Header, LazyMap, Map, MessageId, Modified,
    Properties, SaslCode, SaslInit, Source, Symbol, Target, TargetArchetype, Value, condition,
};

use crate::message::{Message, Node, Outcome, Sasl, Transport};
use crate::queues::{Queue, Queues, all_outcomes};
use crate::tls::{self, Identity};

const LIMIT: Duration = Duration::from_secs(20);

pub(crate) async fn send(to: &Node, messages: &[Message]) -> Result<Vec<Outcome>, Failure> {
    let session = dial(to).await?;
    let options = LinkOptions::new(Source::default(), Target::new(to.address.clone()));
    let sender = session.attach_sender("sender", options, LIMIT).await?;
    let mut pending = Vec::new();
    for message in messages {
        pending.push(sender.queue(encode(message)?).await?);
    }
    let mut outcomes = Vec::new();
    for outcome in pending {
        outcomes.push(seen(outcome.await?.as_ref())?);
    }
    if to.answers_detach {
        closed_in_order(sender.detach(DetachMode::Close, None).await)?;
    }
    hang_up(&session).await?;
    Ok(outcomes)
}

pub(crate) async fn receive(from: &Node, outcomes: &[Outcome]) -> Result<Vec<Message>, Failure> {
    let session = dial(from).await?;
    let receiver = attach_receiver(&session, from, outcomes.len().try_into()?).await?;
    let mut messages = Vec::new();
    for outcome in outcomes {
        let delivery = receiver.recv().await?;
        messages.push(decode(&delivery)?);
        settle(&receiver, &delivery, *outcome)?;
    }
    if from.answers_detach {
        closed_in_order(receiver.detach(DetachMode::Close, None).await)?;
    }
    hang_up(&session).await?;
    Ok(messages)
}

pub(crate) async fn drain(
    from: &Node,
    credit: u32,
    expected: usize,
) -> Result<Vec<Message>, Failure> {
    let session = dial(from).await?;
    let receiver = attach_receiver(&session, from, credit).await?;
    let mut messages = Vec::new();
    while messages.len() < expected {
        messages.push(take(&receiver, receiver.recv().await?)?);
    }
    receiver.drain().await?;
    while let Some(delivery) = receiver.try_recv() {
        messages.push(take(&receiver, delivery)?);
    }
    closed_in_order(receiver.detach(DetachMode::Close, None).await)?;
    hang_up(&session).await?;
    Ok(messages)
}

fn take(receiver: &ReceiverLink, delivery: IncomingDelivery) -> Result<Message, Failure> {
    settle(receiver, &delivery, Outcome::Accepted)?;
    decode(&delivery)
}

/// Some brokers send settled: then there is nothing to decide.
fn settle(
    receiver: &ReceiverLink,
    delivery: &IncomingDelivery,
    outcome: Outcome,
) -> Result<(), Failure> {
    if !delivery.settled {
        receiver.settle(delivery.delivery, state(outcome))?;
    }
    Ok(())
}

async fn dial(to: &Node) -> Result<Session, Failure> {
    let mut config = Config::new("ours");
    config.max_frame_size = to.max_frame_size;
    config.hostname = Some("localhost".into());
    config.sasl = match to.sasl {
        Sasl::None => servicebus_amqp::engine::Sasl::None,
        Sasl::Anonymous => servicebus_amqp::engine::Sasl::Client(vec![Credentials::Anonymous]),
        Sasl::Plain { user, password } => {
            servicebus_amqp::engine::Sasl::Client(vec![Credentials::Plain {
                username: user.into(),
                password: password.into(),
            }])
        }
    };
    let options = match &to.transport {
        Transport::Tcp => ConnectOptions::new(NetTransport::Tcp),
        Transport::Tls { authority } => ConnectOptions::new(NetTransport::Tls)
            .with_tls(TlsOptions::default().with_config(tls::client_config(authority)?)),
        Transport::WebSocket => ConnectOptions::new(NetTransport::WebSocket),
    };
    let connection = Connection::connect("localhost", to.port, &options, config).await?;
    Ok(connection.begin(SessionOptions::default()).await?)
}

async fn attach_receiver(
    session: &Session,
    from: &Node,
    credit: u32,
) -> Result<ReceiverLink, Failure> {
    let mut options = LinkOptions::new(Source::new(from.address.clone()), Target::default());
    options.credit = CreditMode::Exact(credit);
    Ok(session.attach_receiver("receiver", options, LIMIT).await?)
}

/// A link that the peer has closed after us, without an error.
fn closed_in_order(end: LinkError) -> Result<(), Failure> {
    match end {
        LinkError::DetachedLocally => Ok(()),
        other => Err(format!("the link: {other}").into()),
    }
}

async fn hang_up(session: &Session) -> Result<(), Failure> {
    session.end(None).await;
    match session.connection().close().await {
        ConnectionError::ClosedLocally => Ok(()),
        other => Err(format!("the connection: {other}").into()),
    }
}

fn state(outcome: Outcome) -> DeliveryState {
    let outcome = match outcome {
        Outcome::Accepted => amqp::Outcome::Accepted,
        Outcome::Released => amqp::Outcome::Released,
        Outcome::Rejected => amqp::Outcome::Rejected(Some(Box::new(AmqpError::new(
            condition::PRECONDITION_FAILED,
            "not wanted",
        )))),
        Outcome::Modified => amqp::Outcome::Modified(Box::new(Modified {
            delivery_failed: Some(true),
            ..Modified::default()
        })),
    };
    outcome.into()
}

fn seen(state: Option<&DeliveryState>) -> Result<Outcome, Failure> {
    match state.and_then(DeliveryState::outcome) {
        Some(amqp::Outcome::Accepted) => Ok(Outcome::Accepted),
        Some(amqp::Outcome::Released) => Ok(Outcome::Released),
        Some(amqp::Outcome::Rejected(_)) => Ok(Outcome::Rejected),
        Some(amqp::Outcome::Modified(_)) => Ok(Outcome::Modified),
        _ => Err(format!("unexpected state {state:?}").into()),
    }
}

fn encode(message: &Message) -> Result<OutgoingDelivery, Failure> {
    let properties: Map = message
        .properties
        .iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect();
    let message = amqp::Message {
        header: Some(Header {
            delivery_count: Some(message.delivery_count),
            ..Header::default()
        }),
        properties: Some(Properties {
            message_id: Some(MessageId::String(message.id.clone().into())),
            ..Properties::default()
        }),
        application_properties: Some(LazyMap::from(&properties)),
        body: Body::Data(message.body.clone().into()),
        ..amqp::Message::default()
    };
    payload(&message)
}

fn payload(message: &amqp::Message) -> Result<OutgoingDelivery, Failure> {
    let mut payload = bytes::BytesMut::new();
    message.encode(&mut payload)?;
    Ok(OutgoingDelivery::new(payload.freeze()))
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned().into())
}

fn decode(delivery: &IncomingDelivery) -> Result<Message, Failure> {
    let message = amqp::Message::decode(delivery.payload.clone())?;
    let id = match message
        .properties
        .and_then(|properties| properties.message_id)
    {
        Some(MessageId::String(id)) => id.to_string(),
        Some(MessageId::Ulong(id)) => id.to_string(),
        other => return Err(format!("unexpected message-id {other:?}").into()),
    };
    let body = match message.body {
        Body::Data(body) => body.to_vec(),
        Body::DataSections(parts) => parts.concat(),
        other => return Err(format!("unexpected body {other:?}").into()),
    };
    let mut decoded = Message::new(id, body);
    decoded.delivery_count = message
        .header
        .and_then(|header| header.delivery_count)
        .unwrap_or(0);
    for pair in message
        .application_properties
        .iter()
        .flat_map(LazyMap::iter)
    {
        match pair? {
            (Value::String(name), Value::String(value)) => {
                decoded = decoded.property(&name, &value);
            }
            other => return Err(format!("unexpected property {other:?}").into()),
        }
    }
    Ok(decoded)
}

/// The broker: queues on demand. What is released or modified goes back to the front; what is rejected is gone.
///
/// Messages to an address that holds `outcomes` are not kept: they are accepted, released, rejected and modified in turn.
/// Takes ANONYMOUS, PLAIN as `guest` with the password `guest`, and plain AMQP.
pub(crate) async fn start_broker(identity: &Identity, max_frame_size: u32) -> Result<u16, Failure> {
    let options = ListenOptions::default().with_tls(Arc::clone(&identity.server));
    let listener = Listener::bind("127.0.0.1:0", options).await?;
    let port = listener.local_addr()?.port();
    let queues = Arc::new(Queues::default());
    tokio::spawn(async move {
        while let Ok(incoming) = listener.accept().await {
            let queues = Arc::clone(&queues);
            tokio::spawn(async move {
                report("connection", serve(incoming, queues, max_frame_size).await);
            });
        }
    });
    Ok(port)
}

/// The client's side of the test fails for want of an answer; this tells why there was none.
fn report(part: &str, result: Result<(), Failure>) {
    if let Err(failure) = result {
        eprintln!("our broker, {part}: {failure}");
    }
}

async fn serve(
    incoming: Incoming,
    queues: Arc<Queues<amqp::Message>>,
    max_frame_size: u32,
) -> Result<(), Failure> {
    let mut config = Config::new("our-broker");
    config.max_frame_size = max_frame_size;
    config.sasl = servicebus_amqp::engine::Sasl::Listener {
        mechanisms: ["ANONYMOUS", "PLAIN"].map(Symbol::from_static).to_vec(),
        plain_amqp: PlainAmqp::Accept,
    };
    let stream = incoming.into_stream().await?;
    let connection = Connection::over_authenticated(stream, config, Arc::new(authenticate));
    connection.opened().await?;
    while let Ok(session) = connection.accept().await {
        let queues = Arc::clone(&queues);
        tokio::spawn(async move {
            while let Ok(link) = session.accept().await {
                report("link", accept(link, &queues));
            }
        });
    }
    match connection.closed().await {
        ConnectionError::ClosedByPeer(None) => Ok(()),
        other => Err(other.into()),
    }
}

fn authenticate(init: &SaslInit) -> SaslCode {
    match (init.mechanism.as_str(), init.initial_response.as_deref()) {
        ("PLAIN", Some(b"\0guest\0guest")) | ("ANONYMOUS", _) => SaslCode::Ok,
        _ => SaslCode::Auth,
    }
}

fn accept(link: IncomingLink, queues: &Queues<amqp::Message>) -> Result<(), Failure> {
    let attach = link.attach();
    let target = match &attach.target {
        Some(TargetArchetype::Target(target)) => target.address.clone(),
        _ => None,
    };
    let source = attach
        .source
        .as_ref()
        .and_then(|source| source.address.clone());
    let mut options = LinkOptions::answer(attach);
    options.credit = CreditMode::Window(100);
    match link.accept(options)? {
        AcceptedLink::Receiver(receiver) => {
            let address = target.ok_or("an attach without a target")?;
            let queue = queues.named(&address);
            tokio::spawn(async move {
                report(
                    "collect",
                    collect(receiver, &queue, address.contains("outcomes")).await,
                );
            });
        }
        AcceptedLink::Sender(sender) => {
            let queue = queues.named(&source.ok_or("an attach without a source")?);
            tokio::spawn(async move { report("deliver", deliver(sender, queue).await) });
        }
    }
    Ok(())
}

async fn collect(
    receiver: ReceiverLink,
    queue: &Queue<amqp::Message>,
    decides: bool,
) -> Result<(), Failure> {
    let mut turn = all_outcomes();
    while let Ok(delivery) = receiver.recv().await {
        let decided = if decides { turn.next() } else { None };
        if decided.is_none() {
            queue.push_back(amqp::Message::decode(delivery.payload.clone())?);
        }
        settle(&receiver, &delivery, decided.unwrap_or(Outcome::Accepted))?;
    }
    Ok(())
}

async fn deliver(sender: SenderLink, queue: Arc<Queue<amqp::Message>>) -> Result<(), Failure> {
    loop {
        let mut message = tokio::select! {
            biased;
            _ = sender.ended() => return Ok(()),
            // Without credit a message stays in the queue, for others.
            message = async {
                sender.credit().await?;
                Ok::<_, LinkError>(queue.pop().await)
            } => message?,
        };
        let outcome = sender.queue(payload(&message)?).await;
        let queue = Arc::clone(&queue);
        tokio::spawn(async move {
            let outcome = match outcome {
                Ok(outcome) => outcome.await,
                Err(error) => Err(error),
            };
            let state = outcome.ok().flatten();
            match state
                .as_ref()
                .map_or(Ok(Outcome::Released), |state| seen(Some(state)))
            {
                Ok(Outcome::Accepted | Outcome::Rejected) => {}
                Ok(Outcome::Modified) => {
                    let header = message.header.get_or_insert_default();
                    header.delivery_count = Some(header.delivery_count.unwrap_or(0) + 1);
                    queue.push_front(message);
                }
                Ok(Outcome::Released) => queue.push_front(message),
                Err(failure) => report("outcome", Err(failure)),
            }
        });
    }
}
