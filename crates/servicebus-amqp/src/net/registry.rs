use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::connection::ConnectionShared;
use super::endpoint::Application;
use super::link::LinkShared;
use super::operation::{OperationId, Operations};
use super::session::SessionShared;
use crate::engine::{
    Connection, ConnectionError, DeliveryKey, Event, LinkError, LinkKey, SessionError, SessionKey,
};
use crate::types::{AmqpError, Attach, DeliveryState, Role, condition};

/// Where the events of a connection go: to the handles of its sessions and links, and to those who wait for answers.
#[derive(Debug)]
pub(super) struct Registry {
    connection: Arc<ConnectionShared>,
    sessions: Slots<SessionKey, Arc<SessionShared>>,
    links: Slots<LinkKey, LinkEntry>,
    /// The sessions of links that the peer asked for. One that was answered stays until its slot is used again.
    requested_links: Slots<LinkKey, SessionKey>,
    pub(super) operations: Operations,
    /// The operations that settle received deliveries, by the slot of the delivery.
    settling: Vec<Option<(DeliveryKey, OperationId)>>,
    pub(super) requested_sessions: VecDeque<SessionKey>,
}

#[derive(Debug)]
struct LinkEntry {
    session: SessionKey,
    link: Arc<LinkShared>,
}

/// A link that the peer asked for and that nobody has answered yet.
#[derive(Debug)]
pub(super) struct RequestedLink {
    pub(super) key: LinkKey,
    pub(super) attach: Arc<Attach>,
}

impl Registry {
    pub(super) fn new(connection: Arc<ConnectionShared>) -> Self {
        Self {
            connection,
            sessions: Slots::default(),
            links: Slots::default(),
            requested_links: Slots::default(),
            operations: Operations::default(),
            settling: Vec::new(),
            requested_sessions: VecDeque::new(),
        }
    }

    pub(super) fn add_session(&mut self, key: SessionKey, session: Arc<SessionShared>) {
        self.sessions.insert(key.slot(), key, session);
    }

    pub(super) fn session(&self, key: SessionKey) -> Option<Arc<SessionShared>> {
        self.sessions.get(key.slot(), key).cloned()
    }

    pub(super) fn add_link(&mut self, key: LinkKey, session: SessionKey, link: Arc<LinkShared>) {
        self.links
            .insert(key.slot(), key, LinkEntry { session, link });
    }

    /// Notes which operation the peer's answer to a settlement belongs to.
    pub(super) fn add_settlement(&mut self, delivery: DeliveryKey, operation: OperationId) {
        let slot = delivery.slot();
        if self.settling.len() <= slot {
            self.settling.resize(slot + 1, None);
        }
        if let Some(entry) = self.settling.get_mut(slot) {
            *entry = Some((delivery, operation));
        }
    }

    fn on_outcome(
        &mut self,
        link: LinkKey,
        delivery: DeliveryKey,
        context: u64,
        state: Option<DeliveryState>,
    ) {
        let operation = match delivery.role() {
            Role::Sender => {
                if let Some(entry) = self.links.get(link.slot(), link) {
                    entry.link.permits.add_permits(1);
                }
                Some(OperationId::from_context(context))
            }
            Role::Receiver => self.take_settlement(delivery),
        };
        if let Some(operation) = operation {
            self.operations.finish(operation, Ok(state));
        }
    }

    fn take_settlement(&mut self, delivery: DeliveryKey) -> Option<OperationId> {
        let entry = self.settling.get_mut(delivery.slot())?;
        let (_, operation) = entry.take_if(|(settled, _)| *settled == delivery)?;
        Some(operation)
    }

    /// Ends a link for those who wait: the peer has detached it, or does not answer our detach.
    pub(super) fn end_link(&mut self, key: LinkKey, error: LinkError) {
        if let Some(entry) = self.links.remove(key.slot(), key) {
            self.operations.fail(|link| link == key, &error);
            entry.link.end(error);
        } else if let Some(session) = self.requested_links.remove(key.slot(), key)
            && let Some(session) = self.sessions.get(session.slot(), session)
        {
            // It would wait for someone to accept it for as long as the session lasts, and so would all that follow.
            session.withdraw_request(key);
        }
    }

    /// Ends a session for those who wait: the peer has ended it, or does not answer our end.
    pub(super) fn end_session(&mut self, key: SessionKey, error: SessionError) {
        let error_of_links = LinkError::Session(error.clone());
        let ended = self.links.take_if(|entry| entry.session == key);
        // One look at all operations, not one for each link.
        let keys: HashSet<LinkKey> = ended.iter().map(|(link, _)| *link).collect();
        self.operations
            .fail(|link| keys.contains(&link), &error_of_links);
        for (_, entry) in ended {
            entry.link.end(error_of_links.clone());
        }
        self.requested_sessions
            .retain(|requested| *requested != key);
        if let Some(session) = self.sessions.remove(key.slot(), key) {
            session.end(error);
        }
    }

