use std::time::{Duration, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use servicebus_amqp::engine::{
    Config, Credentials, CreditMode, IncomingDelivery, LinkOptions, OutgoingDelivery, Sasl,
    SessionOptions, Side,
};
use servicebus_amqp::net::{Connection, ReceiverLink, Session};
use servicebus_amqp::types::{
    DeliveryState, Map, Message, Modified, Outcome, ReceiverSettleMode, SenderSettleMode, Source,
    Symbol, Target, Uuid, Value,
};
use servicebus_emulator::broker::{QueueOptions, SubscriptionOptions, TopicOptions};
use servicebus_emulator::{Clock, Emulator};

/// Far longer than an answer takes.
const SOON: Duration = Duration::from_secs(10);

/// Stands for the token of the locked message in a request: nobody can guess that one.
const TOKEN: [u8; 16] = [0x11; 16];

/// More than a reply without messages has, and than the emulator adds to those it brings.
const ENVELOPE: usize = 64 * 1024;

/// Any bytes as a request to `$management`: of a queue with messages in every state, a queue whose session is held, a
/// topic, or a subscription.
///
/// Every request is answered: rejected, or accepted and followed by one reply with a status.
pub fn management_request(data: &[u8]) {
    let Some((&choice, payload)) = data.split_first() else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::time::timeout(SOON, request(choice, payload.to_vec()))
            .await
            .expect("an answer");
    });
}

async fn request(choice: u8, mut payload: Vec<u8>) {
    let emulator = Emulator::builder()
        .in_memory()
        .clock(Clock::manual(
            UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        ))
        .strict()
        .start()
        .await
        .unwrap();
    declare(&emulator);
    let mut config = Config::new("fuzz");
    config.sasl = Sasl::Client(vec![Credentials::Anonymous]);
    let connection = Connection::over(emulator.connect(), Side::Client, config);
    let session = connection.begin(SessionOptions::default()).await.unwrap();
    // The links stay, so that locks and the session do.
    let held = match choice % 4 {
        0 => Some(every_state(&session).await),
        1 => Some(held_session(&session).await),
        _ => None,
    };
    if let Some((_, locked)) = &held {
        put_token(&mut payload, &locked.tag);
    }
    let payload = Bytes::from(payload);
    let node = match choice % 4 {
        0 => "q/$management",
        1 => "s/$management",
        2 => "t/$management",
        _ => "t/Subscriptions/a/$management",
    };
    let requests = session
        .attach_sender(
            "requests",
            LinkOptions::new(Source::new("fuzz"), Target::new(node)),
            SOON,
        )
        .await
        .unwrap();
    let mut options = LinkOptions::new(Source::new(node), Target::new("replies"));
    options.credit = CreditMode::Exact(2);
    let replies = session
        .attach_receiver("replies", options, SOON)
        .await
        .unwrap();

    let outcome = requests
        .send(OutgoingDelivery::new(payload.clone()))
        .await
        .unwrap();
    match outcome {
        Some(DeliveryState::Outcome(Outcome::Rejected(Some(error)))) => {
            assert!(!error.description.unwrap_or_default().is_empty());
            assert!(replies.try_recv().is_none(), "a reply to what was rejected");
        }
        Some(DeliveryState::ACCEPTED) => {
            let reply = replies.recv().await.unwrap();
            check(&reply, &payload);
        }
        other => panic!("{other:?}"),
    }
    // The connection works on.
    replies.drain().await.unwrap();
    assert!(replies.try_recv().is_none(), "two replies to one request");
}

/// Puts the token that is the tag of a delivery where the request asks for it: as a uuid, in the order of its fields.
fn put_token(payload: &mut [u8], tag: &[u8]) {
    let token: [u8; 16] = tag.try_into().expect("a token has 16 bytes");
    let token = Uuid::from_bytes_le(token).into_bytes();
    let places: Vec<_> = (0..payload.len())
        .filter(|at| payload[*at..].starts_with(&TOKEN))
        .collect();
    for at in places {
        payload[at..at + TOKEN.len()].copy_from_slice(&token);
    }
}

