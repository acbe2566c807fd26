use std::time::Duration;

use bytes::Bytes;
use servicebus_amqp::codec::{AMQP_HEADER, Frame, SASL_HEADER, encode_sasl};
use servicebus_amqp::engine::{
    Config, ConnectionError, Credentials, CreditMode, Event, OutgoingDelivery, PlainAmqp, Sasl,
    Side,
};
use servicebus_amqp::types::{
    Performative, Role, SaslCode, SaslFrame, SaslInit, SaslMechanisms, SaslOutcome, Symbol,
    condition,
};

use crate::peer::{Peer, begin, credit, open, options, transfer};

fn sasl(peer: &mut Peer, frame: &SaslFrame) {
    let mut bytes = bytes::BytesMut::new();
    encode_sasl(&mut bytes, frame);
    peer.bytes(&bytes);
}

fn mechanisms(names: &[&'static str]) -> Vec<Symbol> {
    names.iter().map(|name| Symbol::from_static(name)).collect()
}

fn client_with(credentials: Vec<Credentials>) -> Peer {
    let mut config = Config::new("client");
    config.sasl = Sasl::Client(credentials);
    let mut peer = Peer::new(config, Side::Client);
    assert_eq!(peer.header(), SASL_HEADER);
    peer.bytes(&SASL_HEADER);
    peer
}

fn listener_with(names: &[&'static str], plain_amqp: PlainAmqp) -> Peer {
    let mut config = Config::new("listener");
    config.sasl = Sasl::Listener {
        mechanisms: mechanisms(names),
        plain_amqp,
    };
    Peer::new(config, Side::Listener)
}

#[test]
fn b08_an_open_of_only_a_container_id() {
    for open in [
        "0000001102000000005310c00401a10173",
        "0000001a02000000005310c00d0aa10173404040404040404040",
    ] {
        let mut peer = Peer::new(Config::new("client"), Side::Client);
        peer.bytes(&AMQP_HEADER);
        peer.hex(open);
        let Event::Opened(open) = peer.event() else {
            panic!("not open");
        };
        assert_eq!(open.max_frame_size, u32::MAX);
        assert_eq!(open.channel_max, 65535);
        assert_eq!(open.idle_time_out, None);
        peer.advance(Duration::from_secs(50));
        let _ = (peer.header(), peer.frame());
        peer.silent();
    }
}

#[test]
fn b09_an_end_frame_is_acted_on_without_a_byte_after_it() {
    let mut peer = Peer::of_client();
    peer.session(begin());
    peer.hex("0000000c0200000300531745");
    assert!(matches!(peer.event(), Event::SessionEnded { .. }));
}

#[test]
fn b11_a_single_symbol_as_mechanisms() {
    let mut peer = client_with(vec![Credentials::Mssbcbs]);
    peer.hex("0000001702010000005340c00a01a3074d535342434253");
    let Some(Frame::Sasl(SaslFrame::Init(init))) = peer.raw_frame() else {
        panic!("no init");
    };
    assert_eq!(init.mechanism, "MSSBCBS");
}

#[test]
fn b19_heartbeats_follow_the_peers_idle_time_out() {
    // (the peer's time-out in ms, the longest gap between frames, the most frames in 10 s)
    for (millis, gap, most) in [(120_000, 60_000, 1), (1000, 500, 20), (1, 1000, 10_000)] {
        let mut open = open();
        open.idle_time_out = Some(millis);
        let mut config = Config::new("client");
        config.idle_timeout = None;
        let mut peer = Peer::of_client_with(config, open);
        let (start, mut last, mut frames) = (peer.now, peer.now, 0);
        while peer.now < start + Duration::from_secs(600) {
            let next = peer.engine.poll_timeout().unwrap();
            assert!(next > peer.now);
            peer.now = next;
            peer.engine.handle_timeout(next);
            if let Some(frame) = peer.raw_frame() {
                assert!(matches!(frame, Frame::Empty { .. }));
                assert!(peer.now - last <= Duration::from_millis(gap));
                last = peer.now;
                frames += 1;
            }
        }
        assert!(frames <= 60 * most, "{frames} frames for {millis} ms");
        assert!(peer.now - last <= Duration::from_millis(gap));
    }
}

#[test]
fn b19_no_heartbeat_where_none_is_asked_for() {
    for idle in [None, Some(0)] {
        let mut open = open();
        open.idle_time_out = idle;
        let mut config = Config::new("client");
        config.idle_timeout = None;
        let mut peer = Peer::of_client_with(config, open);
        assert_eq!(peer.engine.poll_timeout(), None);
        peer.advance(Duration::from_secs(3600));
        assert!(peer.raw_frame().is_none());
    }
}

#[test]
fn b19_another_frame_is_as_good_as_a_heartbeat() {
    let mut open = open();
    open.idle_time_out = Some(20_000);
    let mut peer = Peer::of_client_with(Config::new("client"), open);
    let session = peer.session(begin());
    let sender = peer.link(session, Role::Sender, 0, options());
    peer.flow(credit(0, 0, 100));
    peer.now += Duration::from_secs(9);
    peer.engine
        .send(sender, OutgoingDelivery::new(Bytes::from_static(b"m")), 0)
        .unwrap();
    peer.sent_transfer();
    peer.advance(Duration::from_millis(9_999));
    assert!(peer.raw_frame().is_none());
    peer.advance(Duration::from_millis(1));
    assert!(matches!(peer.raw_frame(), Some(Frame::Empty { .. })));
}

#[test]
fn b19_extreme_idle_time_outs_do_no_harm() {
    let mut open = open();
    open.idle_time_out = Some(u32::MAX);
    let mut config = Config::new("client");
    config.idle_timeout = Some(Duration::MAX);
    let mut peer = Peer::of_client_with(config, open);
    peer.advance(Duration::from_secs(24 * 3600));
    assert!(peer.raw_frame().is_none());
    peer.quiet();
}

#[test]
fn b20_a_silent_peer_is_given_up() {
    let mut peer = Peer::of_client();
    peer.advance(Duration::from_millis(59_999));
    peer.quiet();
    peer.advance(Duration::from_millis(1));
    assert!(matches!(
        peer.event(),
        Event::Closed(ConnectionError::IdleTimeout)
    ));
    assert_eq!(peer.engine.poll_timeout(), None);
}

#[test]
fn b20_a_heartbeat_that_nobody_takes_is_no_hot_loop() {
    let mut open = open();
    open.idle_time_out = Some(1000);
    let mut peer = Peer::of_client_with(Config::new("client"), open);
    let mut fired = 0;
    let end = peer.now + Duration::from_secs(59);
    while let Some(at) = peer.engine.poll_timeout().filter(|at| *at <= end) {
        peer.now = at;
        peer.engine.handle_timeout(at);
        fired += 1;
    }
    assert!(fired <= 2 * 59 + 1, "{fired}");
}

#[test]
fn b24_the_client_takes_what_it_has_credentials_for() {
    let mut peer = client_with(vec![Credentials::Anonymous]);
    let offer = mechanisms(&["PLAIN", "ANONYMOUS"]);
    sasl(
        &mut peer,
        &SaslFrame::Mechanisms(SaslMechanisms { mechanisms: offer }),
    );
    let Some(Frame::Sasl(SaslFrame::Init(init))) = peer.raw_frame() else {
        panic!("no init");
    };
    assert_eq!(init.mechanism, "ANONYMOUS");
    sasl(
        &mut peer,
        &SaslFrame::Outcome(SaslOutcome {
            code: SaslCode::Ok,
            additional_data: None,
        }),
    );
    assert_eq!(peer.header(), AMQP_HEADER);
    assert!(matches!(peer.frame(), Performative::Open(_)));
}

#[test]
fn b24_plain_states_user_and_password() {
    let mut peer = client_with(vec![Credentials::Plain {
        username: "user".into(),
        password: "secret".into(),
    }]);
    let offer = mechanisms(&["PLAIN"]);
    sasl(
        &mut peer,
        &SaslFrame::Mechanisms(SaslMechanisms { mechanisms: offer }),
    );
    let Some(Frame::Sasl(SaslFrame::Init(init))) = peer.raw_frame() else {
        panic!("no init");
    };
    // RFC 4616
    assert_eq!(init.initial_response.unwrap(), "\0user\0secret");
}

#[test]
fn b24_no_mechanism_in_common_names_the_offers() {
    for names in [&[][..], &["SCRAM-SHA-256"][..]] {
        let mut peer = client_with(vec![Credentials::Anonymous]);
        let offer = mechanisms(names);
        sasl(
            &mut peer,
            &SaslFrame::Mechanisms(SaslMechanisms {
                mechanisms: offer.clone(),
            }),
        );
        let Event::Closed(ConnectionError::NoMechanism { offered }) = peer.event() else {
            panic!("not closed");
        };
        assert_eq!(offered, offer);
    }
}

#[test]
fn b24_a_refusal_ends_the_connection() {
    for code in [
        SaslCode::Auth,
        SaslCode::Sys,
        SaslCode::SysPerm,
        SaslCode::SysTemp,
    ] {
        let mut peer = client_with(vec![Credentials::Anonymous]);
        let offer = mechanisms(&["ANONYMOUS"]);
        sasl(
            &mut peer,
            &SaslFrame::Mechanisms(SaslMechanisms { mechanisms: offer }),
        );
        sasl(
            &mut peer,
            &SaslFrame::Outcome(SaslOutcome {
                code,
                additional_data: None,
            }),
        );
        assert!(matches!(
            peer.event(),
            Event::Closed(ConnectionError::Authentication(found)) if found == code
        ));
    }
}

#[test]
fn b24_the_listener_takes_each_mechanism_it_offers() {
    for name in ["MSSBCBS", "ANONYMOUS", "EXTERNAL", "PLAIN"] {
        let mut peer = listener_with(
            &["MSSBCBS", "ANONYMOUS", "EXTERNAL", "PLAIN"],
            PlainAmqp::Refuse,
        );
        peer.bytes(&SASL_HEADER);
        assert_eq!(peer.header(), SASL_HEADER);
        let Some(Frame::Sasl(SaslFrame::Mechanisms(offer))) = peer.raw_frame() else {
            panic!("no mechanisms");
        };
        assert_eq!(offer.mechanisms.len(), 4);
        sasl(
            &mut peer,
            &SaslFrame::Init(SaslInit {
                mechanism: Symbol::from_static(name),
                initial_response: Some(Bytes::from_static(b"\0user\0secret")),
                hostname: None,
            }),
        );
        let Event::SaslInit(init) = peer.event() else {
            panic!("no init");
        };
        assert_eq!(init.mechanism, *name);
        assert!(!format!("{init:?}").contains("secret"));
        assert!(peer.raw_frame().is_none());
        peer.engine.sasl_outcome(SaslCode::Ok).unwrap();
        let Some(Frame::Sasl(SaslFrame::Outcome(outcome))) = peer.raw_frame() else {
            panic!("no outcome");
        };
        assert_eq!(outcome.code, SaslCode::Ok);
        peer.bytes(&AMQP_HEADER);
        peer.send(0, Performative::Open(Box::new(open())));
        assert!(matches!(peer.event(), Event::Opened(_)));
    }
}

#[test]
fn b24_no_open_after_a_refusal() {
    let mut peer = listener_with(&["PLAIN"], PlainAmqp::Refuse);
    peer.bytes(&SASL_HEADER);
    sasl(
        &mut peer,
        &SaslFrame::Init(SaslInit {
            mechanism: Symbol::from_static("PLAIN"),
            initial_response: None,
            hostname: None,
        }),
    );
    // The client does not wait.
    peer.bytes(&AMQP_HEADER);
    peer.send(0, Performative::Open(Box::new(open())));
    assert!(matches!(peer.event(), Event::SaslInit(_)));
    peer.engine.sasl_outcome(SaslCode::Auth).unwrap();
    let _ = peer.intake();
    assert!(matches!(
        peer.event(),
        Event::Closed(ConnectionError::Authentication(SaslCode::Auth))
    ));
    peer.quiet();
    assert_eq!(peer.header(), SASL_HEADER);
    peer.raw_frame().unwrap();
    let Some(Frame::Sasl(SaslFrame::Outcome(outcome))) = peer.raw_frame() else {
        panic!("no outcome");
    };
    assert_eq!(outcome.code, SaslCode::Auth);
    assert!(peer.raw_frame().is_none());
}

#[test]
fn a_client_that_skips_sasl_is_taken_only_where_that_is_wanted() {
    let mut peer = listener_with(&["ANONYMOUS"], PlainAmqp::Refuse);
    peer.bytes(&AMQP_HEADER);
    assert_eq!(peer.header(), SASL_HEADER);
    assert!(matches!(
        peer.event(),
        Event::Closed(ConnectionError::ProtocolHeader(AMQP_HEADER))
    ));

    let mut peer = listener_with(&["ANONYMOUS"], PlainAmqp::Accept);
    peer.bytes(&AMQP_HEADER);
    peer.send(0, Performative::Open(Box::new(open())));
    assert!(matches!(peer.event(), Event::Opened(_)));
}

#[test]
fn another_protocol_is_answered_with_our_header() {
    let mut peer = Peer::new(Config::new("listener"), Side::Listener);
    peer.bytes(b"GET / HTTP/1.1\r\n");
    assert_eq!(peer.header(), AMQP_HEADER);
    let Event::Closed(error) = peer.event() else {
        panic!("not closed");
    };
    assert!(error.to_string().contains("GET / HT"), "{error}");
}

#[test]
fn a_handshake_that_stalls_is_given_up() {
    let mut peer = Peer::new(Config::new("client"), Side::Client);
    peer.advance(Duration::from_secs(29));
    peer.quiet();
    peer.advance(Duration::from_secs(1));
    assert!(matches!(
        peer.event(),
        Event::Closed(ConnectionError::HandshakeTimeout)
    ));
}

#[test]
fn b25_frames_of_512_bytes() {
    let mut open = open();
    open.max_frame_size = 512;
    let mut peer = Peer::of_client_with(Config::new("client"), open);
    let session = peer.session(begin());
    let sender = peer.link(session, Role::Sender, 0, options());
    peer.flow(credit(0, 0, 1));
    let body: Vec<u8> = (0..10_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    peer.engine
        .send(sender, OutgoingDelivery::new(Bytes::from(body.clone())), 0)
        .unwrap();
    let output = peer.output();
    let mut at = 0;
    while at < output.len() {
        let size = u32::from_be_bytes(output[at..at + 4].try_into().unwrap()) as usize;
        assert!(size <= 512);
        at += size;
    }
    let mut frames = bytes::BytesMut::from(&output[..]);
    let (mut whole, mut count) = (Vec::new(), 0);
    while let Some(Frame::Amqp {
        performative: Performative::Transfer(transfer),
        payload,
        ..
    }) = servicebus_amqp::codec::decode_frame(&mut frames, 512).unwrap()
    {
        assert_eq!(transfer.delivery_id.is_some(), count == 0);
        assert_eq!(transfer.delivery_tag.is_some(), count == 0);
        assert_eq!(transfer.message_format.is_some(), count == 0);
        whole.extend_from_slice(&payload);
        assert_eq!(transfer.more, whole.len() < body.len());
        count += 1;
    }
    assert_eq!(whole, body);
    assert_eq!(peer.engine.link(sender).unwrap().credit, 0);
}

#[test]
fn b25_one_byte_above_our_own_limit() {
    for (extra, fits) in [(0, true), (1, false)] {
        let mut config = Config::new("client");
        config.max_frame_size = 65_536;
        let mut peer = Peer::of_client_with(config, open());
        let session = peer.session(begin());
        let mut options = options();
        options.credit = CreditMode::Exact(1);
        peer.link(session, Role::Receiver, 0, options);
        peer.frames();
        let head = servicebus_amqp::codec::transfer_len(&transfer(0, 0));
        peer.transfer(&transfer(0, 0), &vec![0; 65_536 - head + extra]);
        match peer.event() {
            Event::Delivery(_) if fits => {}
            Event::Closed(ConnectionError::Protocol(error)) if !fits => {
                assert_eq!(error.condition, condition::FRAMING_ERROR);
                let Some(Performative::Close(close)) = peer.frames().pop() else {
                    panic!("no close");
                };
                assert_eq!(close.error.unwrap().condition, condition::FRAMING_ERROR);
            }
            event => panic!("unexpected: {event:?}"),
        }
    }
}

#[test]
fn b27_close_is_bounded() {
    let mut peer = Peer::of_client();
    peer.session(begin());
    peer.engine.close(peer.now, None);
    peer.quiet();
    peer.advance(Duration::from_millis(4_999));
    peer.quiet();
    peer.advance(Duration::from_millis(1));
    assert!(matches!(
        peer.event(),
        Event::Closed(ConnectionError::ClosedLocally)
    ));
}

#[test]
fn the_peers_close_is_answered() {
    let mut peer = Peer::of_client();
    peer.close();
    assert!(matches!(
        peer.event(),
        Event::Closed(ConnectionError::ClosedByPeer(None))
    ));
    assert!(matches!(peer.frame(), Performative::Close(_)));
    peer.silent();
}

#[test]
fn closes_that_cross() {
    let mut peer = Peer::of_client();
    peer.engine.close(peer.now, None);
    peer.close();
    assert!(matches!(
        peer.event(),
        Event::Closed(ConnectionError::ClosedLocally)
    ));
    assert!(matches!(peer.frame(), Performative::Close(_)));
    peer.silent();
    peer.quiet();
}

/// §2.7.9: the sender of a close sends nothing more, so neither a heartbeat nor a second close for the peer's silence.
#[test]
fn nothing_follows_our_close() {
    let mut open = open();
    open.idle_time_out = Some(1000);
    let mut config = Config::new("client");
    config.idle_timeout = Some(Duration::from_secs(3));
    let mut peer = Peer::of_client_with(config, open);
    peer.engine.close(peer.now, None);
    assert!(matches!(peer.frame(), Performative::Close(_)));
    for _ in 0..5 {
        peer.advance(Duration::from_secs(1));
        assert!(peer.raw_frame().is_none());
    }
    assert!(matches!(
        peer.event(),
        Event::Closed(ConnectionError::ClosedLocally)
    ));
}
