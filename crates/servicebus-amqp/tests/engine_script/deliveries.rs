use bytes::Bytes;
use servicebus_amqp::engine::{
    Config, DetachMode, Event, LinkError, OutgoingDelivery, RequestError, Settle,
};
use servicebus_amqp::types::{
    AmqpError, DeliveryState, Disposition, Outcome, Performative, ReceiverSettleMode, Role,
    Transfer, condition,
};

use crate::peer::{
    CHANNEL, Peer, attach, begin, credit, deliveries, exactly, open, options, receiver, send,
    sender, transfer,
};

#[test]
fn the_peers_answer_to_a_second_mode_settlement_is_an_event() {
    let (mut peer, _, link) = receiver(2);
    peer.transfer(&transfer(0, 0), b"m");
    let Event::Delivery(delivery) = peer.event() else {
        panic!("no delivery");
    };
    peer.engine
        .settle(delivery.delivery, DeliveryState::ACCEPTED, Settle::Second)
        .unwrap();
    let disposition = peer.sent_disposition();
    assert!(!disposition.settled);
    assert_eq!(
        peer.engine
            .settle(delivery.delivery, DeliveryState::ACCEPTED, Settle::Second),
        Err(RequestError::WrongState)
    );
    let lost = DeliveryState::Outcome(Outcome::Rejected(None));
    peer.disposition(Disposition {
        role: Role::Sender,
        first: 0,
        last: None,
        settled: true,
        state: Some(lost.clone()),
        batchable: false,
    });
    let Event::Outcome {
        delivery: key,
        state,
        settled: true,
        ..
    } = peer.event()
    else {
        panic!("no outcome");
    };
    assert_eq!((key, state), (delivery.delivery, Some(lost)));
    assert_eq!(
        peer.engine
            .settle(key, DeliveryState::ACCEPTED, Settle::First),
        Err(RequestError::Stale)
    );
    assert_eq!(peer.engine.link(link).unwrap().unsettled, 0);
    peer.silent();
}

#[test]
fn a_sender_settles_what_the_peer_stated_in_second_mode() {
    let (mut peer, link) = sender(options());
    peer.flow(credit(0, 0, 5));
    assert!(matches!(peer.event(), Event::Credit { .. }));
    send(&mut peer, link, 9);
    peer.sent_transfer();
    let stated = Disposition {
        role: Role::Receiver,
        first: 0,
        last: None,
        settled: false,
        state: Some(DeliveryState::ACCEPTED),
        batchable: false,
    };
    peer.disposition(stated.clone());
    assert!(matches!(
        peer.event(),
        Event::Outcome {
            context: 9,
            settled: true,
            ..
        }
    ));
    let answer = peer.sent_disposition();
    assert!(answer.settled && answer.role == Role::Sender);
    assert_eq!(answer.state, Some(DeliveryState::ACCEPTED));
    peer.disposition(stated);
    peer.quiet();
    peer.silent();
}

#[test]
fn dispositions_of_equal_outcome_become_ranges() {
    let (mut peer, ..) = receiver(50);
    let keys: Vec<_> = (0..10)
        .map(|id| {
            peer.transfer(&transfer(0, id), b"m");
            let Event::Delivery(delivery) = peer.event() else {
                panic!("no delivery");
            };
            delivery.delivery
        })
        .collect();
    for (n, key) in keys.into_iter().enumerate() {
        let state = if n == 4 {
            DeliveryState::RELEASED
        } else {
            DeliveryState::ACCEPTED
        };
        peer.engine.settle(key, state, Settle::First).unwrap();
    }
    let ranges: Vec<_> = peer
        .frames()
        .into_iter()
        .map(|frame| match frame {
            Performative::Disposition(d) => (d.first, d.last, d.state.unwrap()),
            other => panic!("unexpected: {other:?}"),
        })
        .collect();
    let accepted = DeliveryState::Outcome(Outcome::Accepted);
    assert_eq!(
        ranges,
        [
            (0, Some(3), accepted.clone()),
            (4, None, DeliveryState::Outcome(Outcome::Released)),
            (5, Some(9), accepted),
        ]
    );
}

/// A disposition cannot be divided: one that is larger than the peer's frames would end the connection.
#[test]
fn a_state_beyond_the_peers_frames_is_refused() {
    let mut open = open();
    open.max_frame_size = 512;
    let mut peer = Peer::of_client_with(Config::new("client"), open);
    let session = peer.session(begin());
    peer.link(session, Role::Receiver, 0, exactly(2));
    peer.frames();
    peer.transfer(&transfer(0, 0), b"m");
    let Event::Delivery(delivery) = peer.event() else {
        panic!("no delivery");
    };
    let rejected = |length| {
        let error = AmqpError::new(condition::PRECONDITION_FAILED, "x".repeat(length));
        DeliveryState::Outcome(Outcome::Rejected(Some(Box::new(error))))
    };
    for settle in [Settle::First, Settle::Second] {
        assert_eq!(
            peer.engine.settle(delivery.delivery, rejected(512), settle),
            Err(RequestError::FrameTooLarge {
                max_frame_size: 512
            })
        );
    }
    peer.silent();
    // It is as if nothing had been asked.
    peer.engine
        .settle(delivery.delivery, rejected(400), Settle::Second)
        .unwrap();
    assert_eq!(peer.sent_disposition().state, Some(rejected(400)));
}

