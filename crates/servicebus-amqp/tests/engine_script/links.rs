use bytes::Bytes;
use servicebus_amqp::engine::{
    ConnectionError, CreditMode, DetachMode, Event, LinkError, OutgoingDelivery, RequestError,
    SessionOptions,
};
use servicebus_amqp::types::{
    DeliveryState, Disposition, Performative, Role, TargetArchetype, condition,
};

use crate::peer::{CHANNEL, Peer, attach, begin, credit, error, options, transfer};

fn handle(frame: &Performative) -> u32 {
    match frame {
        Performative::Attach(attach) => attach.handle,
        other => panic!("not an attach: {other:?}"),
    }
}

#[test]
fn b22_no_handle_above_the_peers_handle_max() {
    let mut peer = Peer::of_client();
    let mut answer = begin();
    answer.handle_max = 7;
    let session = peer.session(answer);
    for n in 0..20 {
        let link = peer
            .engine
            .attach(session, format!("{n}").into(), Role::Sender, options());
        match link {
            Ok(_) => assert_eq!(handle(&peer.frame()), n),
            Err(error) => {
                assert_eq!(error, RequestError::HandleMax { handle_max: 7 });
                assert!(n > 7);
            }
        }
    }
    peer.silent();
}

#[test]
fn b22_links_asked_for_before_the_limit_is_known() {
    let mut peer = Peer::of_client();
    let session = peer.engine.begin(SessionOptions::default()).unwrap();
    for n in 0..4 {
        peer.engine
            .attach(session, format!("{n}").into(), Role::Sender, options())
            .unwrap();
    }
    assert!(matches!(peer.frame(), Performative::Begin(_)));
    assert_eq!(handle(&peer.frame()), 0);
    peer.silent();
    let mut answer = begin();
    answer.handle_max = 1;
    peer.send(CHANNEL, Performative::Begin(Box::new(answer)));
    assert!(matches!(peer.event(), Event::SessionBegun { .. }));
    for _ in 2..4 {
        assert!(matches!(
            peer.event(),
            Event::LinkDetached {
                error: LinkError::HandleMax { handle_max: 1 },
                ..
            }
        ));
    }
    assert_eq!(handle(&peer.frame()), 1);
    peer.silent();
    peer.quiet();
}

#[test]
fn b22_handles_are_used_again_lowest_first() {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    let links: Vec<_> = (0..4)
        .map(|n| peer.link(session, Role::Sender, n, options()))
        .collect();
    for n in [2_u32, 1] {
        peer.engine
            .detach(links[n as usize], DetachMode::Close, None)
            .unwrap();
        assert_eq!(peer.sent_detach().handle, n);
        peer.detach(n, None);
        assert!(matches!(peer.event(), Event::LinkDetached { .. }));
    }
    for expected in [1, 2, 4] {
        peer.engine
            .attach(
                session,
                format!("again-{expected}").into(),
                Role::Sender,
                options(),
            )
            .unwrap();
        assert_eq!(handle(&peer.frame()), expected);
    }
}

/// What the peer does with attempts to attach that come to nothing.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    AttachAndDetach,
    NullSourceAndDetach,
    NoAnswerToTheAttach,
    NoAnswerAtAll,
}

#[test]
fn b23_attaches_that_fail_leave_no_handle() {
    for refusal in [
        Refusal::AttachAndDetach,
        Refusal::NullSourceAndDetach,
        Refusal::NoAnswerToTheAttach,
        Refusal::NoAnswerAtAll,
    ] {
        let mut peer = Peer::of_client();
        let session = peer.session(begin());
        let mut highest = 0;
        for n in 0..5_500 {
            let name = format!("{n}");
            let link = peer
                .engine
                .attach(session, name.clone().into(), Role::Receiver, options())
                .unwrap();
            highest = highest.max(handle(&peer.frame()));
            let mut answer = attach(&name, 0, Role::Sender);
            match refusal {
                Refusal::AttachAndDetach => {
                    peer.send(CHANNEL, Performative::Attach(answer));
                    peer.detach(0, Some(error("com.microsoft:timeout")));
                    assert!(matches!(peer.event(), Event::Attached { .. }));
                }
                Refusal::NullSourceAndDetach => {
                    answer.source = None;
                    peer.send(CHANNEL, Performative::Attach(answer));
                    peer.detach(0, Some(error("com.microsoft:timeout")));
                }
                Refusal::NoAnswerToTheAttach => {
                    peer.engine.detach(link, DetachMode::Close, None).unwrap();
                    peer.send(CHANNEL, Performative::Attach(answer));
                    peer.detach(0, None);
                }
                Refusal::NoAnswerAtAll => {
                    peer.engine.detach(link, DetachMode::Close, None).unwrap();
                }
            }
            peer.sent_detach();
            if !matches!(refusal, Refusal::NoAnswerAtAll) {
                assert!(matches!(peer.event(), Event::LinkDetached { .. }));
                peer.quiet();
            }
            while peer.engine.poll_event().is_some() {}
        }
        let most = match refusal {
            Refusal::NoAnswerAtAll => 17,
            _ => 1,
        };
        assert!(highest <= most, "{refusal:?}: handle {highest}");
    }
}

