//! What a hostile peer can try. Bounds are on what the engine does, not on how long it takes.

use bytes::{Bytes, BytesMut};
use servicebus_amqp::codec::{SASL_HEADER, encode_frame, encode_sasl};
use servicebus_amqp::engine::{
    Config, ConnectionError, CreditMode, Event, Intake, LinkError, OutgoingDelivery, PlainAmqp,
    Sasl, SessionError, Side,
};
use servicebus_amqp::types::{
    Begin, DeliveryState, Detach, Disposition, End, Flow, Performative, Role, SaslFrame, SaslInit,
    Symbol, Transfer, condition,
};

use crate::peer::{CHANNEL, Peer, attach, begin, credit, options, transfer};

fn sending(count: u64) -> Peer {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    let link = peer.link(session, Role::Sender, 0, options());
    peer.flow(credit(0, 0, 1_000_000));
    assert!(matches!(peer.event(), Event::Credit { .. }));
    for n in 0..count {
        peer.engine
            .send(link, OutgoingDelivery::new(Bytes::from_static(b"m")), n)
            .unwrap();
    }
    peer.frames();
    peer
}

fn disposition(first: u32, last: u32, settled: bool) -> Disposition {
    Disposition {
        role: Role::Receiver,
        first,
        last: Some(last),
        settled,
        state: Some(DeliveryState::ACCEPTED),
        batchable: false,
    }
}

#[test]
fn a_disposition_of_everything_costs_what_it_matches() {
    let mut peer = sending(3);
    peer.disposition(disposition(0, 0x7fff_ffff, true));
    for n in 0..3 {
        assert!(matches!(peer.event(), Event::Outcome { context, .. } if context == n));
    }
    // Again and again for nothing: 10 000 of them would take for ever if each cost its length.
    for _ in 0..10_000 {
        peer.disposition(disposition(0, 0x7fff_ffff, true));
    }
    peer.quiet();
}

#[test]
fn a_disposition_that_runs_backwards_ends_the_session() {
    for (first, last) in [(0, u32::MAX), (5, 4)] {
        let mut peer = sending(3);
        peer.disposition(disposition(first, last, true));
        assert!(matches!(
            peer.event(),
            Event::SessionEnded {
                error: SessionError::Protocol(error),
                ..
            } if error.condition == condition::INVALID_FIELD
        ));
    }
}

#[test]
fn repeated_unsettled_dispositions_cause_one_event_each_delivery() {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    let mut reporting = options();
    reporting.on_outcome = servicebus_amqp::engine::OnOutcome::Report;
    let link = peer.link(session, Role::Sender, 0, reporting);
    peer.flow(credit(0, 0, 100));
    assert!(matches!(peer.event(), Event::Credit { .. }));
    peer.engine
        .send(link, OutgoingDelivery::new(Bytes::from_static(b"m")), 0)
        .unwrap();
    peer.frames();
    for _ in 0..1000 {
        peer.disposition(disposition(0, 0, false));
    }
    assert!(matches!(
        peer.event(),
        Event::Outcome { settled: false, .. }
    ));
    peer.quiet();
}

#[test]
fn input_pauses_while_events_wait() {
    let mut peer = sending(900);
    let mut input = BytesMut::new();
    for _ in 0..2 {
        encode_frame(
            &mut input,
            CHANNEL,
            &Performative::Disposition(disposition(0, 0x7fff_ffff, true)),
        );
    }
    for _ in 0..5000 {
        let mut flow = credit(0, 0, 0);
        flow.link_credit = Some(1_000_000);
        encode_frame(&mut input, CHANNEL, &Performative::Flow(flow));
        encode_frame(&mut input, CHANNEL, &Performative::Flow(credit(0, 0, 5)));
    }
    let now = peer.now;
    assert_eq!(peer.engine.handle_input(now, &mut input), Intake::Paused);
    let mut events = 0;
    while peer.engine.poll_event().is_some() {
        events += 1;
    }
    assert!(events < 2_100, "{events}");
    while peer.engine.handle_input(now, &mut input) == Intake::Paused {
        while peer.engine.poll_event().is_some() {}
    }
    assert!(input.is_empty());
}

