//! fe2o3-amqp as a client, and a small broker on its acceptor.

use std::sync::Arc;

use fe2o3_amqp::acceptor::{
    ConnectionAcceptor, LinkAcceptor, LinkEndpoint, SaslAnonymousMechanism, SessionAcceptor,
};
use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::definitions::Error;
use fe2o3_amqp::types::messaging::{
    self as amqp, ApplicationProperties, Body, Data, Header, MessageId, Modified, Properties,
};
use fe2o3_amqp::types::primitives::{Binary, SimpleValue, Value};
use fe2o3_amqp::{Connection, Delivery, Receiver, Sender, Session};
use protocol_tests::peers::Failure;
use tokio::net::{TcpListener, TcpStream};

use crate::message::{Message, Node, Outcome, Sasl, Transport};
use crate::queues::{Queues, all_outcomes};
use crate::tls;

type Dialed = (ConnectionHandle<()>, SessionHandle<()>);

pub(crate) async fn send(to: &Node, messages: &[Message]) -> Result<Vec<Outcome>, Failure> {
    let (mut connection, mut session) = dial(to).await?;
    let mut sender = Sender::attach(&mut session, "sender", to.address.as_str()).await?;
    let mut pending = Vec::new();
    for message in messages {
        pending.push(sender.send_batchable(encode(message)).await?);
    }
    let mut outcomes = Vec::new();
    for outcome in pending {
        outcomes.push(seen(&outcome.await?)?);
    }
    if to.answers_detach {
        sender.close().await?;
    }
    hang_up(&mut connection, &mut session).await?;
    Ok(outcomes)
}

pub(crate) async fn receive(from: &Node, outcomes: &[Outcome]) -> Result<Vec<Message>, Failure> {
    let (mut connection, mut session) = dial(from).await?;
    let mut receiver = attach_receiver(&mut session, from).await?;
    receiver.set_credit(outcomes.len().try_into()?).await?;
    let mut messages = Vec::new();
    for outcome in outcomes {
        let delivery: Delivery<Body<Value>> = receiver.recv().await?;
        messages.push(decode(delivery.message())?);
        settle(&receiver, &delivery, *outcome).await?;
    }
    if from.answers_detach {
        receiver.close().await?;
    }
    hang_up(&mut connection, &mut session).await?;
    Ok(messages)
}

async fn dial(to: &Node) -> Result<Dialed, Failure> {
    let stream = TcpStream::connect(("127.0.0.1", to.port)).await?;
    stream.set_nodelay(true)?;
    let mut builder = Connection::builder()
        .container_id("fe2o3")
        .hostname("localhost")
        .max_frame_size(to.max_frame_size);
    match to.sasl {
        Sasl::None => {}
        Sasl::Anonymous => builder = builder.sasl_profile(SaslProfile::Anonymous),
        Sasl::Plain { user, password } => {
            builder = builder.sasl_profile(SaslProfile::Plain {
                username: user.into(),
                password: password.into(),
            });
        }
    }
    let mut connection = match &to.transport {
        Transport::Tcp => builder.open_with_stream(stream).await?,
        Transport::Tls { authority } => {
            builder
                .open_with_stream(tls::connect(stream, authority).await?)
                .await?
        }
        Transport::WebSocket => return Err("no WebSocket here".into()),
    };
    let session = Session::begin(&mut connection).await?;
    Ok((connection, session))
}

async fn hang_up(
    connection: &mut ConnectionHandle<()>,
    session: &mut SessionHandle<()>,
) -> Result<(), Failure> {
    session.end().await?;
    connection.close().await?;
    Ok(())
}

async fn attach_receiver(
    session: &mut SessionHandle<()>,
    from: &Node,
) -> Result<Receiver, Failure> {
    Ok(Receiver::builder()
        .name("receiver")
        .source(from.address.as_str())
        .credit_mode(CreditMode::Manual)
        .attach(session)
        .await?)
}

async fn settle(
    receiver: &Receiver,
    delivery: &Delivery<Body<Value>>,
    outcome: Outcome,
) -> Result<(), Failure> {
    match outcome {
        Outcome::Accepted => receiver.accept(delivery).await?,
        Outcome::Released => receiver.release(delivery).await?,
        Outcome::Rejected => receiver.reject(delivery, None::<Error>).await?,
        Outcome::Modified => {
            let modified = Modified {
                delivery_failed: Some(true),
                undeliverable_here: None,
                message_annotations: None,
            };
            receiver.modify(delivery, modified).await?;
        }
    }
    Ok(())
}

fn seen(outcome: &amqp::Outcome) -> Result<Outcome, Failure> {
    match outcome {
        amqp::Outcome::Accepted(_) => Ok(Outcome::Accepted),
        amqp::Outcome::Released(_) => Ok(Outcome::Released),
        amqp::Outcome::Rejected(_) => Ok(Outcome::Rejected),
        amqp::Outcome::Modified(_) => Ok(Outcome::Modified),
        #[allow(unreachable_patterns, reason = "features of the crate add outcomes")]
        other => Err(format!("unexpected outcome {other:?}").into()),
    }
}

