use std::time::Duration;

use bytes::{Buf, Bytes};
use servicebus_amqp::engine::{
    Config, CreditMode, DetachMode, Event, LinkOptions, OutgoingDelivery, RequestError,
    SessionOptions, Settle, Transmit,
};
use servicebus_amqp::types::{AmqpError, DeliveryState, Role};

use crate::pair::{Pair, options, window};

fn error() -> AmqpError {
    AmqpError::new("test:error", "why")
}

#[test]
fn the_whole_life_of_a_connection() {
    let mut pair = Pair::new(Config::new("client"), Config::new("listener"));
    pair.latency = Duration::from_millis(20);
    let start = pair.now;
    let session = pair.client.engine.begin(SessionOptions::default()).unwrap();
    let link = pair
        .client
        .engine
        .attach(session, "link".into(), Role::Sender, options())
        .unwrap();
    pair.drive();
    assert_eq!(pair.client.briefs(), ["opened listener", "session begun"]);
    let events: Vec<Event> = std::iter::from_fn(|| pair.listener.event()).collect();
    let [
        Event::Opened(_),
        Event::SessionRequested { .. },
        Event::AttachRequested { link: other, .. },
    ] = &events[..]
    else {
        panic!("unexpected: {events:?}");
    };
    // Open, begin and attach went out without waiting for an answer.
    assert_eq!(pair.now - start, Duration::from_millis(40));

    pair.listener
        .engine
        .accept_attach(*other, window(10))
        .unwrap();
    pair.drive();
    assert_eq!(pair.client.briefs(), ["attached link", "credit 10"]);

    pair.client
        .engine
        .detach(link, DetachMode::Close, Some(error()))
        .unwrap();
    pair.drive();
    assert_eq!(
        pair.client.briefs(),
        ["link detached: the link was detached locally"]
    );
    assert_eq!(
        pair.listener.briefs(),
        ["link detached: the peer closed the link: test:error: why"]
    );

    pair.client.engine.end(session, Some(error())).unwrap();
    pair.drive();
    assert_eq!(
        pair.client.briefs(),
        ["session ended: the session was ended locally"]
    );
    assert_eq!(
        pair.listener.briefs(),
        ["session ended: the peer ended the session: test:error: why"]
    );

    pair.client.engine.close(pair.now, Some(error()));
    pair.drive();
    assert_eq!(
        pair.client.briefs(),
        ["closed: the connection was closed locally"]
    );
    assert_eq!(
        pair.listener.briefs(),
        ["closed: the peer closed the connection: test:error: why"]
    );
}

#[test]
fn detaches_ends_and_closes_from_both_sides_cross() {
    for (client_first, latency) in [(true, 0), (false, 0), (true, 10), (false, 10)] {
        let mut pair = Pair::connected();
        pair.latency = Duration::from_millis(latency);
        let (session, session_of_listener) = pair.session();
        let (link, other) = pair.link(session, Role::Sender);
        pair.client
            .engine
            .detach(link, DetachMode::Close, None)
            .unwrap();
        pair.listener
            .engine
            .detach(other, DetachMode::Close, None)
            .unwrap();
        pair.drive();
        for side in [&mut pair.client, &mut pair.listener] {
            assert_eq!(
                side.briefs(),
                ["link detached: the link was detached locally"]
            );
        }
        if client_first {
            pair.client.engine.end(session, None).unwrap();
            pair.listener.engine.end(session_of_listener, None).unwrap();
            pair.drive();
            for side in [&mut pair.client, &mut pair.listener] {
                assert_eq!(
                    side.briefs(),
                    ["session ended: the session was ended locally"]
                );
            }
        }
        pair.client.engine.close(pair.now, None);
        pair.listener.engine.close(pair.now, None);
        pair.drive();
        for side in [&mut pair.client, &mut pair.listener] {
            assert_eq!(side.briefs(), ["closed: the connection was closed locally"]);
        }
    }
}

