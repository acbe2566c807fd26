//! A bare AMQP client for the tests: links by address, messages as text, nothing of Service Bus but names.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use servicebus_amqp::engine::{
    Config, Credentials, CreditMode, IncomingDelivery, LinkError, LinkOptions, OutgoingDelivery,
    Sasl, SessionOptions, Side,
};
use servicebus_amqp::net::{Connection, ReceiverLink, SenderLink, Session};
use servicebus_amqp::types::{
    AmqpError, Body, ByteString, DeliveryState, LazyMap, Map, Message, MessageId, Outcome,
    Properties, ReceiverSettleMode, SenderSettleMode, Source, Symbol, Target, Value,
};
use servicebus_emulator::{Clock, Emulator};

/// 2023-11-14T22:13:20Z
pub(crate) const START_MILLIS: i64 = 1_700_000_000_000;

/// How long a test waits for what should come at once.
pub(crate) const SOON: Duration = Duration::from_secs(10);

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// An emulator in memory whose clock stands at [`START_MILLIS`].
pub(crate) async fn emulator() -> Emulator {
    let start = std::time::UNIX_EPOCH + Duration::from_millis(START_MILLIS as u64);
    Emulator::builder()
        .in_memory()
        .clock(Clock::manual(start))
        .strict()
        .start()
        .await
        .unwrap()
}

/// A connection with one session.
pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) session: Session,
}

impl Client {
    pub(crate) async fn connect(emulator: &Emulator) -> Self {
        let mut config = Config::new("test");
        config.hostname = Some("localhost".into());
        config.sasl = Sasl::Client(vec![Credentials::Anonymous]);
        Self::connect_with(emulator, config).await
    }

    pub(crate) async fn connect_with(emulator: &Emulator, config: Config) -> Self {
        let connection = Connection::over(emulator.connect(), Side::Client, config);
        connection.opened().await.unwrap();
        let session = connection.begin(SessionOptions::default()).await.unwrap();
        Self {
            connection,
            session,
        }
    }

    pub(crate) async fn sender(&self, address: &str) -> SenderLink {
        self.try_sender(address).await.unwrap()
    }

    pub(crate) async fn try_sender(&self, address: &str) -> Result<SenderLink, LinkError> {
        let options = LinkOptions::new(Source::new("client"), Target::new(address));
        self.session
            .attach_sender(unique("sender"), options, SOON)
            .await
    }

    /// A peek-lock receiver with credit.
    pub(crate) async fn receiver(&self, address: &str, credit: u32) -> ReceiverLink {
        self.try_receiver(address, credit).await.unwrap()
    }

    pub(crate) async fn try_receiver(
        &self,
        address: &str,
        credit: u32,
    ) -> Result<ReceiverLink, LinkError> {
        self.attach_receiver(peek_lock(address, credit)).await
    }

    pub(crate) async fn attach_receiver(
        &self,
        options: LinkOptions,
    ) -> Result<ReceiverLink, LinkError> {
        self.session
            .attach_receiver(unique("receiver"), options, SOON)
            .await
    }

    /// The two links to a node.
    pub(crate) async fn node(&self, address: &str) -> Node {
        self.node_with(address, unique("reply-to")).await
    }

    pub(crate) async fn node_with(&self, address: &str, reply_to: ByteString) -> Node {
        let requests = self.sender(address).await;
        let mut options = LinkOptions::new(Source::new(address), Target::new(reply_to.clone()));
        options.credit = CreditMode::Window(100);
        let replies = self
            .session
            .attach_receiver(unique("replies"), options, SOON)
            .await
            .unwrap();
        Node {
            requests,
            replies,
            reply_to,
        }
    }
}

pub(crate) fn peek_lock(address: &str, credit: u32) -> LinkOptions {
    let mut options = LinkOptions::new(Source::new(address), Target::new("client"));
    options.snd_settle_mode = SenderSettleMode::Unsettled;
    options.rcv_settle_mode = ReceiverSettleMode::Second;
    options.credit = CreditMode::Exact(credit);
    options
}

pub(crate) fn receive_and_delete(address: &str, credit: u32) -> LinkOptions {
    let mut options = LinkOptions::new(Source::new(address), Target::new("client"));
    options.snd_settle_mode = SenderSettleMode::Settled;
    options.credit = CreditMode::Exact(credit);
    options
}

/// A peek-lock receiver of a session: of a named one, or of the next for null.
pub(crate) fn session_filter(address: &str, value: impl Into<Value>, credit: u32) -> LinkOptions {
    let mut options = peek_lock(address, credit);
    let filter = Map::new().with(
        Symbol::from_static("com.microsoft:session-filter"),
        value.into(),
    );
    options.source.as_mut().unwrap().filter = Some(filter);
    options
}

/// The pair of links to a node, and its protocol.
pub(crate) struct Node {
    pub(crate) requests: SenderLink,
    pub(crate) replies: ReceiverLink,
    pub(crate) reply_to: ByteString,
}

/// A reply of `$management`.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: i32,
    pub(crate) condition: Option<Symbol>,
    pub(crate) description: String,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn get(&self, key: &str) -> &Value {
        let map = self.body.as_map().expect("the reply's body is a map");
        map.get(key)
            .unwrap_or_else(|| panic!("no {key} in {map:?}"))
    }
}