#[test]
fn answers_that_nobody_reads_end_the_connection() {
    let mut config = Config::new("listener");
    config.limits.unsent_bytes = 64 * 1024;
    let mut peer = Peer::of_listener_with(config);
    let mut closed = false;
    for _ in 0..100_000 {
        let begin = Begin {
            remote_channel: None,
            ..begin()
        };
        peer.send(CHANNEL, Performative::Begin(Box::new(begin)));
        peer.send(CHANNEL, Performative::End(End::default()));
        while let Some(event) = peer.engine.poll_event() {
            closed |= matches!(&event, Event::Closed(ConnectionError::Protocol(error))
                if error.condition == condition::RESOURCE_LIMIT_EXCEEDED);
        }
        if closed {
            break;
        }
    }
    assert!(closed);
    assert!(peer.output().len() < 66 * 1024);
}

#[test]
fn a_flood_of_attaches_ends_the_session() {
    let mut config = Config::new("listener");
    config.limits.links = 100;
    let mut peer = Peer::of_listener_with(config);
    peer.begin_session();
    for handle in 0..=100 {
        peer.send(
            CHANNEL,
            Performative::Attach(attach(&format!("{handle}"), handle, Role::Sender)),
        );
    }
    for _ in 0..100 {
        assert!(matches!(peer.event(), Event::AttachRequested { .. }));
    }
    assert!(matches!(
        peer.event(),
        Event::SessionEnded {
            error: SessionError::Protocol(error),
            ..
        } if error.condition == condition::RESOURCE_LIMIT_EXCEEDED
    ));
}

#[test]
fn handles_at_the_extremes() {
    let mut peer = Peer::of_listener();
    peer.begin_session();
    peer.request(Role::Sender, 16_383, options());
    peer.request(Role::Sender, 0, options());
    peer.send(
        CHANNEL,
        Performative::Attach(attach("beyond", 1 << 31, Role::Sender)),
    );
    assert!(matches!(
        peer.event(),
        Event::Closed(ConnectionError::Protocol(error)) if error.condition == condition::FRAMING_ERROR
    ));
}

/// The highest handle of all is told apart from no handle by not being taken.
#[test]
fn the_highest_handle_is_beyond_every_limit() {
    let mut config = Config::new("listener");
    config.accepted_sessions.handle_max = u32::MAX;
    let mut peer = Peer::of_listener_with(config);
    let begin = Begin {
        remote_channel: None,
        ..begin()
    };
    peer.send(CHANNEL, Performative::Begin(Box::new(begin)));
    assert!(matches!(peer.event(), Event::SessionRequested { .. }));
    let Performative::Begin(answer) = peer.frame() else {
        panic!("no begin");
    };
    assert_eq!(answer.handle_max, u32::MAX - 1);
    peer.request(Role::Sender, u32::MAX - 1, options());
    peer.send(
        CHANNEL,
        Performative::Attach(attach("beyond", u32::MAX, Role::Sender)),
    );
    assert!(matches!(
        peer.event(),
        Event::Closed(ConnectionError::Protocol(error)) if error.condition == condition::FRAMING_ERROR
    ));
}

#[test]
fn channels_at_the_extremes() {
    let mut peer = Peer::of_listener();
    let begin = Begin {
        remote_channel: None,
        ..begin()
    };
    peer.send(8191, Performative::Begin(Box::new(begin.clone())));
    assert!(matches!(peer.event(), Event::SessionRequested { .. }));
    let Performative::Begin(answer) = peer.frame() else {
        panic!("no begin");
    };
    assert_eq!(answer.remote_channel, Some(8191));
    peer.send(8192, Performative::Begin(Box::new(begin)));
    assert!(matches!(
        peer.event(),
        Event::Closed(ConnectionError::Protocol(error)) if error.condition == condition::FRAMING_ERROR
    ));
}

#[test]
fn frames_that_do_not_belong_close_the_connection() {
    let frames = [
        Performative::Open(Box::new(crate::peer::open())),
        Performative::Flow(Flow::default()),
        Performative::Attach(attach("x", 0, Role::Sender)),
        Performative::Transfer(Transfer::default()),
        Performative::Disposition(disposition(0, 0, true)),
        Performative::End(End::default()),
        Performative::Begin(Box::new(Begin {
            remote_channel: Some(4),
            ..begin()
        })),
    ];
    for frame in frames {
        let mut peer = Peer::of_listener();
        peer.send(5, frame.clone());
        assert!(
            matches!(peer.event(), Event::Closed(ConnectionError::Protocol(_))),
            "{frame:?}"
        );
        assert!(matches!(peer.frame(), Performative::Close(_)));
        peer.silent();
    }
}

