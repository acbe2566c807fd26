use servicebus_amqp::codec::AMQP_HEADER;
use servicebus_amqp::engine::{
    Config, ConnectionError, DetachMode, Event, RequestError, SessionError, SessionOptions, Side,
};
use servicebus_amqp::types::{Detach, End, Map, Performative, Role, condition};

use crate::peer::{CHANNEL, Peer, attach, begin, credit, error, open, options, transfer};

#[test]
fn b22_a_channel_max_of_0() {
    let mut open = open();
    open.channel_max = 0;
    let mut peer = Peer::of_client_with(Config::new("client"), open);
    let session = peer.session(begin());
    assert_eq!(
        peer.engine.begin(SessionOptions::default()),
        Err(RequestError::ChannelMax { channel_max: 0 })
    );
    peer.link(session, Role::Sender, 0, options());
}

#[test]
fn a_begin_of_more_than_512_bytes_waits_for_the_peers_open() {
    for (max_frame_size, fits) in [(u32::MAX, true), (512, false)] {
        let mut peer = Peer::new(Config::new("client"), Side::Client);
        let mut large = SessionOptions::default();
        large.properties = Some(Map::new().with("k", "x".repeat(600)));
        peer.engine.begin(large).unwrap();
        assert_eq!(peer.header(), AMQP_HEADER);
        assert!(matches!(peer.frame(), Performative::Open(_)));
        peer.silent();
        peer.bytes(&AMQP_HEADER);
        let mut open = open();
        open.max_frame_size = max_frame_size;
        peer.send(0, Performative::Open(Box::new(open)));
        assert!(matches!(peer.event(), Event::Opened(_)));
        if fits {
            assert!(matches!(peer.frame(), Performative::Begin(_)));
            peer.quiet();
        } else {
            assert!(matches!(
                peer.event(),
                Event::SessionEnded {
                    error: SessionError::Refused(RequestError::FrameTooLarge {
                        max_frame_size: 512
                    }),
                    ..
                }
            ));
            peer.silent();
        }
    }
}

#[test]
fn b44_a_transfer_on_a_handle_that_was_never_attached_ends_the_session() {
    let mut peer = Peer::of_client();
    peer.session(begin());
    peer.transfer(&transfer(9, 0), b"m");
    let Event::SessionEnded {
        error: SessionError::Protocol(error),
        ..
    } = peer.event()
    else {
        panic!("not ended");
    };
    assert_eq!(error.condition, condition::UNATTACHED_HANDLE);
    let Performative::End(end) = peer.frame() else {
        panic!("no end");
    };
    assert_eq!(end.error.unwrap().condition, condition::UNATTACHED_HANDLE);
    // The connection lives, and the peer's end is no second event.
    peer.end();
    peer.quiet();
    peer.session(begin());
}

#[test]
fn a_handle_in_use_ends_the_session() {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    peer.link(session, Role::Sender, 0, options());
    peer.send(
        CHANNEL,
        Performative::Attach(attach("other", 0, Role::Sender)),
    );
    let Event::SessionEnded {
        error: SessionError::Protocol(error),
        ..
    } = peer.event()
    else {
        panic!("not ended");
    };
    assert_eq!(error.condition, condition::HANDLE_IN_USE);
}

#[test]
fn an_end_is_answered_and_covers_the_links() {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    let link = peer.link(session, Role::Sender, 0, options());
    peer.send(
        CHANNEL,
        Performative::End(End {
            error: Some(Box::new(error("amqp:internal-error"))),
        }),
    );
    let Event::SessionEnded {
        error: SessionError::EndedByPeer(Some(error)),
        ..
    } = peer.event()
    else {
        panic!("not ended");
    };
    assert_eq!(error.condition, "amqp:internal-error");
    assert!(matches!(peer.frame(), Performative::End(_)));
    peer.quiet();
    peer.silent();
    assert_eq!(peer.engine.link(link), Err(RequestError::Stale));
    assert_eq!(peer.engine.end(session, None), Err(RequestError::Stale));
    // A frame on the channel is now one on a channel without a session.
    peer.flow(credit(0, 0, 1));
    assert!(matches!(
        peer.event(),
        Event::Closed(ConnectionError::Protocol(_))
    ));
}

#[test]
fn ends_and_detaches_that_cross() {
    let mut peer = Peer::of_client();
    let session = peer.session(begin());
    let link = peer.link(session, Role::Sender, 0, options());
    peer.engine.detach(link, DetachMode::Close, None).unwrap();
    peer.detach(0, None);
    assert!(matches!(peer.event(), Event::LinkDetached { .. }));
    peer.sent_detach();
    peer.engine.end(session, None).unwrap();
    // Frames that the peer sent before it saw our end.
    peer.transfer(&transfer(77, 0), b"m");
    peer.send(CHANNEL, Performative::Attach(attach("x", 1, Role::Sender)));
    peer.send(
        CHANNEL,
        Performative::Detach(Detach {
            handle: 50,
            closed: true,
            error: None,
        }),
    );
    peer.quiet();
    peer.end();
    assert!(matches!(
        peer.event(),
        Event::SessionEnded {
            error: SessionError::EndedLocally,
            ..
        }
    ));
    assert!(matches!(peer.frame(), Performative::End(_)));
    peer.silent();
}

#[test]
fn an_end_before_the_begin_is_answered() {
    let mut peer = Peer::of_client();
    let session = peer.engine.begin(SessionOptions::default()).unwrap();
    peer.engine.end(session, None).unwrap();
    assert_eq!(peer.frames().len(), 2);
    peer.send(CHANNEL, Performative::Begin(Box::new(begin())));
    peer.quiet();
    peer.end();
    assert!(matches!(peer.event(), Event::SessionEnded { .. }));
    peer.silent();
}