#[test]
fn b44_late_frames_for_a_detached_link_are_dropped() {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    let mut receiving = options();
    receiving.credit = CreditMode::Exact(10);
    let link = peer.link(session, Role::Receiver, 0, receiving);
    let other = peer.link(session, Role::Sender, 1, options());
    peer.frames();
    peer.engine.detach(link, DetachMode::Close, None).unwrap();
    assert!(peer.sent_detach().closed);
    peer.transfer(&transfer(0, 0), b"late");
    peer.transfer(&transfer(0, 1), b"late");
    let mut flow = credit(0, 2, 8);
    flow.echo = true;
    peer.flow(flow);
    peer.disposition(Disposition {
        role: Role::Sender,
        first: 0,
        last: Some(1),
        settled: true,
        state: Some(DeliveryState::RELEASED),
        batchable: false,
    });
    peer.quiet();
    peer.silent();
    peer.detach(0, None);
    assert!(matches!(
        peer.event(),
        Event::LinkDetached {
            error: LinkError::DetachedLocally,
            ..
        }
    ));
    // The other link lives.
    peer.flow(credit(1, 0, 1));
    assert!(matches!(peer.event(), Event::Credit { link, credit: 1 } if link == other));
}

#[test]
fn b45_a_refusal_in_two_steps_is_one_event() {
    for (role, condition) in [
        (Role::Sender, "amqp:not-found"),
        (Role::Receiver, "amqp:unauthorized-access"),
    ] {
        let mut peer = Peer::of_client();
        let session = peer.session(begin());
        peer.engine
            .attach(session, "link".into(), role, options())
            .unwrap();
        peer.frame();
        let mut answer = attach("link", 5, role.opposite());
        match role {
            Role::Sender => answer.target = None::<TargetArchetype>,
            Role::Receiver => answer.source = None,
        }
        peer.send(CHANNEL, Performative::Attach(answer));
        peer.quiet();
        peer.detach(5, Some(error(condition)));
        let Event::LinkDetached {
            error:
                LinkError::DetachedByPeer {
                    closed: true,
                    error: Some(error),
                },
            ..
        } = peer.event()
        else {
            panic!("not detached");
        };
        assert_eq!(error.condition, condition);
        assert_eq!(error.description.unwrap(), "for a test");
        peer.quiet();
        let detach = peer.sent_detach();
        assert!(detach.closed && detach.handle == 0 && detach.error.is_none());
        peer.silent();
        // Handle 0 is free again.
        peer.engine
            .attach(session, "next".into(), role, options())
            .unwrap();
        assert_eq!(handle(&peer.frame()), 0);
    }
}

#[test]
fn b45_the_detach_of_a_refusal_never_comes() {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    let link = peer.attaching(session, "link", Role::Sender, options());
    let mut answer = attach("link", 5, Role::Receiver);
    answer.target = None;
    peer.send(CHANNEL, Performative::Attach(answer));
    peer.engine.detach(link, DetachMode::Close, None).unwrap();
    peer.sent_detach();
    assert_eq!(
        peer.engine.detach(link, DetachMode::Close, None),
        Err(RequestError::Stale)
    );
    peer.detach(5, None);
    assert!(matches!(peer.event(), Event::LinkDetached { .. }));
}

