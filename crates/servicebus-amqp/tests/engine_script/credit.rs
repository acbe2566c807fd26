use servicebus_amqp::engine::{CreditMode, DrainPolicy, Event, LinkError, RequestError};
use servicebus_amqp::types::{
    DeliveryState, Disposition, Flow, Performative, Role, Transfer, condition,
};

use crate::peer::{Peer, begin, credit, deliveries, options, receiver, send, sender, transfer};

/// A flow of the sender of a link.
fn sender_flow(delivery_count: u32, link_credit: Option<u32>, drain: bool) -> Flow {
    Flow {
        link_credit,
        drain,
        next_outgoing_id: delivery_count,
        ..credit(0, delivery_count, 0)
    }
}

#[test]
fn b34_credit_counts_messages() {
    let (mut peer, _, link) = receiver(3);
    for id in 0..3 {
        for frame in 0..4 {
            peer.silent();
            let more = frame < 3;
            peer.transfer(
                &Transfer {
                    more,
                    ..transfer(0, id)
                },
                b"part",
            );
        }
        let Event::Delivery(delivery) = peer.event() else {
            panic!("no delivery");
        };
        assert_eq!(delivery.payload, "partpartpartpart");
    }
    let status = peer.engine.link(link).unwrap();
    assert_eq!((status.delivery_count, status.credit), (3, 0));
    peer.engine.add_credit(link, 2).unwrap();
    let flow = peer.sent_flow();
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(3), Some(2)));
}

#[test]
fn a_delivery_without_credit_detaches_the_link() {
    let (mut peer, session, _) = receiver(1);
    peer.transfer(&transfer(0, 0), b"m");
    peer.transfer(&transfer(0, 1), b"m");
    deliveries(&mut peer, 1);
    let Event::LinkDetached {
        error: LinkError::Protocol(error),
        ..
    } = peer.event()
    else {
        panic!("not detached");
    };
    assert_eq!(error.condition, condition::TRANSFER_LIMIT_EXCEEDED);
    assert_eq!(
        peer.sent_detach().error.unwrap().condition,
        condition::TRANSFER_LIMIT_EXCEEDED
    );
    // The session lives, late transfers are dropped.
    peer.transfer(&transfer(0, 2), b"m");
    peer.detach(0, None);
    peer.quiet();
    peer.link(session, Role::Sender, 1, options());
}

#[test]
fn b36_transfers_after_the_drain_was_sent_are_delivered() {
    let (mut peer, _, link) = receiver(10);
    for id in 0..3 {
        peer.transfer(&transfer(0, id), b"m");
    }
    deliveries(&mut peer, 3);
    peer.engine.drain(link).unwrap();
    let flow = peer.sent_flow();
    assert!(flow.drain);
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(3), Some(7)));
    peer.transfer(&transfer(0, 3), b"m");
    peer.transfer(&transfer(0, 4), b"m");
    peer.flow(sender_flow(10, Some(0), true));
    deliveries(&mut peer, 2);
    assert!(matches!(peer.event(), Event::Drained { .. }));
    peer.quiet();
    assert_eq!(peer.engine.link(link).unwrap().delivery_count, 10);
}

#[test]
fn b36_a_drain_that_is_never_answered_is_given_up() {
    let (mut peer, _, link) = receiver(10);
    peer.engine.drain(link).unwrap();
    peer.sent_flow();
    peer.engine.set_credit(link, CreditMode::Exact(0)).unwrap();
    let flow = peer.sent_flow();
    assert!(!flow.drain);
    assert_eq!(flow.link_credit, Some(0));
    // What was on its way is no violation.
    peer.transfer(&transfer(0, 0), b"m");
    deliveries(&mut peer, 1);
    peer.quiet();
}

/// The peer answered the drain before it saw the credit that was given after it, and so used that up as well: it is given
/// again, or the link would wait for ever.
#[test]
fn b36_the_late_answer_to_a_drain_costs_no_credit() {
    for mode in [CreditMode::Exact(5), CreditMode::Window(5)] {
        let (mut peer, _, link) = receiver(10);
        peer.engine.drain(link).unwrap();
        assert!(peer.sent_flow().drain);
        peer.engine.set_credit(link, mode).unwrap();
        let flow = peer.sent_flow();
        assert_eq!((flow.delivery_count, flow.link_credit), (Some(0), Some(5)));
        peer.flow(sender_flow(10, Some(0), true));
        let flow = peer.sent_flow();
        assert_eq!((flow.delivery_count, flow.link_credit), (Some(10), Some(5)));
        assert!(!flow.drain);
        peer.silent();
        peer.quiet();
    }
}

