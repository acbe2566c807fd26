//! A service that does what a test says, frame by frame. What every client wants first it answers by itself: headers, SASL,
//! opening and beginning, attaches, tokens, and renewals of locks.

use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use servicebus::types::{Symbol, Timestamp, Value};
use servicebus::{Client, ClientOptions, Connect, Connecting};
use servicebus_amqp::codec::{
    AMQP_HEADER, Frame, SASL_HEADER, decode_frame, encode_frame, encode_sasl, encode_transfer,
};
use servicebus_amqp::engine::{Config, Side};
use servicebus_amqp::net::Connection;
use servicebus_amqp::types::{
    Array, Attach, Begin, Body, Close, DeliveryState, Detach, Disposition, End, Flow, LazyMap, Map,
    Message, Open, Outcome, Performative, Properties, Role, SaslCode, SaslFrame, SaslMechanisms,
    SaslOutcome, Transfer,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::support::{impatient, soon, system_time};

/// How long each lock lasts that the service gives.
const LOCK: Duration = Duration::from_secs(30);

/// The service's side of the client's one connection.
pub(crate) struct Service {
    /// What the service does not answer by itself.
    seen: UnboundedReceiver<(u16, Performative)>,
    orders: UnboundedSender<Order>,
    sent: u32,
    renewals: Arc<Mutex<usize>>,
}

/// A receiver of the client, as the service has it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    channel: u16,
    pub(crate) handle: u32,
}

type Order = (u16, Performative, Bytes);

impl Service {
    pub(crate) fn start() -> (Client, Self) {
        let (seen, seen_here) = unbounded_channel();
        let (orders_here, orders) = unbounded_channel();
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let renewals = Arc::default();
        tokio::spawn(serve(ours, seen, orders, Arc::clone(&renewals)));
        let connector: Arc<dyn Connect> = Arc::new(Once(Mutex::new(Some(theirs))));
        let text = "Endpoint=sb://localhost;SharedAccessKeyName=n;SharedAccessKey=k;\
                    UseDevelopmentEmulator=true";
        let options: ClientOptions = impatient().connector(connector);
        let client = Client::from_connection_string_with(text, options).unwrap();
        let this = Self {
            seen: seen_here,
            orders: orders_here,
            sent: 0,
            renewals,
        };
        (client, this)
    }

    /// The next frame of the client that the service does not answer by itself.
    async fn next(&mut self) -> (u16, Performative) {
        soon(self.seen.recv()).await.expect("the client is there")
    }

    /// The next attach of a receiver; it is answered.
    pub(crate) async fn attached(&mut self) -> Link {
        loop {
            if let (channel, Performative::Attach(attach)) = self.next().await {
                let handle = attach.handle;
                return Link { channel, handle };
            }
        }
    }

    /// The next credit that the client gives a link.
    pub(crate) async fn flow(&mut self, link: &Link) -> Flow {
        loop {
            if let (_, Performative::Flow(flow)) = self.next().await
                && flow.handle == Some(link.handle)
            {
                return flow;
            }
        }
    }

    /// The next settlement.
    pub(crate) async fn disposition(&mut self) -> Disposition {
        loop {
            if let (_, Performative::Disposition(disposition)) = self.next().await {
                return disposition;
            }
        }
    }

    pub(crate) fn send(&self, link: &Link, performative: Performative) {
        let order = (link.channel, performative, Bytes::new());
        self.orders.send(order).unwrap();
    }

    /// Sends the next message, whose body is its number.
    pub(crate) fn message(&mut self, link: &Link) {
        let number = self.sent;
        self.sent += 1;
        let until = Timestamp::from(time() + LOCK);
        let annotations = Map::new()
            .with(
                Symbol::from_static("x-opt-sequence-number"),
                i64::from(number),
            )
            .with(Symbol::from_static("x-opt-locked-until"), until);
        let message = Message {
            message_annotations: Some(LazyMap::from(&annotations)),
            body: Body::Data(number.to_string().into()),
            ..Message::default()
        };
        let transfer = Transfer {
            handle: link.handle,
            delivery_tag: Some(Bytes::from(u128::from(number).to_be_bytes().to_vec())),
            message_format: Some(0),
            settled: Some(false),
            ..Transfer::default()
        };
        let order = (
            link.channel,
            Performative::Transfer(transfer),
            encoded(&message),
        );
        self.orders.send(order).unwrap();
    }

    /// Settles as the client asked.
    pub(crate) fn confirm(&self, link: &Link, asked: &Disposition) {
        let disposition = Disposition {
            role: Role::Sender,
            settled: true,
            ..asked.clone()
        };
        self.send(link, Performative::Disposition(disposition));
    }

