use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use servicebus_amqp::engine::{
    Config, Connection, ConnectionError, Event, LinkError, PlainAmqp, Sasl, SessionError,
    SessionOptions,
};
use servicebus_amqp::net::Application;
use servicebus_amqp::types::{
    AmqpError, ByteString, Map, SaslCode, SaslInit, Symbol, Timestamp, Value,
};

use super::link::{Link, LinkKind, Links};
use super::locks::Locks;
use crate::access::{Claims, Policy};
use crate::broker::{EndTransaction, TransactionEnd};
use crate::hub::{Hub, Mailbox, Parcel};

/// How long a silent peer is waited for. The service tells its clients two minutes, half of it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(240);

/// What the service takes from and gives to all its clients.
const MAX_FRAME_SIZE: u32 = 65_536;

/// One client's connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(super) hub: Arc<Hub>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) links: Links,
    pub(super) claims: Claims,
    pub(super) policy: Policy,
    /// The host that the client means to reach.
    pub(super) host: Option<ByteString>,
    pub(super) locks: Locks,
    /// Where deliveries and their tags are encoded, one after another: an allocation serves many.
    pub(super) scratch: BytesMut,
    /// Room to take parcels into, kept between wake-ups.
    pub(super) parcels: VecDeque<Parcel>,
    /// Answers that are due once the parcels are dealt with: ends of drains.
    pub(super) drains: usize,
    /// The time of the messages and outcomes that came with the present read, once one has asked for it.
    time: Option<Timestamp>,
    pub(super) unused_since: Timestamp,
    /// When the idle times are checked next.
    pub(super) idle_check: Option<Timestamp>,
}

/// The settings of every client's connection.
pub(crate) fn config() -> Config {
    let mut config = Config::new("servicebus-emulator");
    config.max_frame_size = MAX_FRAME_SIZE;
    config.idle_timeout = Some(IDLE_TIMEOUT);
    config.sasl = Sasl::Listener {
        mechanisms: ["MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"]
            .map(Symbol::from_static)
            .into(),
        plain_amqp: PlainAmqp::Accept,
    };
    // Clients in the field read open and begin by position and stumble over lists that end early, so the last field
    // is always there.
    config.properties = Some(
        Map::new()
            .with(Symbol::from_static("product"), "servicebus-emulator")
            .with(Symbol::from_static("version"), env!("CARGO_PKG_VERSION")),
    );
    let mut sessions = SessionOptions::default();
    sessions.properties = Some(Map::new());
    config.accepted_sessions = sessions;
    config.limits.partial_bytes = 128 * 1024 * 1024;
    config
}

impl Client {
    pub(crate) fn new(hub: Arc<Hub>, mailbox: Arc<Mailbox>) -> Self {
        let policy = hub.access().policy();
        let now = hub.now();
        let mut client = Self {
            hub,
            mailbox,
            links: Links::default(),
            claims: Claims::default(),
            policy,
            host: None,
            locks: Locks::default(),
            scratch: BytesMut::new(),
            parcels: VecDeque::new(),
            drains: 0,
            time: None,
            unused_since: now,
            idle_check: None,
        };
        client.watch_connection();
        client
    }

    /// Only called by the connection's own task, so it never waits for itself.
    pub(super) fn mailbox(&self) -> Option<&Mailbox> {
        Some(&self.mailbox)
    }

    /// The time, looked up once for what comes with one read. A clock that somebody holds is asked each time.
    pub(super) fn time(&mut self) -> Timestamp {
        let clock = self.hub.clock();
        if clock.is_manual() {
            return clock.now();
        }
        *self.time.get_or_insert_with(|| clock.now())
    }

    /// PLAIN names a key and its text; the others leave it to the claims that follow.
    fn on_sasl_init(&mut self, connection: &mut Connection, init: &SaslInit) {
        let refused = self
            .hub
            .with(self.mailbox(), |core, _| core.faults.take_refused_sasl());
        let response = init.initial_response.as_deref().unwrap_or_default();
        let code = match refused {
            Some(code) => code,
            None if init.mechanism == *"PLAIN" && self.check_plain(response).is_none() => {
                SaslCode::Auth
            }
            None => SaslCode::Ok,
        };
        // The client may be gone already; then nobody waits for the verdict.
        let _ = connection.sasl_outcome(code);
    }