/// What one exchange does, step by step; each step may find its keys gone.
fn steps() -> Vec<fn(&mut Pair)> {
    vec![
        |pair| {
            let session = pair.client.engine.begin(SessionOptions::default());
            if let Ok(session) = session {
                let _ = pair
                    .client
                    .engine
                    .attach(session, "in".into(), Role::Receiver, window(10));
                let _ = pair
                    .client
                    .engine
                    .attach(session, "out".into(), Role::Sender, options());
            }
        },
        |pair| pair.drive(),
        |pair| {
            while let Some(event) = pair.listener.event() {
                if let Event::AttachRequested { link, attach, .. } = event {
                    let mut answer = LinkOptions::answer(&attach);
                    answer.credit = CreditMode::Window(10);
                    pair.listener.engine.accept_attach(link, answer).unwrap();
                    for n in 0..3 {
                        let delivery = OutgoingDelivery::new(Bytes::from(vec![0; 3000 * n]));
                        let _ = pair.listener.engine.send(link, delivery, 0);
                    }
                }
            }
        },
        |pair| pair.drive(),
        |pair| {
            while let Some(event) = pair.client.event() {
                match event {
                    Event::Attached { link, .. } => {
                        let delivery = OutgoingDelivery::new(Bytes::from_static(b"m"));
                        let _ = pair.client.engine.send(link, delivery, 0);
                        let _ = pair.client.engine.drain(link);
                    }
                    Event::Delivery(delivery) => {
                        pair.client
                            .engine
                            .settle(delivery.delivery, DeliveryState::ACCEPTED, Settle::Second)
                            .unwrap();
                    }
                    _ => {}
                }
            }
        },
        |pair| pair.drive(),
        |pair| pair.client.engine.close(pair.now, None),
    ]
}

#[test]
fn the_transport_breaks_at_each_step() {
    for count in 0..=steps().len() {
        let mut pair = Pair::new(Config::new("client"), Config::new("listener"));
        for step in steps().into_iter().take(count) {
            step(&mut pair);
        }
        pair.cut();
        let closing = count == steps().len();
        for (side, expected) in [
            (
                &mut pair.client,
                if closing {
                    "closed: the connection was closed locally"
                } else {
                    "closed: the connection ended without a close"
                },
            ),
            (
                &mut pair.listener,
                "closed: the connection ended without a close",
            ),
        ] {
            let events = side.briefs();
            assert_eq!(events.last().unwrap(), expected, "after step {count}");
            let closed = events.iter().filter(|event| event.starts_with("closed"));
            assert_eq!(closed.count(), 1);
            assert_eq!(side.engine.poll_timeout(), None);
            assert_eq!(
                side.engine.begin(SessionOptions::default()),
                Err(RequestError::Stale)
            );
        }
        pair.drive();
        pair.client.quiet();
        pair.listener.quiet();
    }
}

#[test]
fn one_side_falls_silent_at_each_step() {
    for count in 0..steps().len() {
        let mut pair = Pair::new(Config::new("client"), Config::new("listener"));
        for step in steps().into_iter().take(count) {
            step(&mut pair);
        }
        let limit = pair.now + Duration::from_secs(61);
        while let Some(next) = pair.client.engine.poll_timeout() {
            assert!(next <= limit, "step {count}");
            pair.client.engine.handle_timeout(next);
        }
        let events = pair.client.briefs();
        let last = events.last().unwrap();
        assert!(
            last.ends_with("within the idle time-out") || last.ends_with("not opened in time"),
            "after step {count}: {last}"
        );
    }
}

#[test]
fn an_idle_pair_stays_open_for_hours() {
    let mut pair = Pair::connected();
    pair.latency = Duration::from_millis(50);
    let sent = pair.client.sent.len();
    pair.advance(Duration::from_secs(3600));
    pair.client.quiet();
    pair.listener.quiet();
    // The peer's 30 s, halved: a heartbeat, of 8 bytes, every 15 s.
    assert_eq!(pair.client.sent.len() - sent, 240);
    assert!(
        pair.client
            .sent
            .iter()
            .skip(sent)
            .all(|write| write.len() == 8)
    );
}