    fn on_closed(&mut self, error: ConnectionError) {
        let keys: Vec<SessionKey> = self.sessions.keys().collect();
        for key in keys {
            self.end_session(key, SessionError::Connection(error.clone()));
        }
        self.connection.end(error);
    }
}

impl Application for Registry {
    fn poll_timeout(&self) -> Option<Instant> {
        self.operations.poll_timeout()
    }

    fn handle_timeout(&mut self, _: &mut Connection, now: Instant) {
        self.operations.handle_timeout(now);
    }

    fn on_event(&mut self, connection: &mut Connection, event: Event, now: Instant) {
        match event {
            Event::Outcome {
                link,
                delivery,
                context,
                state,
                settled: _,
            } => {
                self.on_outcome(link, delivery, context, state);
            }
            Event::Unsent {
                link: _,
                delivery: _,
                context,
            } => {
                self.operations
                    .mark_unsent(OperationId::from_context(context));
            }
            Event::Delivery(delivery) => {
                if let Some(entry) = self.links.get(delivery.link.slot(), delivery.link) {
                    entry.link.push(delivery, now);
                }
            }
            Event::Credit { link, credit: _ } => {
                if let Some(entry) = self.links.get(link.slot(), link) {
                    entry.link.credit_changed();
                }
            }
            Event::Drained { link } => {
                if let Some(entry) = self.links.get(link.slot(), link) {
                    entry.link.drained();
                }
            }
            Event::Attached { link, attach } => {
                if let Some(entry) = self.links.get(link.slot(), link) {
                    entry.link.attached(Arc::from(attach));
                }
            }
            Event::AttachRequested {
                session,
                link,
                attach,
            } => {
                let requested = RequestedLink {
                    key: link,
                    attach: Arc::from(attach),
                };
                if let Some(shared) = self.sessions.get(session.slot(), session)
                    && shared.push_request(requested)
                {
                    self.requested_links.insert(link.slot(), link, session);
                } else {
                    let error = AmqpError::new(
                        condition::RESOURCE_LIMIT_EXCEEDED,
                        "too many links wait to be accepted",
                    );
                    // The key is stale when the peer has detached meanwhile.
                    let _ = connection.refuse_attach(link, error);
                }
            }
            Event::LinkDetached { link, error } => self.end_link(link, error),
            Event::SessionBegun { session, begin } => {
                if let Some(session) = self.sessions.get(session.slot(), session) {
                    session.begun(&begin);
                }
            }
            Event::SessionRequested { session, begin } => {
                let shared = Arc::new(SessionShared::default());
                shared.begun(&begin);
                self.add_session(session, shared);
                self.requested_sessions.push_back(session);
                self.connection.notify();
            }
            Event::SessionEnded { session, error } => self.end_session(session, error),
            Event::SaslInit(init) => {
                let code = self.connection.authenticate(&init);
                // Nobody waits for the verdict when the handshake has ended meanwhile.
                let _ = connection.sasl_outcome(code);
            }
            Event::Opened(open) => self.connection.opened(open),
            Event::Closed(error) => self.on_closed(error),
            Event::DrainRequested { link, credit: _ } => {
                if let Some(entry) = self.links.get(link.slot(), link) {
                    entry.link.request_drain();
                }
            }
        }
    }
}

/// Values by the small numbers in the engine's keys.
#[derive(Debug)]
struct Slots<K, V>(Vec<Option<(K, V)>>);

impl<K, V> Default for Slots<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Copy + PartialEq, V> Slots<K, V> {
    fn insert(&mut self, slot: usize, key: K, value: V) {
        if self.0.len() <= slot {
            self.0.resize_with(slot + 1, || None);
        }
        if let Some(entry) = self.0.get_mut(slot) {
            *entry = Some((key, value));
        }
    }

    fn get(&self, slot: usize, key: K) -> Option<&V> {
        self.0
            .get(slot)?
            .as_ref()
            .filter(|(found, _)| *found == key)
            .map(|(_, value)| value)
    }

    fn remove(&mut self, slot: usize, key: K) -> Option<V> {
        self.0
            .get_mut(slot)?
            .take_if(|(found, _)| *found == key)
            .map(|(_, value)| value)
    }

    fn take_if(&mut self, condition: impl Fn(&V) -> bool) -> Vec<(K, V)> {
        self.0
            .iter_mut()
            .filter_map(|entry| entry.take_if(|(_, value)| condition(value)))
            .collect()
    }

    fn keys(&self) -> impl Iterator<Item = K> {
        self.0.iter().flatten().map(|(key, _)| *key)
    }
}