fn check(reply: &IncomingDelivery, request: &Bytes) {
    assert!(reply.payload.len() <= request.len() + ENVELOPE);
    let request = Message::decode(request.clone()).expect("it was accepted");
    let reply = Message::decode(reply.payload.clone()).unwrap();
    assert_eq!(
        reply.properties.unwrap_or_default().correlation_id,
        request.properties.unwrap_or_default().message_id
    );
    let properties = reply.application_properties.unwrap().decode().unwrap();
    let Some(Value::Int(status)) = properties.get("statusCode") else {
        panic!("no status in {properties:?}");
    };
    assert!((200..600).contains(status), "{status}");
}

fn declare(emulator: &Emulator) {
    let namespace = emulator.default_namespace();
    namespace
        .create_queue("q", QueueOptions::default())
        .unwrap();
    namespace
        .create_queue(
            "s",
            QueueOptions {
                requires_session: true,
                ..QueueOptions::default()
            },
        )
        .unwrap();
    namespace
        .create_topic("t", TopicOptions::default())
        .unwrap();
    namespace
        .create_subscription("t", "a", SubscriptionOptions::default())
        .unwrap();
}

/// Message 1 is locked, 2 deferred, 3 scheduled, and 4 waits.
async fn every_state(session: &Session) -> (ReceiverLink, IncomingDelivery) {
    let sender = session
        .attach_sender(
            "sender",
            LinkOptions::new(Source::new("fuzz"), Target::new("q")),
            SOON,
        )
        .await
        .unwrap();
    let later = Map::new().with(
        Symbol::from_static("x-opt-scheduled-enqueue-time"),
        servicebus_amqp::types::Timestamp::from_millis(1_800_000_000_000),
    );
    for annotations in [None, None, Some(later), None] {
        let message = Message {
            message_annotations: annotations.map(Into::into),
            ..text()
        };
        sender
            .send(OutgoingDelivery::new(encode(&message)))
            .await
            .unwrap();
    }
    let receiver = attach(session, Source::new("q"), 2).await;
    let locked = receiver.recv().await.unwrap();
    let deferred = receiver.recv().await.unwrap();
    let mut modified = Modified::default();
    modified.undeliverable_here = Some(true);
    let state = DeliveryState::Outcome(Outcome::Modified(Box::new(modified)));
    receiver
        .settle_confirmed(deferred.delivery, state)
        .unwrap()
        .await
        .unwrap();
    (receiver, locked)
}

/// Session `a` is held, and its only message locked.
async fn held_session(session: &Session) -> (ReceiverLink, IncomingDelivery) {
    let sender = session
        .attach_sender(
            "sender",
            LinkOptions::new(Source::new("fuzz"), Target::new("s")),
            SOON,
        )
        .await
        .unwrap();
    let mut message = text();
    message.properties.get_or_insert_default().group_id = Some("a".into());
    sender
        .send(OutgoingDelivery::new(encode(&message)))
        .await
        .unwrap();
    let mut source = Source::new("s");
    source.filter = Some(Map::new().with(
        Symbol::from_static("com.microsoft:session-filter"),
        Value::from("a"),
    ));
    let receiver = attach(session, source, 1).await;
    let locked = receiver.recv().await.unwrap();
    (receiver, locked)
}

async fn attach(session: &Session, source: Source, credit: u32) -> ReceiverLink {
    let mut options = LinkOptions::new(source, Target::new("fuzz"));
    options.snd_settle_mode = SenderSettleMode::Unsettled;
    options.rcv_settle_mode = ReceiverSettleMode::Second;
    options.credit = CreditMode::Exact(credit);
    session
        .attach_receiver("receiver", options, SOON)
        .await
        .unwrap()
}

fn text() -> Message {
    Message {
        body: servicebus_amqp::types::Body::Data(Bytes::from_static(b"text")),
        ..Message::default()
    }
}

fn encode(message: &Message) -> Bytes {
    let mut out = BytesMut::new();
    message.encode(&mut out).unwrap();
    out.freeze()
}