fn encode(message: &Message) -> amqp::Message<Data> {
    let mut properties = ApplicationProperties::builder();
    for (name, value) in &message.properties {
        properties = properties.insert(name.as_str(), value.as_str());
    }
    amqp::Message::builder()
        .header(Header {
            delivery_count: message.delivery_count,
            ..Header::default()
        })
        .properties(Properties::builder().message_id(message.id.clone()).build())
        .application_properties(properties.build())
        .data(Binary::from(message.body.clone()))
        .build()
}

fn decode(message: &amqp::Message<Body<Value>>) -> Result<Message, Failure> {
    let id = match message
        .properties
        .as_ref()
        .and_then(|properties| properties.message_id.clone())
    {
        Some(MessageId::String(id)) => id,
        Some(MessageId::Ulong(id)) => id.to_string(),
        other => return Err(format!("unexpected message-id {other:?}").into()),
    };
    let body: Vec<u8> = match &message.body {
        Body::Data(parts) => parts
            .iter()
            .flat_map(|part| part.0.iter().copied())
            .collect(),
        other => return Err(format!("unexpected body {other:?}").into()),
    };
    let mut decoded = Message::new(id, body);
    decoded.delivery_count = message
        .header
        .as_ref()
        .map_or(0, |header| header.delivery_count);
    for (name, value) in message
        .application_properties
        .iter()
        .flat_map(|properties| properties.0.iter())
    {
        match value {
            SimpleValue::String(value) => decoded = decoded.property(name, value),
            other => return Err(format!("unexpected property {name}: {other:?}").into()),
        }
    }
    Ok(decoded)
}

/// The broker: queues on demand. What is released or modified goes back to the front; what is rejected is gone.
///
/// Messages to an address that holds `outcomes` are not kept: they are accepted, released, rejected and modified in turn.
pub(crate) async fn start_broker(max_frame_size: u32) -> Result<u16, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let queues = Arc::new(Queues::default());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&queues), max_frame_size));
        }
    });
    Ok(port)
}

async fn serve(
    stream: TcpStream,
    queues: Arc<Queues<Message>>,
    max_frame_size: u32,
) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    let acceptor = ConnectionAcceptor::builder()
        .container_id("fe2o3-broker")
        .max_frame_size(max_frame_size)
        .sasl_acceptor(SaslAnonymousMechanism {})
        .build();
    let mut connection = acceptor.accept(stream).await?;
    while let Ok(mut session) = SessionAcceptor::new().accept(&mut connection).await {
        let queues = Arc::clone(&queues);
        tokio::spawn(async move {
            while let Ok(link) = LinkAcceptor::new().accept(&mut session).await {
                match link {
                    LinkEndpoint::Sender(sender) => {
                        tokio::spawn(deliver(sender, Arc::clone(&queues)));
                    }
                    LinkEndpoint::Receiver(receiver) => {
                        tokio::spawn(collect(receiver, Arc::clone(&queues)));
                    }
                }
            }
        });
    }
    Ok(())
}

async fn collect(mut receiver: Receiver, queues: Arc<Queues<Message>>) -> Result<(), Failure> {
    let address = receiver
        .target()
        .as_ref()
        .and_then(|target| target.address.clone())
        .ok_or("no address")?;
    let queue = queues.named(&address);
    let mut turn = all_outcomes();
    while let Ok(delivery) = receiver.recv::<Body<Value>>().await {
        if address.contains("outcomes") {
            let outcome = turn.next().unwrap_or(Outcome::Accepted);
            settle(&receiver, &delivery, outcome).await?;
        } else {
            queue.push_back(decode(delivery.message())?);
            receiver.accept(&delivery).await?;
        }
    }
    receiver.close().await?;
    Ok(())
}

async fn deliver(mut sender: Sender, queues: Arc<Queues<Message>>) -> Result<(), Failure> {
    let address = sender
        .source()
        .as_ref()
        .and_then(|source| source.address.clone())
        .ok_or("no address")?;
    let queue = queues.named(&address);
    loop {
        let mut message = tokio::select! {
            biased;
            _ = sender.on_detach() => break,
            message = queue.pop() => message,
        };
        // The link may go before there is credit: then the message is not lost.
        match sender.send(encode(&message)).await {
            Ok(amqp::Outcome::Accepted(_) | amqp::Outcome::Rejected(_)) => {}
            Ok(amqp::Outcome::Modified(_)) => {
                message.delivery_count += 1;
                queue.push_front(message);
            }
            _ => queue.push_front(message),
        }
    }
    sender.close().await?;
    Ok(())
}