impl Node {
    /// A request to `$management`.
    pub(crate) async fn call(&self, operation: &str, body: Map) -> Reply {
        let properties =
            Map::new().with("operation", format!("com.microsoft:{operation}").as_str());
        let reply = self
            .exchange(
                MessageId::String(unique("request")),
                properties,
                Value::Map(body),
            )
            .await;
        read_reply(reply, "statusCode", "errorCondition", "statusDescription")
    }

    /// A request with everything given, and the message that answers it.
    pub(crate) async fn exchange(&self, id: MessageId, properties: Map, body: Value) -> Message {
        let request = self.request(id.clone(), properties, body);
        let outcome = self
            .requests
            .send(OutgoingDelivery::new(encode(&request)))
            .await
            .unwrap();
        assert_eq!(outcome, Some(DeliveryState::ACCEPTED));
        let delivery = within(self.replies.recv()).await.unwrap();
        assert!(delivery.settled, "replies come settled");
        let reply = decode(&delivery);
        let correlation = reply.properties.as_ref().unwrap().correlation_id.clone();
        assert_eq!(correlation, Some(id));
        reply
    }

    pub(crate) fn request(&self, id: MessageId, properties: Map, body: Value) -> Message {
        Message {
            properties: Some(Properties {
                message_id: Some(id),
                reply_to: Some(self.reply_to.clone()),
                ..Properties::default()
            }),
            application_properties: Some(LazyMap::from(properties)),
            body: Body::Value(body),
            ..Message::default()
        }
    }
}

pub(crate) fn read_reply(
    message: Message,
    status: &str,
    condition: &str,
    description: &str,
) -> Reply {
    let properties = message.application_properties.clone().unwrap();
    let properties = properties.decode().unwrap();
    let Some(Value::Int(status)) = properties.get(status) else {
        panic!("{status} is not an int in {properties:?}");
    };
    let condition = properties.get(condition).map(|condition| match condition {
        Value::Symbol(symbol) => symbol.clone(),
        other => panic!("the condition is {other:?}, and no symbol"),
    });
    Reply {
        status: *status,
        condition,
        description: properties
            .get(description)
            .and_then(Value::as_text)
            .unwrap_or_default()
            .to_owned(),
        body: match &message.body {
            Body::Value(value) => value.clone(),
            _ => Value::Null,
        },
    }
}

pub(crate) fn unique(what: &str) -> ByteString {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{what}-{}", NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future)
        .await
        .expect("it should have come at once")
}

pub(crate) fn encode(message: &Message) -> Bytes {
    let mut out = BytesMut::new();
    message.encode(&mut out).unwrap();
    out.freeze()
}

pub(crate) fn decode(delivery: &IncomingDelivery) -> Message {
    Message::decode(delivery.payload.clone()).unwrap()
}

pub(crate) fn message(text: &str) -> Message {
    Message {
        body: Body::Data(Bytes::copy_from_slice(text.as_bytes())),
        ..Message::default()
    }
}

pub(crate) fn session_message(session: &str, text: &str) -> Message {
    Message {
        properties: Some(Properties {
            group_id: Some(session.into()),
            ..Properties::default()
        }),
        ..message(text)
    }
}

pub(crate) fn text(delivery: &IncomingDelivery) -> String {
    match decode(delivery).body {
        Body::Data(data) => String::from_utf8(data.to_vec()).unwrap(),
        other => panic!("the body is {other:?}"),
    }
}

pub(crate) fn annotation(delivery: &IncomingDelivery, key: &str) -> Option<Value> {
    decode(delivery).message_annotations?.get(key).unwrap()
}

pub(crate) fn application_property(delivery: &IncomingDelivery, key: &str) -> Option<Value> {
    decode(delivery).application_properties?.get(key).unwrap()
}

pub(crate) fn delivery_count(delivery: &IncomingDelivery) -> u32 {
    let header = decode(delivery)
        .header
        .expect("a received message has a header");
    header.delivery_count.unwrap_or(0)
}

pub(crate) async fn send(link: &SenderLink, message: &Message) {
    let outcome = link
        .send(OutgoingDelivery::new(encode(message)))
        .await
        .unwrap();
    assert_eq!(outcome, Some(DeliveryState::ACCEPTED));
}

/// Sends and tells why it was refused.
pub(crate) async fn send_refused(link: &SenderLink, message: &Message) -> AmqpError {
    rejection(
        link.send(OutgoingDelivery::new(encode(message)))
            .await
            .unwrap(),
    )
}

pub(crate) fn rejection(state: Option<DeliveryState>) -> AmqpError {
    match state {
        Some(DeliveryState::Outcome(Outcome::Rejected(Some(error)))) => *error,
        other => panic!("expected a rejection with an error, got {other:?}"),
    }
}

/// Settles as clients do: states an outcome and waits for the broker's.
pub(crate) async fn settle(
    link: &ReceiverLink,
    delivery: &IncomingDelivery,
    state: DeliveryState,
) -> Option<DeliveryState> {
    within(link.settle_confirmed(delivery.delivery, state).unwrap())
        .await
        .unwrap()
}

pub(crate) async fn complete(link: &ReceiverLink, delivery: &IncomingDelivery) {
    let answer = settle(link, delivery, DeliveryState::ACCEPTED).await;
    assert_eq!(answer, Some(DeliveryState::ACCEPTED));
}

/// Why a link could not be attached, or is gone.
pub(crate) fn link_error(error: LinkError) -> AmqpError {
    match error {
        LinkError::DetachedByPeer {
            closed: true,
            error: Some(error),
        } => *error,
        other => panic!("expected a close with an error, got {other:?}"),
    }
}
