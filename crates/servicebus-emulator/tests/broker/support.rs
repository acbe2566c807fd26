//! A broker with a clock, and messages written by hand.

use std::time::Duration;

use bytes::Bytes;
use servicebus_amqp::types::{ByteString, Message, Timestamp, Value};
use servicebus_emulator::broker::*;

/// The time at which every test begins: 2023-11-14T22:13:20Z.
pub(crate) const START: i64 = 1_700_000_000_000;

pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) now: Timestamp,
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(START + seconds * 1000)
}

/// An encoded message, section by section.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    ttl: Option<u32>,
    annotations: Vec<(&'static str, Vec<u8>)>,
    message_id: Option<String>,
    subject: Option<String>,
    session: Option<String>,
    properties: Vec<(String, Vec<u8>)>,
    body: String,
}

fn string(text: &str) -> Vec<u8> {
    let mut bytes = vec![0xb1];
    bytes.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

fn compound(code: u8, constructor: u8, elements: &[Vec<u8>]) -> Vec<u8> {
    let content = elements.concat();
    let mut bytes = vec![0x00, 0x53, code, constructor];
    bytes.extend(u32::try_from(content.len() + 4).unwrap().to_be_bytes());
    bytes.extend(u32::try_from(elements.len()).unwrap().to_be_bytes());
    bytes.extend(content);
    bytes
}

pub(crate) fn message(body: &str) -> Draft {
    Draft {
        body: body.to_owned(),
        ..Draft::default()
    }
}

impl Draft {
    pub(crate) fn id(mut self, id: &str) -> Self {
        self.message_id = Some(id.to_owned());
        self
    }

    pub(crate) fn subject(mut self, subject: &str) -> Self {
        self.subject = Some(subject.to_owned());
        self
    }

    pub(crate) fn session(mut self, session: &str) -> Self {
        self.session = Some(session.to_owned());
        self
    }

    pub(crate) fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(u32::try_from(ttl.as_millis()).unwrap());
        self
    }

    pub(crate) fn partition_key(mut self, key: &str) -> Self {
        self.annotations.push(("x-opt-partition-key", string(key)));
        self
    }

    pub(crate) fn scheduled(mut self, time: Timestamp) -> Self {
        let mut value = vec![0x83];
        value.extend(time.as_millis().to_be_bytes());
        self.annotations
            .push(("x-opt-scheduled-enqueue-time", value));
        self
    }

    pub(crate) fn text(mut self, name: &str, text: &str) -> Self {
        self.properties.push((name.to_owned(), string(text)));
        self
    }

    pub(crate) fn long(mut self, name: &str, number: i64) -> Self {
        let mut value = vec![0x81];
        value.extend(number.to_be_bytes());
        self.properties.push((name.to_owned(), value));
        self
    }

    pub(crate) fn bytes(&self) -> Bytes {
        let null = || vec![0x40];
        let mut out = Vec::new();
        if let Some(ttl) = self.ttl {
            let mut value = vec![0x70];
            value.extend(ttl.to_be_bytes());
            out.extend(compound(0x70, 0xd0, &[null(), null(), value]));
        }
        if !self.annotations.is_empty() {
            let mut pairs = Vec::new();
            for (key, value) in &self.annotations {
                let mut symbol = vec![0xa3, u8::try_from(key.len()).unwrap()];
                symbol.extend(key.as_bytes());
                pairs.push(symbol);
                pairs.push(value.clone());
            }
            out.extend(compound(0x72, 0xd1, &pairs));
        }
        let field = |text: &Option<String>| text.as_deref().map_or_else(null, string);
        let mut fields = vec![
            field(&self.message_id),
            null(),
            null(),
            field(&self.subject),
        ];
        fields.extend((4..10).map(|_| null()));
        fields.push(field(&self.session));
        out.extend(compound(0x73, 0xd0, &fields));
        if !self.properties.is_empty() {
            let mut pairs = Vec::new();
            for (key, value) in &self.properties {
                pairs.push(string(key));
                pairs.push(value.clone());
            }
            out.extend(compound(0x74, 0xd1, &pairs));
        }
        out.extend([0x00, 0x53, 0x75, 0xb0]);
        out.extend(u32::try_from(self.body.len()).unwrap().to_be_bytes());
        out.extend(self.body.as_bytes());
        out.into()
    }
}

