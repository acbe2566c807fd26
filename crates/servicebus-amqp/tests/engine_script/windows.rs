use bytes::Bytes;
use servicebus_amqp::engine::{
    Config, CreditMode, Event, InitialIds, OutgoingDelivery, SessionError, SessionOptions, Settle,
};
use servicebus_amqp::types::{
    DeliveryState, Disposition, Flow, Performative, Role, Transfer, condition,
};

use crate::peer::{CHANNEL, Peer, begin, credit, exactly, open, options, send, sender, transfer};

/// A peer whose client advertised this incoming window, and the link it receives on.
fn receiving(window: u32, credit: u32) -> Peer {
    let mut peer = Peer::of_client();
    let mut session = SessionOptions::default();
    session.incoming_window = window;
    let session = peer.engine.begin(session).unwrap();
    let Performative::Begin(ours) = peer.frame() else {
        panic!("no begin");
    };
    assert_eq!(ours.incoming_window, window);
    peer.send(CHANNEL, Performative::Begin(Box::new(begin())));
    assert!(matches!(peer.event(), Event::SessionBegun { .. }));
    peer.link(session, Role::Receiver, 0, exactly(credit));
    peer
}

fn send_ok(peer: &mut Peer, link: servicebus_amqp::engine::LinkKey, body: Vec<u8>) {
    peer.engine
        .send(link, OutgoingDelivery::new(Bytes::from(body)), 0)
        .unwrap();
}

#[test]
fn b31_the_window_is_renewed_without_the_links() {
    for frames_each in [1, 3] {
        let window = 120;
        let mut peer = receiving(window, 3 * window);
        let (mut left, mut flows, mut received) = (window, 0, 0);
        peer.frames();
        for id in 0..3 * window / frames_each {
            for frame in 0..frames_each {
                assert!(left > 0, "the window was not renewed");
                left -= 1;
                let more = frame + 1 < frames_each;
                peer.transfer(
                    &Transfer {
                        more,
                        ..transfer(0, id)
                    },
                    b"part",
                );
                for sent in peer.frames() {
                    let Performative::Flow(flow) = sent else {
                        panic!("unexpected: {sent:?}");
                    };
                    assert_eq!(flow.handle, None);
                    assert!(flow.incoming_window > 0);
                    // AMQP 1.0 §2.5.6, from the sender's side.
                    let sent_so_far = id * frames_each + frame + 1;
                    left = flow.next_incoming_id.unwrap() + flow.incoming_window - sent_so_far;
                    flows += 1;
                }
            }
            assert!(matches!(peer.event(), Event::Delivery(_)));
            received += 1;
        }
        assert_eq!(received, 3 * window / frames_each);
        assert!(flows <= 10, "{flows} flows");
    }
}

#[test]
fn b31_a_window_of_one() {
    let mut peer = receiving(1, 5);
    peer.frames();
    for id in 0..5 {
        peer.transfer(&transfer(0, id), b"m");
        assert!(matches!(peer.event(), Event::Delivery(_)));
        assert_eq!(peer.sent_flow().incoming_window, 1);
    }
}

#[test]
fn more_than_the_window_ends_the_session() {
    let mut peer = receiving(2, 5);
    peer.frames();
    // Without reading what would renew the window.
    for id in 0..3 {
        peer.transfer(&transfer(0, id), b"m");
    }
    assert!(matches!(peer.event(), Event::Delivery(_)));
    assert!(matches!(peer.event(), Event::Delivery(_)));
    let Event::SessionEnded {
        error: SessionError::Protocol(error),
        ..
    } = peer.event()
    else {
        panic!("not ended");
    };
    assert_eq!(error.condition, condition::WINDOW_VIOLATION);
}

#[test]
fn b32_no_transfer_beyond_the_peers_window() {
    let mut peer = Peer::of_client();
    let mut answer = begin();
    answer.incoming_window = 5;
    let session = peer.session(answer);
    let link = peer.link(session, Role::Sender, 0, options());
    peer.flow(Flow {
        incoming_window: 5,
        ..credit(0, 0, 100)
    });
    for _ in 0..20 {
        send_ok(&mut peer, link, vec![0]);
    }
    for round in 0..4 {
        assert_eq!(peer.frames().len(), 5);
        let next = (round + 1) * 5;
        peer.flow(Flow {
            next_incoming_id: Some(next),
            incoming_window: 5,
            outgoing_window: 100,
            ..Flow::default()
        });
        peer.disposition(Disposition {
            role: Role::Receiver,
            first: next - 5,
            last: Some(next - 1),
            settled: true,
            state: Some(DeliveryState::ACCEPTED),
            batchable: false,
        });
    }
    peer.silent();
    let mut outcomes = 0;
    while let Some(event) = peer.engine.poll_event() {
        outcomes += u32::from(matches!(event, Event::Outcome { settled: true, .. }));
    }
    assert_eq!(outcomes, 20);
}