#[test]
fn settlements_are_written_before_the_detach_that_follows_them() {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    let link = peer.link(session, Role::Receiver, 0, exactly(1));
    peer.frames();
    peer.transfer(&transfer(0, 0), b"m");
    let Event::Delivery(delivery) = peer.event() else {
        panic!("no delivery");
    };
    peer.engine
        .settle(delivery.delivery, DeliveryState::ACCEPTED, Settle::First)
        .unwrap();
    peer.engine.detach(link, DetachMode::Close, None).unwrap();
    assert!(peer.sent_disposition().settled);
    peer.sent_detach();
}

#[test]
fn b44_a_disposition_for_an_unknown_delivery_is_ignored() {
    let mut peer = Peer::of_client();
    peer.session(begin());
    for role in [Role::Sender, Role::Receiver] {
        peer.disposition(Disposition {
            role,
            first: 17,
            last: None,
            settled: true,
            state: Some(DeliveryState::ACCEPTED),
            batchable: false,
        });
    }
    peer.quiet();
    peer.silent();
}

/// §2.7.5: the mode of a transfer overrides that of the link.
#[test]
fn a_delivery_says_how_it_is_to_be_settled() {
    let (mut peer, _, _) = receiver(3);
    let first = Some(ReceiverSettleMode::First);
    peer.transfer(&transfer(0, 0), b"as the link");
    for (id, more) in [(1, false), (2, true)] {
        let transfer = Transfer {
            more,
            rcv_settle_mode: first,
            ..transfer(0, id)
        };
        peer.transfer(&transfer, b"first");
    }
    peer.transfer(&transfer(0, 2), b"the rest");
    for mode in [None, first, first] {
        let Event::Delivery(delivery) = peer.event() else {
            panic!("a delivery")
        };
        assert_eq!(delivery.rcv_settle_mode, mode);
    }
}

#[test]
fn an_aborted_delivery_vanishes_without_a_credit_leak() {
    let (mut peer, _, link) = receiver(1);
    peer.transfer(
        &Transfer {
            more: true,
            ..transfer(0, 0)
        },
        b"part",
    );
    peer.transfer(
        &Transfer {
            aborted: true,
            ..transfer(0, 0)
        },
        b"",
    );
    peer.quiet();
    let flow = peer.sent_flow();
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(1), Some(1)));
    peer.transfer(&transfer(0, 1), b"whole");
    deliveries(&mut peer, 1);
    assert_eq!(peer.engine.link(link).unwrap().credit, 0);
}

/// §2.7.5: "The receiver MUST ignore resumed deliveries that are not in its local unsettled map."
#[test]
fn a_resumed_delivery_is_ignored() {
    let (mut peer, _, _) = receiver(1);
    // The first frame says it for the whole delivery.
    for (resume, more) in [(true, true), (false, true), (false, false)] {
        let transfer = Transfer {
            more,
            resume,
            ..transfer(0, 0)
        };
        peer.transfer(&transfer, b"part");
    }
    peer.quiet();
    let flow = peer.sent_flow();
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(1), Some(1)));
    peer.transfer(
        &Transfer {
            resume: true,
            ..transfer(0, 1)
        },
        b"whole",
    );
    peer.quiet();
    let flow = peer.sent_flow();
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(2), Some(1)));
    peer.transfer(&transfer(0, 2), b"new");
    deliveries(&mut peer, 1);
}

#[test]
fn a_message_above_max_message_size_is_rejected_and_detaches_the_link() {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    let mut options = exactly(5);
    options.max_message_size = Some(100);
    peer.link(session, Role::Receiver, 0, options);
    peer.frames();
    peer.transfer(&transfer(0, 0), &[0; 100]);
    deliveries(&mut peer, 1);
    peer.transfer(
        &Transfer {
            more: true,
            ..transfer(0, 1)
        },
        &[0; 60],
    );
    peer.transfer(
        &Transfer {
            more: true,
            ..transfer(0, 1)
        },
        &[0; 60],
    );
    assert!(matches!(
        peer.event(),
        Event::LinkDetached {
            error: LinkError::Protocol(error),
            ..
        } if error.condition == condition::MESSAGE_SIZE_EXCEEDED
    ));

    // Service Bus states the outcome of the delivery too; the Python SDK takes its error from there alone.
    let disposition = peer.sent_disposition();
    assert_eq!(
        (disposition.first, disposition.last, disposition.settled),
        (1, None, true)
    );
    let Some(DeliveryState::Outcome(Outcome::Rejected(Some(reason)))) = disposition.state else {
        panic!("not rejected: {disposition:?}");
    };
    assert_eq!(reason.condition, condition::MESSAGE_SIZE_EXCEEDED);
    assert_eq!(
        reason.description.as_deref(),
        Some(
            "The received message (delivery-id:1, size:120 bytes) exceeds the limit (100 bytes) currently allowed on the \
             link."
        )
    );
    assert_eq!(peer.sent_detach().error, Some(reason));
    // What was on its way is of no interest.
    peer.transfer(&transfer(0, 1), &[0; 60]);
    peer.silent();
}

#[test]
fn a_message_above_the_peers_max_message_size_is_not_sent() {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    let link = peer.attaching(session, "link", Role::Sender, options());
    let mut answer = attach("link", 0, Role::Receiver);
    answer.max_message_size = Some(4);
    peer.send(CHANNEL, Performative::Attach(answer));
    assert!(matches!(peer.event(), Event::Attached { .. }));
    let large = OutgoingDelivery::new(Bytes::from_static(b"12345"));
    assert_eq!(
        peer.engine.send(link, large, 0),
        Err(RequestError::MessageTooLarge { size: 5, limit: 4 })
    );
}