/// A batch, as its transfer carries it.
pub(crate) fn batch(messages: &[Draft]) -> Bytes {
    let mut out = Vec::new();
    for message in messages {
        let inner = message.bytes();
        out.extend([0x00, 0x53, 0x75, 0xb0]);
        out.extend(u32::try_from(inner.len()).unwrap().to_be_bytes());
        out.extend(&inner[..]);
    }
    out.into()
}

pub(crate) const BATCH_FORMAT: u32 = 0x8001_3700;

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Limits::unlimited())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        let mut broker = Broker::new(limits, 42);
        broker.record_events();
        Self { broker, now: at(0) }
    }

    pub(crate) fn apply<C: Command>(&mut self, command: C) -> Result<C::Reply, Error> {
        self.broker.apply(self.now, command)
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, duration: Duration) {
        let millis = i64::try_from(duration.as_millis()).unwrap();
        self.now = Timestamp::from_millis(self.now.as_millis() + millis);
        self.broker.handle_timeout(self.now);
    }

    pub(crate) fn queue(&mut self, options: QueueOptions) -> EntityId {
        self.named_queue("q", options).unwrap()
    }

    pub(crate) fn named_queue(
        &mut self,
        name: &str,
        options: QueueOptions,
    ) -> Result<EntityId, Error> {
        self.apply(CreateQueue {
            namespace: "ns".into(),
            name: name.into(),
            options,
        })
    }

    pub(crate) fn topic(&mut self, options: TopicOptions) -> EntityId {
        self.apply(CreateTopic {
            namespace: "ns".into(),
            name: "t".into(),
            options,
        })
        .unwrap()
    }

    pub(crate) fn subscription(
        &mut self,
        topic: EntityId,
        name: &str,
        options: SubscriptionOptions,
        rules: Option<Vec<Rule>>,
    ) -> EntityId {
        self.apply(CreateSubscription {
            topic,
            name: name.into(),
            options,
            rules,
        })
        .unwrap()
    }

    pub(crate) fn find(&self, address: &str) -> EntityId {
        self.broker.resolve("ns", address).unwrap()
    }

    pub(crate) fn try_send(&mut self, entity: EntityId, draft: &Draft) -> Result<(), Error> {
        self.apply(Send {
            entity,
            payload: draft.bytes(),
            format: 0,
            transaction: None,
        })
    }

    pub(crate) fn send(&mut self, entity: EntityId, draft: &Draft) {
        self.try_send(entity, draft).unwrap();
    }

    pub(crate) fn try_attach(
        &mut self,
        entity: EntityId,
        mode: ReceiveMode,
        session: SessionRequest,
    ) -> Result<Attached, Error> {
        self.apply(AttachReceiver {
            entity,
            mode,
            session,
        })
    }

    pub(crate) fn receiver(&mut self, entity: EntityId) -> ConsumerId {
        self.receiver_with(entity, ReceiveMode::PeekLock, SessionRequest::None)
    }

    pub(crate) fn receiver_with(
        &mut self,
        entity: EntityId,
        mode: ReceiveMode,
        session: SessionRequest,
    ) -> ConsumerId {
        match self.try_attach(entity, mode, session).unwrap() {
            Attached::Ready { consumer, .. } => consumer,
            Attached::Waiting { .. } => panic!("no session is free"),
        }
    }

    pub(crate) fn session(&mut self, entity: EntityId, id: &str) -> ConsumerId {
        self.receiver_with(
            entity,
            ReceiveMode::PeekLock,
            SessionRequest::Named(id.into()),
        )
    }

    pub(crate) fn credit(&mut self, consumer: ConsumerId, credit: u32) {
        self.apply(SetCredit {
            consumer,
            credit,
            drain: false,
        })
        .unwrap();
    }

    /// All effects that are there.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.broker.poll_effect()).collect()
    }

    /// All deliveries that are there; nothing else may be.
    pub(crate) fn deliveries(&mut self) -> Vec<Delivery> {
        self.effects()
            .into_iter()
            .map(|effect| match effect {
                Effect::Deliver(delivery) => delivery,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// Receives with one credit; takes the rest of the credit back.
    pub(crate) fn receive(&mut self, consumer: ConsumerId) -> Option<Delivery> {
        self.apply(SetCredit {
            consumer,
            credit: 1,
            drain: true,
        })
        .unwrap();
        let mut deliveries = self.deliveries();
        assert!(deliveries.len() <= 1, "one credit, one delivery");
        deliveries.pop()
    }

    pub(crate) fn settle(
        &mut self,
        entity: EntityId,
        delivery: &Delivery,
        settlement: Settlement,
    ) -> Result<(), Error> {
        self.apply(Settle {
            entity,
            token: delivery.token.unwrap(),
            settlement,
            transaction: None,
        })
    }

    pub(crate) fn complete(&mut self, entity: EntityId, delivery: &Delivery) -> Result<(), Error> {
        self.settle(entity, delivery, Settlement::Complete)
    }

    pub(crate) fn abandon(&mut self, entity: EntityId, delivery: &Delivery) {
        self.settle(entity, delivery, abandon()).unwrap();
    }

    pub(crate) fn counts(&self, entity: EntityId) -> Counts {
        self.broker.counts(entity).unwrap()
    }

    pub(crate) fn events(&mut self) -> Vec<EventKind> {
        std::iter::from_fn(|| self.broker.poll_event())
            .map(|event| event.kind)
            .collect()
    }

    pub(crate) fn peek(&mut self, entity: EntityId) -> Vec<StoredMessage> {
        self.apply(Peek {
            entity,
            from: 0,
            count: 1000,
            session: None,
        })
        .unwrap()
    }

    /// Bodies in the order of their numbers.
    pub(crate) fn bodies(&mut self, entity: EntityId) -> Vec<String> {
        self.peek(entity).iter().map(body).collect()
    }
}

pub(crate) fn abandon() -> Settlement {
    Settlement::Abandon {
        properties: Default::default(),
    }
}

pub(crate) fn defer() -> Settlement {
    Settlement::Defer {
        properties: Default::default(),
    }
}

pub(crate) fn dead_letter(reason: &str, description: &str) -> Settlement {
    Settlement::DeadLetter {
        reason: Some(reason.into()),
        description: Some(description.into()),
        properties: Default::default(),
    }
}

/// The message as a receiver decodes it.
pub(crate) fn decode(message: &StoredMessage) -> Message {
    Message::decode(message.to_bytes()).unwrap()
}

pub(crate) fn body(message: &StoredMessage) -> String {
    match decode(message).body {
        servicebus_amqp::types::Body::Data(data) => String::from_utf8(data.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// An application property.
pub(crate) fn property(message: &StoredMessage, name: &str) -> Option<Value> {
    decode(message).application_properties?.get(name).unwrap()
}

pub(crate) fn text_property(message: &StoredMessage, name: &str) -> Option<String> {
    property(message, name).map(|value| value.as_text().unwrap().to_owned())
}

/// A message annotation.
pub(crate) fn annotation(message: &StoredMessage, name: &str) -> Option<Value> {
    decode(message).message_annotations?.get(name).unwrap()
}

/// The delivery count in the header.
pub(crate) fn delivery_count(delivery: &Delivery) -> u32 {
    decode(&delivery.message)
        .header
        .unwrap()
        .delivery_count
        .unwrap_or(0)
}

pub(crate) fn text(text: &str) -> ByteString {
    text.into()
}