#[test]
fn b32_a_message_of_three_frames_and_a_window_of_two() {
    let mut open = open();
    open.max_frame_size = 512;
    let mut peer = Peer::of_client_with(Config::new("client"), open);
    let mut answer = begin();
    answer.incoming_window = 2;
    let session = peer.session(answer);
    let link = peer.link(session, Role::Sender, 0, options());
    peer.flow(Flow {
        incoming_window: 2,
        ..credit(0, 0, 100)
    });
    send_ok(&mut peer, link, vec![0; 1200]);
    assert!(peer.sent_transfer().0.more);
    assert!(peer.sent_transfer().0.more);
    peer.silent();
    peer.flow(Flow {
        next_incoming_id: Some(2),
        incoming_window: 2,
        ..Flow::default()
    });
    assert!(!peer.sent_transfer().0.more);
    peer.silent();
}

#[test]
fn b32_a_window_that_counts_from_before_what_is_on_its_way() {
    let mut peer = Peer::of_client();
    let mut answer = begin();
    answer.incoming_window = 5;
    let session = peer.session(answer);
    let link = peer.link(session, Role::Sender, 0, options());
    peer.flow(Flow {
        incoming_window: 5,
        ..credit(0, 0, 100)
    });
    for _ in 0..20 {
        send_ok(&mut peer, link, vec![0]);
    }
    assert_eq!(peer.frames().len(), 5);
    // The peer had seen two of the five when it said this.
    peer.flow(Flow {
        next_incoming_id: Some(2),
        incoming_window: 5,
        ..Flow::default()
    });
    assert_eq!(peer.frames().len(), 2);
    peer.flow(Flow {
        next_incoming_id: Some(2),
        incoming_window: 1,
        ..Flow::default()
    });
    peer.silent();
}

#[test]
fn b33_the_peers_ids_wrap() {
    let mut peer = Peer::of_client();
    let mut answer = begin();
    answer.next_outgoing_id = 0xffff_fffe;
    let session = peer.session(answer);
    let link = peer.link(session, Role::Receiver, 0, exactly(10));
    peer.frames();
    let mut keys = Vec::new();
    for id in [0xffff_fffe, 0xffff_ffff, 0, 1, 2] {
        peer.transfer(&transfer(0, id), b"m");
        let Event::Delivery(delivery) = peer.event() else {
            panic!("no delivery");
        };
        keys.push(delivery.delivery);
    }
    for key in keys {
        peer.engine
            .settle(key, DeliveryState::ACCEPTED, Settle::First)
            .unwrap();
    }
    let disposition = peer.sent_disposition();
    assert_eq!(
        (disposition.first, disposition.last),
        (0xffff_fffe, Some(2))
    );
    peer.silent();
    peer.engine.set_credit(link, CreditMode::Exact(1)).unwrap();
    let flow = peer.sent_flow();
    assert_eq!(flow.next_incoming_id, Some(3));
}