    /// How many requests to renew a lock there were.
    pub(crate) fn renewals(&self) -> usize {
        *self.renewals.lock().unwrap()
    }
}

/// Gives the client its one connection.
struct Once(Mutex<Option<DuplexStream>>);

impl Connect for Once {
    fn connect(&self, config: Config) -> Connecting<'_> {
        Box::pin(async {
            let stream = self.0.lock().unwrap().take();
            let stream = stream.expect("the script has one connection");
            let connection = Connection::over(stream, Side::Client, config);
            connection.opened().await?;
            Ok(connection)
        })
    }
}

impl std::fmt::Debug for Once {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Once")
    }
}

async fn serve(
    mut stream: DuplexStream,
    seen: UnboundedSender<(u16, Performative)>,
    mut orders: UnboundedReceiver<Order>,
    renewals: Arc<Mutex<usize>>,
) {
    let mut desk = Desk {
        seen,
        renewals,
        out: BytesMut::new(),
        nodes: Vec::new(),
        next_id: [0; 8],
    };
    let mut input = BytesMut::new();
    loop {
        tokio::select! {
            biased;
            order = orders.recv() => match order {
                Some((channel, performative, payload)) => desk.put(channel, performative, &payload),
                None => return,
            },
            read = stream.read_buf(&mut input) => {
                if read.unwrap_or(0) == 0 {
                    return;
                }
                desk.take(&mut input);
            }
        }
        if stream.write_all(&desk.out).await.is_err() {
            return;
        }
        desk.out.clear();
    }
}

/// Answers what every client wants.
struct Desk {
    seen: UnboundedSender<(u16, Performative)>,
    renewals: Arc<Mutex<usize>>,
    out: BytesMut,
    /// The links to `$cbs` and `$management`, by their channels.
    nodes: Vec<(u16, Attach)>,
    /// By channel, the id of the next delivery.
    next_id: [u32; 8],
}

impl Desk {
    fn take(&mut self, input: &mut BytesMut) {
        loop {
            if input.starts_with(b"AMQP") {
                if input.len() < 8 {
                    return;
                }
                let header = input.split_to(8);
                self.out.extend_from_slice(&header);
                if header[..] == SASL_HEADER {
                    let mechanisms = vec![Symbol::from_static("ANONYMOUS")];
                    let offer = SaslFrame::Mechanisms(SaslMechanisms { mechanisms });
                    encode_sasl(&mut self.out, &offer);
                } else {
                    assert_eq!(header[..], AMQP_HEADER);
                }
                continue;
            }
            let Some(frame) = decode_frame(input, u32::MAX).unwrap() else {
                return;
            };
            match frame {
                Frame::Sasl(_) => {
                    let outcome = SaslOutcome {
                        code: SaslCode::Ok,
                        additional_data: None,
                    };
                    encode_sasl(&mut self.out, &SaslFrame::Outcome(outcome));
                }
                Frame::Amqp {
                    channel,
                    performative,
                    payload,
                } => self.answer(channel, performative, payload),
                Frame::Empty { .. } => {}
            }
        }
    }

    fn put(&mut self, channel: u16, performative: Performative, payload: &Bytes) {
        match performative {
            Performative::Transfer(mut transfer) => {
                let next = &mut self.next_id[usize::from(channel)];
                transfer.delivery_id = Some(*next);
                *next += 1;
                encode_transfer(&mut self.out, channel, &transfer, payload.len());
                self.out.extend_from_slice(payload);
            }
            other => encode_frame(&mut self.out, channel, &other),
        }
    }

    fn answer(&mut self, channel: u16, performative: Performative, payload: Bytes) {
        let none = Bytes::new();
        match performative {
            Performative::Open(open) => {
                let open = Open {
                    container_id: "service".into(),
                    hostname: None,
                    properties: None,
                    ..*open
                };
                self.put(channel, Performative::Open(Box::new(open)), &none);
            }
            Performative::Begin(begin) => {
                let begin = Begin {
                    remote_channel: Some(channel),
                    next_outgoing_id: 0,
                    ..*begin
                };
                self.put(channel, Performative::Begin(Box::new(begin)), &none);
            }
            Performative::Attach(attach) => self.attach(channel, *attach),
            Performative::Transfer(transfer) => self.request(channel, &transfer, payload),
            Performative::Detach(detach) => {
                let _ = self
                    .seen
                    .send((channel, Performative::Detach(detach.clone())));
                self.put(channel, Performative::Detach(detach), &none);
            }
            Performative::End(_) => self.put(channel, Performative::End(End::default()), &none),
            Performative::Close(_) => {
                self.put(channel, Performative::Close(Close::default()), &none);
            }
            other => {
                let _ = self.seen.send((channel, other));
            }
        }
    }