#[test]
fn a_rejected_outcome_reaches_the_sender_while_the_link_is_used_again() {
    let mut pair = Pair::connected();
    let (session, _) = pair.session();
    let (link, other) = pair.link_with(session, Role::Sender, options(), |mut options| {
        options.credit = CreditMode::Window(2);
        options
    });
    pair.client.briefs();
    for round in 0..1000 {
        let context = round * 3;
        for n in 0..3 {
            let delivery = OutgoingDelivery::new(Bytes::from(vec![0; 100]));
            pair.client
                .engine
                .send(link, delivery, context + n)
                .unwrap();
        }
        for _ in 0..2 {
            pair.drive();
            while let Some(event) = pair.listener.event() {
                if let Event::Delivery(delivery) = event {
                    pair.listener
                        .engine
                        .settle(delivery.delivery, DeliveryState::RELEASED, Settle::First)
                        .unwrap();
                    pair.listener.engine.release(other, 1).unwrap();
                }
            }
        }
        pair.drive();
        let outcomes: Vec<u64> = std::iter::from_fn(|| pair.client.event())
            .filter_map(|event| match event {
                Event::Outcome { context, .. } => Some(context),
                _ => None,
            })
            .collect();
        assert_eq!(outcomes, [context, context + 1, context + 2]);
    }
}

#[test]
fn a_cancelled_multi_frame_delivery_is_aborted() {
    let mut listener = Config::new("listener");
    listener.max_frame_size = 512;
    let mut pair = Pair::connected_with(Config::new("client"), listener);
    let (session, _) = pair.session();
    let (link, other) = pair.link_with(session, Role::Sender, options(), |mut options| {
        options.credit = CreditMode::Exact(2);
        options
    });
    // More than the window of 5000 frames, so that it stops half way.
    let large = OutgoingDelivery::new(Bytes::from(vec![0; 4_000_000]));
    let key = pair.client.engine.send(link, large, 1).unwrap();
    let small = OutgoingDelivery::new(Bytes::from_static(b"small"));
    pair.client.engine.send(link, small, 2).unwrap();
    let mut transmit = Transmit::with_limit(100_000);
    pair.client.engine.poll_transmit(pair.now, &mut transmit);
    let part = transmit.copy_to_bytes(100_000);
    let rest = transmit.copy_to_bytes(transmit.remaining());
    pair.client.engine.cancel(key).unwrap();
    assert_eq!(pair.client.engine.cancel(key), Err(RequestError::Stale));
    pair.listener.feed(pair.now, &part, usize::MAX);
    pair.listener.feed(pair.now, &rest, usize::MAX);
    pair.drive();
    assert_eq!(pair.listener.briefs(), ["delivery small"]);
    // The aborted one did not use up credit that the application gave for messages.
    assert_eq!(pair.listener.engine.link(other).unwrap().credit, 1);
    assert_eq!(pair.client.engine.link(link).unwrap().credit, 1);
    assert_eq!(pair.client.engine.link(link).unwrap().queued, 0);
}

#[test]
fn b42_two_busy_sides_with_large_bodies_never_stall() {
    const COUNT: u64 = 200;
    let mut pair = Pair::connected();
    let (session, _) = pair.session();
    let (out, _) = pair.link_with(session, Role::Sender, options(), |mut options| {
        options.credit = CreditMode::Window(5);
        options
    });
    pair.client.briefs();
    let (_, back) = pair.link_with(session, Role::Receiver, window(5), |options| options);
    let body = Bytes::from(vec![1; 200_000]);
    for n in 0..COUNT {
        let delivery = OutgoingDelivery::new(body.clone());
        pair.client.engine.send(out, delivery.clone(), n).unwrap();
        pair.listener.engine.send(back, delivery, n).unwrap();
    }
    let (mut received, mut outcomes) = (0, 0);
    for _ in 0..COUNT {
        pair.drive();
        for side in [&mut pair.client, &mut pair.listener] {
            while let Some(event) = side.event() {
                match event {
                    Event::Delivery(delivery) => {
                        let key = delivery.delivery;
                        side.engine
                            .settle(key, DeliveryState::ACCEPTED, Settle::First)
                            .unwrap();
                        side.engine.release(delivery.link, 1).unwrap();
                        received += 1;
                    }
                    Event::Outcome { .. } => outcomes += 1,
                    _ => {}
                }
            }
        }
    }
    assert_eq!((received, outcomes), (2 * COUNT, 2 * COUNT));
}