#[test]
fn b33_our_ids_wrap() {
    let mut config = Config::new("client");
    config.initial_ids = InitialIds {
        next_outgoing_id: 0xffff_fffe,
        delivery_id: 0xffff_fffe,
    };
    let mut peer = Peer::of_client_with(config, open());
    let session = peer.engine.begin(SessionOptions::default()).unwrap();
    let Performative::Begin(ours) = peer.frame() else {
        panic!("no begin");
    };
    assert_eq!(ours.next_outgoing_id, 0xffff_fffe);
    peer.send(CHANNEL, Performative::Begin(Box::new(begin())));
    assert!(matches!(peer.event(), Event::SessionBegun { .. }));
    let mut sending = options();
    sending.initial_delivery_count = 0xffff_ffff;
    let link = peer.link(session, Role::Sender, 0, sending);
    // Said before the peer saw our begin: the window counts from its start.
    peer.flow(Flow {
        next_incoming_id: None,
        ..credit(0, 0xffff_ffff, 10)
    });
    for context in 0..12 {
        peer.engine
            .send(
                link,
                OutgoingDelivery::new(Bytes::from_static(b"m")),
                context,
            )
            .unwrap();
    }
    let ids: Vec<_> = peer
        .frames()
        .into_iter()
        .map(|frame| match frame {
            Performative::Transfer(transfer) => transfer.delivery_id.unwrap(),
            other => panic!("unexpected: {other:?}"),
        })
        .collect();
    assert_eq!(ids, [0xffff_fffe, 0xffff_ffff, 0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(matches!(peer.event(), Event::Credit { credit: 10, .. }));
    peer.disposition(Disposition {
        role: Role::Receiver,
        first: 0xffff_ffff,
        last: Some(1),
        settled: true,
        state: Some(DeliveryState::ACCEPTED),
        batchable: false,
    });
    for expected in 1..=3 {
        assert!(matches!(
            peer.event(),
            Event::Outcome { context, settled: true, .. } if context == expected
        ));
    }
    peer.quiet();
}

#[test]
fn b35_no_flow_before_its_fields_are_known() {
    let mut peer = Peer::of_client();
    let session = peer.engine.begin(SessionOptions::default()).unwrap();
    let link = peer
        .engine
        .attach(session, "link".into(), Role::Receiver, exactly(5))
        .unwrap();
    peer.engine.set_credit(link, CreditMode::Exact(6)).unwrap();
    assert!(matches!(peer.frame(), Performative::Begin(_)));
    assert!(matches!(peer.frame(), Performative::Attach(_)));
    peer.silent();
    peer.send(CHANNEL, Performative::Begin(Box::new(begin())));
    peer.silent();
    let mut answer = crate::peer::attach("link", 0, Role::Sender);
    answer.initial_delivery_count = Some(77);
    peer.send(CHANNEL, Performative::Attach(answer));
    let flow = peer.sent_flow();
    assert_eq!(flow.next_incoming_id, Some(0));
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(77), Some(6)));
    peer.silent();
}

#[test]
fn b38_a_session_flow_with_echo_is_answered_once() {
    let mut peer = Peer::of_client();
    peer.session(begin());
    for _ in 0..3 {
        peer.flow(Flow {
            next_incoming_id: Some(0),
            incoming_window: 10,
            echo: true,
            ..Flow::default()
        });
    }
    let flow = peer.sent_flow();
    assert!(flow.handle.is_none() && !flow.echo);
    peer.silent();
}

#[test]
fn b39_one_held_delivery_starves_nobody() {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    peer.link(session, Role::Receiver, 0, exactly(1));
    let mut options = options();
    options.credit = CreditMode::Window(100);
    let other = peer.link(session, Role::Receiver, 1, options);
    peer.frames();
    peer.transfer(&transfer(0, 0), b"held");
    let Event::Delivery(held) = peer.event() else {
        panic!("no delivery");
    };
    let mut flows = 0;
    for id in 1..=20_000 {
        peer.transfer(&transfer(1, id), b"m");
        let Event::Delivery(delivery) = peer.event() else {
            panic!("no delivery {id}");
        };
        peer.engine
            .settle(delivery.delivery, DeliveryState::ACCEPTED, Settle::First)
            .unwrap();
        peer.engine.release(other, 1).unwrap();
        for frame in peer.frames() {
            if let Performative::Flow(flow) = frame {
                assert!(flow.incoming_window > 0);
                flows += 1;
            }
        }
    }
    // Half of a window at a time, not each message.
    assert!(flows <= 20_000 / 50 + 20, "{flows} flows");
    peer.engine
        .settle(held.delivery, DeliveryState::RELEASED, Settle::First)
        .unwrap();
    assert_eq!(peer.sent_disposition().first, 0);
}

/// What thousands of others have passed is found one by one: here a client that sends has two deliveries without an outcome.
#[test]
fn b39_two_held_deliveries_get_their_outcomes_one_after_the_other() {
    let (mut peer, link) = sender(options());
    peer.flow(credit(0, 0, 10_000));
    for context in 0..3_000 {
        send(&mut peer, link, context);
    }
    assert_eq!(peer.frames().len(), 3_000);
    let accepted = |first, last| Disposition {
        role: Role::Receiver,
        first,
        last,
        settled: true,
        state: Some(DeliveryState::ACCEPTED),
        batchable: false,
    };
    peer.disposition(accepted(2, Some(2_999)));
    while peer.engine.poll_event().is_some() {}
    for held in [0, 1] {
        peer.disposition(accepted(held, None));
        assert!(matches!(
            peer.event(),
            Event::Outcome { context, settled: true, .. } if context == u64::from(held)
        ));
    }
    peer.quiet();
}