#[test]
fn b37_drain_replies_in_all_shapes() {
    let shapes: [&[Flow]; 5] = [
        &[sender_flow(10, Some(0), false)],
        &[sender_flow(10, None, true)],
        &[
            sender_flow(10, Some(0), true),
            sender_flow(10, Some(0), true),
        ],
        &[sender_flow(3, Some(0), true)],
        &[sender_flow(3, Some(0), false)],
    ];
    for (n, shape) in shapes.into_iter().enumerate() {
        let (mut peer, _, link) = receiver(10);
        for id in 0..3 {
            peer.transfer(&transfer(0, id), b"m");
        }
        deliveries(&mut peer, 3);
        peer.engine.drain(link).unwrap();
        peer.sent_flow();
        for flow in shape {
            peer.flow(flow.clone());
        }
        assert!(matches!(peer.event(), Event::Drained { .. }), "shape {n}");
        peer.quiet();
        let count = shape[0].delivery_count.unwrap();
        let status = peer.engine.link(link).unwrap();
        assert_eq!((status.credit, status.delivery_count), (0, count));
        peer.engine.set_credit(link, CreditMode::Exact(4)).unwrap();
        let flow = peer.sent_flow();
        assert!(!flow.drain);
        assert_eq!(
            (flow.delivery_count, flow.link_credit),
            (Some(count), Some(4))
        );
    }
}

#[test]
fn b37_a_detach_instead_of_an_answer() {
    let (mut peer, _, link) = receiver(10);
    peer.engine.drain(link).unwrap();
    peer.detach(0, None);
    assert!(matches!(peer.event(), Event::LinkDetached { .. }));
    peer.quiet();
}

#[test]
fn b37_a_drain_of_nothing_is_complete_at_once() {
    let (mut peer, _, link) = receiver(0);
    peer.engine.drain(link).unwrap();
    assert!(matches!(peer.event(), Event::Drained { .. }));
    peer.silent();
}

#[test]
fn b37_a_drain_that_messages_complete() {
    let (mut peer, _, link) = receiver(2);
    peer.engine.drain(link).unwrap();
    peer.sent_flow();
    peer.transfer(&transfer(0, 0), b"m");
    peer.transfer(&transfer(0, 1), b"m");
    deliveries(&mut peer, 2);
    assert!(matches!(peer.event(), Event::Drained { .. }));
    // The answer that follows is no second completion.
    peer.flow(sender_flow(2, Some(0), true));
    peer.quiet();
}

#[test]
fn b38_the_senders_idea_of_credit_changes_nothing() {
    let (mut peer, _, link) = receiver(10);
    peer.flow(Flow {
        echo: true,
        available: Some(1),
        ..sender_flow(0, Some(0), false)
    });
    let flow = peer.sent_flow();
    assert_eq!((flow.handle, flow.link_credit), (Some(0), Some(10)));
    assert!(!flow.echo);
    peer.silent();
    peer.transfer(&transfer(0, 0), b"m");
    deliveries(&mut peer, 1);
    assert_eq!(peer.engine.link(link).unwrap().credit, 9);
}

#[test]
fn b41_a_sender_waits_for_credit_and_keeps_order() {
    let (mut peer, link) = sender(options());
    let keys: Vec<_> = (0..100).map(|n| send(&mut peer, link, n)).collect();
    peer.silent();
    for key in keys.iter().skip(1).step_by(2) {
        peer.engine.cancel(*key).unwrap();
        assert_eq!(peer.engine.cancel(*key), Err(RequestError::Stale));
    }
    peer.flow(credit(0, 0, 1000));
    let ids: Vec<_> = peer.frames();
    assert_eq!(ids.len(), 50);
    let status = peer.engine.link(link).unwrap();
    assert_eq!(
        (status.delivery_count, status.credit, status.queued),
        (50, 950, 0)
    );
    assert_eq!(
        peer.engine.cancel(keys[0]),
        Err(RequestError::AlreadyTransferred)
    );
    assert!(matches!(peer.event(), Event::Credit { credit: 1000, .. }));
    peer.disposition(Disposition {
        role: Role::Receiver,
        first: 0,
        last: Some(49),
        settled: true,
        state: Some(DeliveryState::ACCEPTED),
        batchable: false,
    });
    for n in 0..50 {
        assert!(matches!(
            peer.event(),
            Event::Outcome { context, .. } if context == 2 * n
        ));
    }
    peer.quiet();
}

