use bytes::Bytes;
use proptest::prelude::*;
use servicebus_amqp::engine::{
    Config, CreditMode, Event, LinkOptions, OutgoingDelivery, SessionOptions, Settle, Side,
};
use servicebus_amqp::types::{DeliveryState, Role, SaslCode, Symbol};

use crate::operations;
use crate::pair::{Endpoint, Pair, brief, epoch, options};

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_operations_keep_the_invariants(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        operations::run(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_chunking_gives_the_same_events(cuts in proptest::collection::vec(1_usize..200, 1..60)) {
        let recorded = recording();
        let whole = replay(&recorded, &[usize::MAX]);
        prop_assert!(whole.0.len() > 10, "{whole:?}");
        prop_assert_eq!(replay(&recorded, &cuts), whole);
    }
}

#[test]
fn b09_frames_cut_anywhere() {
    let recorded = recording();
    let whole = replay(&recorded, &[usize::MAX]);
    assert_eq!(replay(&recorded, &[1]), whole);
    let longest = recorded.iter().map(Bytes::len).max().unwrap();
    for at in 1..longest {
        assert_eq!(replay(&recorded, &[at, usize::MAX]), whole);
    }
}

fn listener() -> Config {
    let mut config = Config::new("listener");
    config.sasl = servicebus_amqp::engine::Sasl::Listener {
        mechanisms: vec![Symbol::from_static("PLAIN")],
        plain_amqp: servicebus_amqp::engine::PlainAmqp::Refuse,
    };
    config
}

/// What a client sends in one exchange: SASL, open, begin, attach, transfers of one and of many frames, detach, end, close.
fn recording() -> Vec<Bytes> {
    let mut client = Config::new("client");
    client.sasl =
        servicebus_amqp::engine::Sasl::Client(vec![servicebus_amqp::engine::Credentials::Plain {
            username: "user".into(),
            password: "password".into(),
        }]);
    let mut config = listener();
    config.max_frame_size = 512;
    let mut pair = Pair::new(client, config);
    pair.drive();
    assert!(matches!(pair.listener.expect(), Event::SaslInit(_)));
    pair.listener.engine.sasl_outcome(SaslCode::Ok).unwrap();
    pair.drive();
    assert!(matches!(pair.client.expect(), Event::Opened(_)));
    assert!(matches!(pair.listener.expect(), Event::Opened(_)));
    let (session, _) = pair.session();
    let (link, _) = pair.link_with(session, Role::Sender, options(), credit);
    for size in [0, 5, 400, 1500] {
        pair.client
            .engine
            .send(
                link,
                OutgoingDelivery::new(Bytes::from(vec![b'x'; size])),
                0,
            )
            .unwrap();
    }
    pair.drive();
    pair.client
        .engine
        .detach(link, servicebus_amqp::engine::DetachMode::Close, None)
        .unwrap();
    pair.drive();
    let empty = pair.client.engine.begin(SessionOptions::default()).unwrap();
    pair.client.engine.end(empty, None).unwrap();
    pair.client.engine.end(session, None).unwrap();
    pair.drive();
    pair.client.engine.close(pair.now, None);
    pair.drive();
    pair.client.sent
}

fn credit(mut options: LinkOptions) -> LinkOptions {
    options.credit = CreditMode::Exact(100);
    options
}

/// The events of a listener that is fed these writes, each in pieces of these lengths, and what it answers.
fn replay(writes: &[Bytes], lengths: &[usize]) -> (Vec<String>, Bytes) {
    let now = epoch();
    let mut config = listener();
    config.max_frame_size = 512;
    let mut listener = Endpoint::new(config, Side::Listener, now);
    let mut events = Vec::new();
    for write in writes {
        let mut rest = &write[..];
        let mut lengths = lengths.iter().cycle();
        while !rest.is_empty() {
            let length = lengths.next().copied().unwrap_or(1).min(rest.len());
            let (piece, after) = rest.split_at(length);
            rest = after;
            listener.feed(now, piece, usize::MAX);
            // The verdict lets the engine read on.
            while let Some(event) = listener.event() {
                events.push(brief(&event));
                on_event(&mut listener, event);
                listener.resume(now);
            }
        }
        listener.take(now);
    }
    // Answers may be spread over other writes.
    let mut answers = bytes::BytesMut::new();
    for write in listener.sent {
        answers.extend_from_slice(&write);
    }
    (events, answers.freeze())
}

fn on_event(listener: &mut Endpoint, event: Event) {
    match event {
        Event::SaslInit(_) => listener.engine.sasl_outcome(SaslCode::Ok).unwrap(),
        Event::AttachRequested { link, attach, .. } => listener
            .engine
            .accept_attach(link, credit(LinkOptions::answer(&attach)))
            .unwrap(),
        Event::Delivery(delivery) => {
            // The link may be gone by now.
            let _ =
                listener
                    .engine
                    .settle(delivery.delivery, DeliveryState::ACCEPTED, Settle::First);
        }
        _ => {}
    }
}
