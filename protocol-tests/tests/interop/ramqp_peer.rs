//! ramqp as a client, and the broker of its family.

use protocol_tests::peers::Failure;
use ramqp::config::CreditMode;
use ramqp::sasl::SaslProfile;
use ramqp::types::messaging::{
    ApplicationProperties, Body, DeliveryState, MessageId, Modified, Properties,
};
use ramqp::{Config, Connection, Consumer, Delivery, Session};

use crate::message::{Message, Node, Outcome, Sasl, Transport};

pub(crate) async fn send(to: &Node, messages: &[Message]) -> Result<Vec<Outcome>, Failure> {
    let (connection, session) = dial(to).await?;
    let producer = session.create_producer(&to.address).await?;
    let mut outcomes = Vec::new();
    for message in messages {
        outcomes.push(seen(&producer.send(encode(message)).await?)?);
    }
    if to.answers_detach {
        producer.detach().await?;
    }
    session.end().await?;
    connection.close().await?;
    Ok(outcomes)
}

pub(crate) async fn receive(from: &Node, outcomes: &[Outcome]) -> Result<Vec<Message>, Failure> {
    let (connection, session) = dial(from).await?;
    let mut consumer = session
        .create_consumer_with(&from.address, CreditMode::Manual)
        .await?;
    consumer.credit(outcomes.len().try_into()?).await?;
    let mut messages = Vec::new();
    for outcome in outcomes {
        let delivery = consumer.recv().await?;
        messages.push(decode(delivery.message()?)?);
        settle(&consumer, &delivery, *outcome).await?;
    }
    if from.answers_detach {
        consumer.detach().await?;
    }
    session.end().await?;
    connection.close().await?;
    Ok(messages)
}

async fn dial(to: &Node) -> Result<(Connection, Session), Failure> {
    let scheme = match to.transport {
        Transport::Tcp => "amqp",
        Transport::Tls { .. } => "amqps",
        Transport::WebSocket => "ws",
    };
    let mut config = Config::default();
    config.connection.max_frame_size = to.max_frame_size;
    let mut builder =
        Connection::builder(&format!("{scheme}://localhost:{}", to.port)).config(config);
    match to.sasl {
        Sasl::None => {}
        Sasl::Anonymous => builder = builder.sasl(SaslProfile::Anonymous),
        Sasl::Plain { user, password } => {
            builder = builder.sasl(SaslProfile::Plain {
                authcid: user.into(),
                passwd: password.into(),
            });
        }
    }
    if let Transport::Tls { authority } = &to.transport {
        builder = builder
            .add_root_ca_pem(std::fs::read(authority)?)
            .webpki_roots(false);
    }
    let connection = builder.connect().await?;
    let session = connection.begin_session().await?;
    Ok((connection, session))
}

async fn settle(consumer: &Consumer, delivery: &Delivery, outcome: Outcome) -> Result<(), Failure> {
    match outcome {
        Outcome::Accepted => consumer.accept(delivery).await?,
        Outcome::Released => consumer.release(delivery).await?,
        Outcome::Rejected => consumer.reject(delivery, None).await?,
        Outcome::Modified => {
            let modified = Modified {
                delivery_failed: Some(true),
                ..Modified::default()
            };
            consumer.modify(delivery, modified).await?;
        }
    }
    Ok(())
}

fn seen(state: &DeliveryState) -> Result<Outcome, Failure> {
    match state {
        DeliveryState::Accepted(_) => Ok(Outcome::Accepted),
        DeliveryState::Released(_) => Ok(Outcome::Released),
        DeliveryState::Rejected(_) => Ok(Outcome::Rejected),
        DeliveryState::Modified(_) => Ok(Outcome::Modified),
        other => Err(format!("unexpected state {other:?}").into()),
    }
}

fn encode(message: &Message) -> ramqp::Message {
    let mut encoded = ramqp::Message::data(message.body.clone());
    encoded.properties = Some(Properties {
        message_id: Some(MessageId::String(message.id.clone())),
        ..Properties::default()
    });
    let mut properties = ApplicationProperties::default();
    for (name, value) in &message.properties {
        properties
            .0
            .insert(name.clone(), ramqp::codec::Value::String(value.clone()));
    }
    encoded.application_properties = Some(properties);
    encoded
}

fn decode(message: ramqp::Message) -> Result<Message, Failure> {
    let id = match message
        .properties
        .and_then(|properties| properties.message_id)
    {
        Some(MessageId::String(id)) => id,
        Some(MessageId::Ulong(id)) => id.to_string(),
        other => return Err(format!("unexpected message-id {other:?}").into()),
    };
    let Body::Data(parts) = message.body else {
        return Err(format!("unexpected body {:?}", message.body).into());
    };
    let mut decoded = Message::new(id, parts.concat());
    decoded.delivery_count = message.header.map_or(0, |header| header.delivery_count);
    for (name, value) in message
        .application_properties
        .iter()
        .flat_map(|properties| properties.0.iter())
    {
        match value {
            ramqp::codec::Value::String(value) => decoded = decoded.property(name, value),
            other => return Err(format!("unexpected property {name}: {other:?}").into()),
        }
    }
    Ok(decoded)
}

/// Starts the broker: queues on demand, all outcomes, no drain.
pub(crate) async fn start_broker(max_frame_size: u32) -> Result<u16, Failure> {
    let mut config = ramqp_broker::BrokerConfig::default();
    config.connection.max_frame_size = max_frame_size;
    let broker = ramqp_broker::Broker::new(config)
        .bind("127.0.0.1:0")
        .await?;
    let port = broker.local_addr().port();
    tokio::spawn(broker.run());
    Ok(port)
}
