use bytes::Bytes;
use servicebus_amqp::engine::{Event, OutgoingDelivery, Settle};
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