#[test]
fn incomplete_deliveries_have_a_budget() {
    let mut config = Config::new("listener");
    config.limits.partial_bytes = 10_000;
    let mut peer = Peer::of_listener_with(config);
    peer.begin_session();
    for handle in 0..3 {
        let mut options = options();
        options.credit = CreditMode::Exact(10);
        peer.request(Role::Sender, handle, options);
        peer.frames();
    }
    for (handle, id) in [(0, 0), (1, 1)] {
        peer.transfer(
            &Transfer {
                more: true,
                ..transfer(handle, id)
            },
            &[0; 4000],
        );
    }
    peer.quiet();
    peer.transfer(
        &Transfer {
            more: true,
            ..transfer(2, 2)
        },
        &[0; 4000],
    );
    assert!(matches!(
        peer.event(),
        Event::LinkDetached {
            error: LinkError::Protocol(error),
            ..
        } if error.condition == condition::RESOURCE_LIMIT_EXCEEDED
    ));
    // The others go on, and what they held counts no longer once they are complete.
    peer.transfer(&transfer(0, 0), &[0; 10]);
    assert!(matches!(peer.event(), Event::Delivery(d) if d.payload.len() == 4010));
    peer.transfer(
        &Transfer {
            more: true,
            ..transfer(1, 1)
        },
        &[0; 4000],
    );
    peer.quiet();
}

/// A client library whose threads share a session sends ids out of order and twice.
#[test]
fn delivery_ids_may_come_out_of_order_and_twice() {
    let mut peer = Peer::of_listener();
    peer.begin_session();
    let mut receiving = options();
    receiving.credit = CreditMode::Exact(10);
    peer.request(Role::Sender, 0, receiving);
    peer.frames();
    for id in [5, 1_000_000_000, 5, 4, 1_000_000_000, 1_000_000_001] {
        peer.transfer(&transfer(0, id), b"m");
        let event = peer.event();
        assert!(matches!(event, Event::Delivery(_)), "{id}: {event:?}");
    }
}

/// The official Python client detaches the links of a session that it has ended.
#[test]
fn a_detach_after_the_end_of_its_session_is_ignored() {
    let mut peer = Peer::of_listener();
    peer.send(
        5,
        Performative::Detach(Detach {
            handle: 0,
            closed: true,
            error: None,
        }),
    );
    peer.silent();
}

#[test]
fn ten_thousand_links_are_small() {
    let mut peer = Peer::of_listener();
    peer.begin_session();
    for handle in 0..10_000 {
        peer.request(Role::Sender, handle, options());
    }
    peer.silent();
    assert!(!peer.engine.is_closed());
}

/// What a client sends before it is authenticated is not decoded, and must not pile up either.
#[test]
fn input_before_the_verdict_is_bounded() {
    let mut config = Config::new("listener");
    config.max_frame_size = 1000;
    config.sasl = Sasl::Listener {
        mechanisms: vec![Symbol::from_static("PLAIN")],
        plain_amqp: PlainAmqp::Refuse,
    };
    let mut peer = Peer::new(config, Side::Listener);
    peer.bytes(&SASL_HEADER);
    let init = SaslFrame::Init(SaslInit {
        mechanism: Symbol::from_static("PLAIN"),
        initial_response: None,
        hostname: None,
    });
    let mut bytes = BytesMut::new();
    encode_sasl(&mut bytes, &init);
    peer.bytes(&bytes);
    assert!(matches!(peer.event(), Event::SaslInit(_)));
    peer.bytes(&[0; 1000]);
    peer.quiet();
    peer.bytes(&[0]);
    assert!(matches!(
        peer.event(),
        Event::Closed(ConnectionError::Protocol(error)) if error.condition == condition::RESOURCE_LIMIT_EXCEEDED
    ));
    assert_eq!(peer.engine.poll_timeout(), None);
}

/// A peer that sends garbage as the first thing, or after the handshake.
#[test]
fn garbage_is_one_typed_error() {
    for size in [0_u32, 4, 7] {
        let mut peer = Peer::of_listener();
        let mut frame = size.to_be_bytes().to_vec();
        frame.extend_from_slice(&[2, 0, 0, 0]);
        peer.bytes(&frame);
        assert!(matches!(
            peer.event(),
            Event::Closed(ConnectionError::Protocol(error)) if error.condition == condition::FRAMING_ERROR
        ));
        assert!(matches!(peer.frame(), Performative::Close(_)));
    }
}