#[test]
fn b46_an_attach_that_is_given_up() {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    let link = peer.attaching(session, "link", Role::Sender, options());
    peer.engine.detach(link, DetachMode::Close, None).unwrap();
    peer.sent_detach();
    assert_eq!(
        peer.engine
            .attach(session, "link".into(), Role::Sender, options()),
        Err(RequestError::NameInUse)
    );
    // The answer was on its way.
    peer.send(
        CHANNEL,
        Performative::Attach(attach("link", 2, Role::Receiver)),
    );
    peer.quiet();
    peer.detach(2, None);
    assert!(matches!(
        peer.event(),
        Event::LinkDetached {
            error: LinkError::DetachedLocally,
            ..
        }
    ));
    peer.silent();
    peer.engine
        .attach(session, "link".into(), Role::Sender, options())
        .unwrap();
}

#[test]
fn b46_a_detach_without_a_reason() {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    let link = peer.link(session, Role::Sender, 0, options());
    peer.engine
        .send(link, OutgoingDelivery::new(Bytes::from_static(b"m")), 8)
        .unwrap();
    peer.detach(0, None);
    assert!(matches!(peer.event(), Event::Unsent { context: 8, .. }));
    assert!(matches!(
        peer.event(),
        Event::LinkDetached {
            error: LinkError::DetachedByPeer {
                closed: true,
                error: None
            },
            ..
        }
    ));
    peer.quiet();
    assert_eq!(peer.engine.link(link), Err(RequestError::Stale));
}

#[test]
fn a_link_that_the_peer_attaches_again_is_stolen() {
    let mut peer = Peer::of_listener();
    peer.begin_session();
    let first = peer.request(Role::Sender, 0, options());
    peer.send(
        CHANNEL,
        Performative::Attach(attach("link-0", 1, Role::Sender)),
    );
    let Event::LinkDetached {
        link,
        error: LinkError::Stolen,
    } = peer.event()
    else {
        panic!("not stolen");
    };
    assert_eq!(link, first);
    let detach = peer.sent_detach();
    assert_eq!(detach.error.unwrap().condition, condition::STOLEN);
    assert!(matches!(peer.event(), Event::AttachRequested { .. }));
    peer.detach(0, None);
    peer.quiet();
}

#[test]
fn refusing_an_attach_takes_two_steps() {
    let mut peer = Peer::of_listener();
    peer.begin_session();
    peer.send(
        CHANNEL,
        Performative::Attach(attach("link", 4, Role::Receiver)),
    );
    let Event::AttachRequested { link, .. } = peer.event() else {
        panic!("no request");
    };
    peer.engine
        .refuse_attach(link, error("amqp:not-found"))
        .unwrap();
    let Performative::Attach(answer) = peer.frame() else {
        panic!("no attach");
    };
    assert!(answer.source.is_none() && answer.role == Role::Sender);
    let detach = peer.sent_detach();
    assert!(detach.closed);
    assert_eq!(detach.error.unwrap().condition, "amqp:not-found");
    assert_eq!(
        peer.engine.accept_attach(link, options()),
        Err(RequestError::Stale)
    );
    peer.detach(4, None);
    peer.quiet();
    peer.silent();
}

#[test]
fn a_peer_that_takes_its_request_back() {
    let mut peer = Peer::of_listener();
    peer.begin_session();
    peer.send(
        CHANNEL,
        Performative::Attach(attach("link", 4, Role::Receiver)),
    );
    assert!(matches!(peer.event(), Event::AttachRequested { .. }));
    peer.detach(4, None);
    assert!(matches!(peer.event(), Event::LinkDetached { .. }));
    assert!(matches!(peer.frame(), Performative::Attach(_)));
    peer.sent_detach();
    peer.silent();
}

#[test]
fn what_was_not_transferred_is_told_apart_at_each_end() {
    for end in 0..5 {
        let mut peer = Peer::of_client();
        let session = peer.session(begin());
        let link = peer.link(session, Role::Sender, 0, options());
        peer.flow(credit(0, 0, 1));
        for context in 0..2 {
            peer.engine
                .send(
                    link,
                    OutgoingDelivery::new(Bytes::from_static(b"m")),
                    context,
                )
                .unwrap();
        }
        peer.sent_transfer();
        assert!(matches!(peer.event(), Event::Credit { .. }));
        match end {
            0 => peer.engine.detach(link, DetachMode::Close, None).unwrap(),
            1 => peer.engine.end(session, None).unwrap(),
            2 => peer.engine.close(peer.now, None),
            3 => peer.end(),
            _ => peer.engine.handle_disconnect(ConnectionError::Lost),
        }
        assert!(
            matches!(peer.event(), Event::Unsent { context: 1, .. }),
            "end {end}"
        );
    }
}