    fn attach(&mut self, channel: u16, attach: Attach) {
        let role = match attach.role {
            Role::Sender => Role::Receiver,
            Role::Receiver => Role::Sender,
        };
        let mut ours = Attach {
            role,
            initial_delivery_count: (role == Role::Sender).then_some(0),
            properties: None,
            ..attach.clone()
        };
        let to_node = address(&attach).is_some_and(|address| address.contains('$'));
        if to_node {
            self.nodes.push((channel, attach.clone()));
        } else {
            let until = (time() + LOCK).duration_since(UNIX_EPOCH).unwrap();
            // In ticks of 100 ns since the first of January of the year 1.
            let ticks = 621_355_968_000_000_000 + i64::try_from(until.as_nanos() / 100).unwrap();
            ours.properties =
                Some(Map::new().with(Symbol::from_static("com.microsoft:locked-until-utc"), ticks));
            let _ = self
                .seen
                .send((channel, Performative::Attach(Box::new(attach.clone()))));
        }
        self.put(channel, Performative::Attach(Box::new(ours)), &Bytes::new());
        if attach.role == Role::Sender {
            let flow = Flow {
                next_incoming_id: Some(0),
                incoming_window: 5000,
                outgoing_window: 5000,
                handle: Some(attach.handle),
                delivery_count: Some(0),
                link_credit: Some(1000),
                ..Flow::default()
            };
            self.put(channel, Performative::Flow(flow), &Bytes::new());
        }
    }

    /// A request on a link to a node: it is taken, and answered with what pleases the client.
    fn request(&mut self, channel: u16, transfer: &Transfer, payload: Bytes) {
        let first = transfer.delivery_id.unwrap();
        let taken = Disposition {
            role: Role::Receiver,
            first,
            last: None,
            settled: true,
            state: Some(DeliveryState::Outcome(Outcome::Accepted)),
            batchable: false,
        };
        self.put(channel, Performative::Disposition(taken), &Bytes::new());
        let request = Message::decode(payload).unwrap();
        let asked = request.application_properties.unwrap().decode().unwrap();
        let operation = asked.get("operation").and_then(Value::as_text).unwrap();
        let until = Timestamp::from(time() + LOCK);
        let body = match operation {
            "put-token" => Value::Null,
            "com.microsoft:renew-session-lock" => {
                *self.renewals.lock().unwrap() += 1;
                Value::from(Map::new().with("expiration", until))
            }
            "com.microsoft:renew-lock" => {
                *self.renewals.lock().unwrap() += 1;
                let ends = Array::new(vec![until.into()]).unwrap();
                Value::from(Map::new().with("expirations", Value::Array(ends)))
            }
            other => panic!("the script has no answer to {other}"),
        };
        let properties = request.properties.unwrap();
        let status = Map::new().with("statusCode", 200).with("status-code", 200);
        let answer = Message {
            properties: Some(Properties {
                correlation_id: properties.message_id,
                ..Properties::default()
            }),
            application_properties: Some(LazyMap::from(&status)),
            body: Body::Value(body),
            ..Message::default()
        };
        let is_way_back = |node: &&(u16, Attach)| {
            node.0 == channel
                && node.1.role == Role::Receiver
                && target_address(&node.1) == properties.reply_to.as_deref()
        };
        let handle = self.nodes.iter().find(is_way_back).unwrap().1.handle;
        let transfer = Transfer {
            handle,
            delivery_tag: Some(Bytes::from_static(b"answer")),
            message_format: Some(0),
            settled: Some(true),
            ..Transfer::default()
        };
        self.put(channel, Performative::Transfer(transfer), &encoded(&answer));
    }
}

/// The service's time goes on with the test's.
fn time() -> std::time::SystemTime {
    let moved = tokio::time::Instant::now()
        .into_std()
        .saturating_duration_since(std::time::Instant::now());
    system_time() + moved
}

fn encoded(message: &Message) -> Bytes {
    let mut out = BytesMut::new();
    message.encode(&mut out).unwrap();
    out.freeze()
}

fn target_address(attach: &Attach) -> Option<&str> {
    match attach.target.as_ref()? {
        servicebus_amqp::types::TargetArchetype::Target(target) => target.address.as_deref(),
        _ => None,
    }
}

/// The entity that the client attaches to.
fn address(attach: &Attach) -> Option<&str> {
    match attach.role {
        Role::Sender => target_address(attach),
        Role::Receiver => attach.source.as_ref()?.address.as_deref(),
    }
}

/// Ends a link for the client.
pub(crate) fn detach(link: &Link, condition: &'static str) -> Performative {
    Performative::Detach(Detach {
        handle: link.handle,
        closed: true,
        error: Some(Box::new(servicebus_amqp::types::AmqpError::new(
            condition,
            "as ordered",
        ))),
    })
}
