//! The frame trace: what it shows, and what it must not.
//!
//! A program of its own, because subscribers are the business of the whole process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "../engine_script/peer.rs"]
#[allow(dead_code, reason = "shared with the tests of scripts")]
mod peer;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use servicebus_amqp::codec::{SASL_HEADER, encode_sasl};
use servicebus_amqp::engine::{Config, Credentials, OutgoingDelivery, Sasl, Side};
use servicebus_amqp::types::{Role, SaslFrame, SaslMechanisms, Symbol};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use peer::{Peer, begin, credit, options};

/// Keeps the text of the events of the trace.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<String>>);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "servicebus_amqp::frames"
    }

    fn event(&self, event: &Event<'_>) {
        let mut lines = self.0.lock().unwrap();
        event.record(&mut Text(&mut lines));
        lines.push('\n');
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Text<'a>(&'a mut String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{value:?}").unwrap();
    }
}

#[test]
fn frames_show_and_secrets_do_not() {
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        let mut config = Config::new("client");
        config.sasl = Sasl::Client(vec![Credentials::Plain {
            username: "user".into(),
            password: "top-secret".into(),
        }]);
        assert!(!format!("{config:?}").contains("top-secret"));
        let mut peer = Peer::new(config, Side::Client);
        peer.bytes(&SASL_HEADER);
        let mut offer = bytes::BytesMut::new();
        let mechanisms = vec![Symbol::from_static("PLAIN")];
        encode_sasl(
            &mut offer,
            &SaslFrame::Mechanisms(SaslMechanisms { mechanisms }),
        );
        peer.bytes(&offer);

        let mut peer = Peer::of_client();
        let session = peer.session(begin());
        let link = peer.link(session, Role::Sender, 0, options());
        peer.flow(credit(0, 0, 1));
        let body = Bytes::from_static(b"top-secret too");
        peer.engine
            .send(link, OutgoingDelivery::new(body), 0)
            .unwrap();
        peer.sent_transfer();
    });
    let lines = lines.0.lock().unwrap();
    for expected in [
        "-> header AMQP\\x03",
        "-> SaslInit",
        "PLAIN",
        "<- [0] Open",
        "-> [0] Attach",
        "<- [3] Flow",
        "payload: 14 bytes",
    ] {
        assert!(lines.contains(expected), "no {expected} in\n{lines}");
    }
    assert!(!lines.contains("secret"), "{lines}");
    assert!(lines.lines().count() > 10);
}