    /// `authorization-id NUL user NUL password` (RFC 4616).
    fn check_plain(&mut self, response: &[u8]) -> Option<()> {
        let text = std::str::from_utf8(response).ok()?;
        let mut parts = text.split('\0');
        let (_, user, password) = (parts.next()?, parts.next()?, parts.next()?);
        let claim = self.hub.access().check_password(user, password)?;
        self.claims.put(claim).then_some(())
    }

    fn on_closed(&mut self, error: &ConnectionError) {
        if let ConnectionError::Protocol(error) = error {
            self.violation(error);
        }
        for link in self.links.remove_all() {
            self.forget(link);
        }
        self.locks = Locks::default();
        let mailbox = Arc::clone(&self.mailbox);
        self.hub.with(None, |core, _| core.disconnect(&mailbox));
    }

    pub(super) fn violation(&self, error: &AmqpError) {
        self.hub
            .violations
            .add(self.mailbox.id(), error.to_string());
    }

    /// Tells the broker that a link is gone.
    pub(super) fn forget(&mut self, link: Link) {
        match link.kind {
            LinkKind::Producer(entity) => {
                self.hub.with(self.mailbox(), |core, _| {
                    core.remove_producer(entity, &self.mailbox, link.key);
                });
            }
            LinkKind::Consumer(consumer) => {
                if consumer.draining {
                    self.drains -= 1;
                }
                self.hub.with(self.mailbox(), |core, now| {
                    core.detach_consumer(now, consumer.id);
                });
            }
            LinkKind::Controller(transactions) => {
                for transaction in transactions {
                    // It may have ended on its own by its time limit.
                    let _ = self.hub.run(
                        self.mailbox(),
                        EndTransaction {
                            transaction,
                            end: TransactionEnd::Rollback,
                        },
                    );
                }
            }
            LinkKind::Requests(_) | LinkKind::Replies { .. } => {}
        }
        if self.links.is_empty() {
            self.unused_since = self.hub.now();
            self.watch_connection();
        }
    }
}

impl Application for Client {
    fn on_event(&mut self, connection: &mut Connection, event: Event, now: Instant) {
        match event {
            Event::SaslInit(init) => self.on_sasl_init(connection, &init),
            Event::Opened(open) => {
                self.host = open.hostname;
                let refused = self
                    .hub
                    .with(self.mailbox(), |core, _| core.faults.take_refused_open());
                if let Some(error) = refused {
                    connection.close(now, Some(error));
                }
            }
            Event::Closed(error) => self.on_closed(&error),
            Event::SessionEnded { session, error } => {
                if let SessionError::Protocol(error) = &error {
                    self.violation(error);
                }
                for link in self.links.remove_session(session) {
                    self.forget(link);
                }
            }
            Event::AttachRequested {
                session,
                link,
                attach,
            } => self.on_attach(connection, session, link, attach),
            Event::LinkDetached { link, error } => {
                if let LinkError::Protocol(error) = &error {
                    self.violation(error);
                }
                if let Some(link) = self.links.remove(link) {
                    self.forget(link);
                }
            }
            Event::Credit { link, credit } => self.on_credit(connection, link, credit, false),
            Event::DrainRequested { link, credit } => {
                self.on_credit(connection, link, credit, true);
            }
            Event::Delivery(delivery) => self.on_delivery(connection, delivery),
            Event::Unsent { context, .. } => self.on_unsent(context),
            Event::Outcome {
                link,
                delivery,
                context,
                state,
                settled,
            } => self.on_outcome(connection, link, delivery, context, state, settled),
            // What only the side that asks for sessions, links and drains gets to see.
            _ => {}
        }
    }

    fn poll_inbox(&mut self, cx: &mut Context<'_>, connection: &mut Connection, now: Instant) {
        self.mailbox.register(cx.waker());
        self.handle_parcels(connection, now);
        self.time = None;
    }
}

/// A map with one text key, for the properties of links.
pub(super) fn property(key: &'static str, value: impl Into<Value>) -> Map {
    Map::new().with(Symbol::from_static(key), value)
}