#[test]
fn b41_many_sends_over_little_credit() {
    let (mut peer, link) = sender(options());
    let (mut sent, mut done) = (0, 0);
    for round in 0..1000 {
        for n in 0..10 {
            send(&mut peer, link, n);
        }
        peer.flow(Flow {
            next_incoming_id: Some(sent),
            ..credit(0, sent, 10)
        });
        assert_eq!(peer.frames().len(), 10, "round {round}");
        sent += 10;
        peer.disposition(Disposition {
            role: Role::Receiver,
            first: sent - 10,
            last: Some(sent - 1),
            settled: true,
            state: Some(DeliveryState::ACCEPTED),
            batchable: false,
        });
        while let Some(event) = peer.engine.poll_event() {
            done += u32::from(matches!(event, Event::Outcome { .. }));
        }
    }
    assert_eq!((sent, done), (10_000, 10_000));
    assert_eq!(peer.engine.link(link).unwrap().unsettled, 0);
}

#[test]
fn a_credit_that_crosses_transfers_counts_from_its_delivery_count() {
    let (mut peer, link) = sender(options());
    for n in 0..10 {
        send(&mut peer, link, n);
    }
    peer.flow(credit(0, 0, 4));
    assert_eq!(peer.frames().len(), 4);
    // The receiver had seen one of the four.
    peer.flow(credit(0, 1, 5));
    assert_eq!(peer.frames().len(), 2);
    // Credit is taken back below what was sent.
    peer.flow(credit(0, 2, 0));
    peer.silent();
    assert_eq!(peer.engine.link(link).unwrap().credit, 0);
}

#[test]
fn a_drain_request_is_answered_when_the_queue_is_empty() {
    let (mut peer, link) = sender(options());
    send(&mut peer, link, 0);
    peer.flow(Flow {
        drain: true,
        ..credit(0, 0, 5)
    });
    let frames = peer.frames();
    let [Performative::Transfer(_), Performative::Flow(flow)] = &frames[..] else {
        panic!("unexpected: {frames:?}");
    };
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(5), Some(0)));
    assert!(flow.drain);
    // With no credit left there is an answer all the same.
    peer.flow(Flow {
        drain: true,
        ..credit(0, 5, 0)
    });
    let flow = peer.sent_flow();
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(5), Some(0)));
    peer.silent();
}

#[test]
fn a_manual_drain_waits_for_the_application() {
    let mut options = options();
    options.drain = DrainPolicy::Manual;
    let (mut peer, link) = sender(options);
    peer.flow(Flow {
        drain: true,
        ..credit(0, 0, 5)
    });
    assert!(matches!(peer.event(), Event::Credit { credit: 5, .. }));
    assert!(matches!(
        peer.event(),
        Event::DrainRequested { credit: 5, .. }
    ));
    peer.silent();
    send(&mut peer, link, 0);
    assert!(matches!(peer.frame(), Performative::Transfer(_)));
    peer.engine.drained(link).unwrap();
    let flow = peer.sent_flow();
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(5), Some(0)));
    peer.silent();
}

#[test]
fn window_mode_counts_what_the_application_holds() {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    let mut options = options();
    options.credit = CreditMode::Window(10);
    let link = peer.link(session, Role::Receiver, 0, options);
    assert_eq!(peer.sent_flow().link_credit, Some(10));
    for id in 0..10 {
        peer.transfer(&transfer(0, id), b"m");
    }
    deliveries(&mut peer, 10);
    peer.silent();
    for _ in 0..4 {
        peer.engine.release(link, 1).unwrap();
    }
    peer.silent();
    peer.engine.release(link, 1).unwrap();
    let flow = peer.sent_flow();
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(10), Some(5)));
    // More than was taken does not open the window further.
    peer.engine.release(link, 1000).unwrap();
    assert_eq!(peer.sent_flow().link_credit, Some(10));
}
