use bytes::Bytes;
use servicebus_amqp::engine::{Config, Event, OutgoingDelivery, Settle};
use servicebus_amqp::types::{DeliveryState, Role};

use crate::pair::{Pair, window};

#[test]
fn a_message_goes_across_and_is_accepted() {
    let mut pair = Pair::connected();
    let (session, _) = pair.session();
    let (sender, _) = pair.link_with(session, Role::Sender, crate::pair::options(), |mut o| {
        o.credit = window(10).credit;
        o
    });
    pair.drive();
    assert_eq!(pair.client.briefs(), ["credit 10"]);
    pair.client
        .engine
        .send(
            sender,
            OutgoingDelivery::new(Bytes::from_static(b"hello")),
            7,
        )
        .unwrap();
    pair.drive();
    let Event::Delivery(delivery) = pair.listener.expect() else {
        panic!();
    };
    assert_eq!(delivery.payload, "hello");
    pair.listener
        .engine
        .settle(delivery.delivery, DeliveryState::ACCEPTED, Settle::First)
        .unwrap();
    pair.drive();
    assert_eq!(
        pair.client.briefs(),
        ["outcome 7 Some(Outcome(Accepted)) settled=true"]
    );
    pair.client.quiet();
    pair.listener.quiet();
}

#[test]
fn a_tail_follows_the_payload_over_any_number_of_frames() {
    let mut config = Config::new("listener");
    config.max_frame_size = 512;
    let mut pair = Pair::connected_with(Config::new("client"), config);
    let (session, _) = pair.session();
    let (sender, _) = pair.link_with(session, Role::Sender, crate::pair::options(), |mut o| {
        o.credit = window(10).credit;
        o
    });
    for (payload, tail) in [(3, 0), (3, 5), (3, 2_000), (2_000, 3), (2_000, 2_000)] {
        let mut delivery = OutgoingDelivery::new(Bytes::from(vec![1; payload]));
        delivery.tail = Bytes::from(vec![2; tail]);
        pair.client.engine.send(sender, delivery, 0).unwrap();
        pair.drive();
        let Event::Delivery(delivery) = pair.listener.expect() else {
            panic!();
        };
        assert_eq!(delivery.payload, [vec![1; payload], vec![2; tail]].concat());
    }
}
