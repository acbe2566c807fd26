use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytestring::ByteString;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::connection::{Connection, wait};
use super::link::{Link, LinkShared, ReceiverLink, SenderLink};
use super::registry::RequestedLink;
use crate::engine::{LinkError, LinkKey, LinkOptions, SessionError, SessionKey};
use crate::types::{AmqpError, Attach, Begin, Role, condition};

/// How many links that the peer asks for may wait to be accepted.
const MAX_REQUESTED: usize = 1024;

/// A session (AMQP 1.0 §2.5): a handle that can be cloned.
///
/// When the last handle is gone, those of links included, the session is ended in the background.
#[derive(Clone)]
pub struct Session {
    inner: Arc<SessionInner>,
}

struct SessionInner {
    connection: Connection,
    key: SessionKey,
    shared: Arc<SessionShared>,
}

/// What the events of the session say, for those who wait for it.
#[derive(Debug, Default)]
pub(super) struct SessionShared {
    notify: Notify,
    /// The peer's handle-max, once its begin is there.
    begun: OnceLock<u32>,
    ended: OnceLock<SessionError>,
    requested: Mutex<VecDeque<RequestedLink>>,
}

impl Session {
    pub(super) fn new(connection: Connection, key: SessionKey, shared: Arc<SessionShared>) -> Self {
        Self {
            inner: Arc::new(SessionInner {
                connection,
                key,
                shared,
            }),
        }
    }

    /// The connection of the session.
    pub fn connection(&self) -> &Connection {
        &self.inner.connection
    }

    /// Why the session ended, if it has.
    pub fn error(&self) -> Option<&SessionError> {
        self.inner.shared.ended.get()
    }

    /// The highest handle that the peer takes: so many links, and one more, can be attached at a time (AMQP 1.0 §2.7.2).
    pub fn peer_handle_max(&self) -> u32 {
        self.inner.shared.begun.get().copied().unwrap_or_default()
    }

    /// Attaches a link that sends, and waits for the peer's answer; at most for `limit`.
    ///
    /// # Errors
    ///
    /// [`LinkError`]: the peer refused, did not answer in time, or the session ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future detaches the link in the background, whether the peer has answered or will.
    pub async fn attach_sender(
        &self,
        name: impl Into<ByteString>,
        options: LinkOptions,
        limit: Duration,
    ) -> Result<SenderLink, LinkError> {
        Ok(SenderLink::new(
            self.attach(name.into(), Role::Sender, options, limit)
                .await?,
        ))
    }

    /// Attaches a link that receives, and waits for the peer's answer; at most for `limit`.
    ///
    /// # Errors
    ///
    /// [`LinkError`]: the peer refused, did not answer in time, or the session ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future detaches the link in the background, whether the peer has answered or will.
    pub async fn attach_receiver(
        &self,
        name: impl Into<ByteString>,
        options: LinkOptions,
        limit: Duration,
    ) -> Result<ReceiverLink, LinkError> {
        Ok(ReceiverLink::new(
            self.attach(name.into(), Role::Receiver, options, limit)
                .await?,
        ))
    }

    async fn attach(
        &self,
        name: ByteString,
        role: Role,
        options: LinkOptions,
        limit: Duration,
    ) -> Result<Link, LinkError> {
        let shared = Arc::new(LinkShared::new(options.credit));
        let key = self
            .inner
            .connection
            .endpoint()
            .with(|connection, registry| {
                let key = connection.attach(self.inner.key, name, role, options)?;
                registry.add_link(key, self.inner.key, Arc::clone(&shared));
                Ok::<_, LinkError>(key)
            });
        let key = key.map_err(|error| self.ended_or(error))?;
        let link = Link::new(self.clone(), key, shared);
        timeout(limit, link.wait_attached())
            .await
            .map_err(|_| LinkError::NoAnswer)??;
        Ok(link)
    }

    /// Waits for a link that the peer asks for. Not bounded. While 1,024 links wait to be accepted, further ones are refused.
    ///
    /// # Errors
    ///
    /// Why the session ended.
    ///
    /// # Cancel safety
    ///
    /// No link is lost when the future is dropped.
    pub async fn accept(&self) -> Result<IncomingLink, SessionError> {
        let shared = &self.inner.shared;
        let take = || match shared.requested().pop_front() {
            Some(requested) => Some(Ok(IncomingLink {
                session: self.clone(),
                requested,
                answered: false,
            })),
            None => self.error().cloned().map(Err),
        };
        wait(&shared.notify, take).await
    }

    /// Ends the session with all its links, and waits for the peer's answer; at most for
    /// [`Config::close_timeout`](crate::engine::Config::close_timeout).
    ///
    /// # Cancel safety
    ///
    /// The end goes on when the future is dropped.
    pub async fn end(&self, error: Option<AmqpError>) {
        self.inner.start_end(error);
        let shared = &self.inner.shared;
        let ended = wait(&shared.notify, || shared.ended.get());
        if timeout(self.inner.connection.close_timeout(), ended)
            .await
            .is_err()
        {
            // Those who wait on its links are not to wait for a peer that is silent.
            self.inner
                .connection
                .endpoint()
                .read(|_, registry| registry.end_session(self.inner.key, SessionError::NoAnswer));
        }
    }

    pub(super) async fn wait_begun(&self) -> Result<(), SessionError> {
        let shared = &self.inner.shared;
        let ready = || match shared.ended.get() {
            Some(error) => Some(Err(error.clone())),
            None => shared.begun.get().map(|_| Ok(())),
        };
        wait(&shared.notify, ready).await
    }

    /// A request on a session that has ended fails with a stale key; its end says more.
    fn ended_or(&self, error: LinkError) -> LinkError {
        self.error().cloned().map_or(error, LinkError::Session)
    }
}

impl SessionInner {
    fn start_end(&self, error: Option<AmqpError>) {
        // The key is stale when the session has ended already.
        let _ = self
            .connection
            .endpoint()
            .with(|connection, _| connection.end(self.key, error));
    }
}

impl Drop for SessionInner {
    fn drop(&mut self) {
        self.start_end(None);
    }
}

impl SessionShared {
    pub(super) fn begun(&self, peer: &Begin) {
        let _ = self.begun.set(peer.handle_max);
        self.notify.notify_waiters();
    }

    pub(super) fn end(&self, error: SessionError) {
        let _ = self.ended.set(error);
        self.requested().clear();
        self.notify.notify_waiters();
    }

    /// Offers a link to those who accept; `false` when too many wait already.
    pub(super) fn push_request(&self, requested: RequestedLink) -> bool {
        {
            let mut waiting = self.requested();
            if waiting.len() >= MAX_REQUESTED {
                return false;
            }
            waiting.push_back(requested);
        }
        self.notify.notify_waiters();
        true
    }

    /// The peer has taken a request back.
    pub(super) fn withdraw_request(&self, link: LinkKey) {
        self.requested().retain(|requested| requested.key != link);
    }

    fn requested(&self) -> MutexGuard<'_, VecDeque<RequestedLink>> {
        self.requested
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("ended", &self.error())
            .finish_non_exhaustive()
    }
}

/// A link that the peer asks for. Dropping it refuses the link.
#[derive(Debug)]
pub struct IncomingLink {
    session: Session,
    requested: RequestedLink,
    answered: bool,
}

/// A link that was accepted, by the end that is ours.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "a link has two ends")]
pub enum AcceptedLink {
    /// The peer receives: we send.
    Sender(SenderLink),
    /// The peer sends: we receive.
    Receiver(ReceiverLink),
}

impl IncomingLink {
    /// The peer's attach. Its role is the peer's.
    pub fn attach(&self) -> &Attach {
        &self.requested.attach
    }

    /// Accepts the link; it is usable at once. [`LinkOptions::answer`] makes the plain answer to an attach.
    ///
    /// # Errors
    ///
    /// [`LinkError`] when the peer has gone meanwhile, or our attach does not fit its limits; the link is refused then.
    pub fn accept(mut self, options: LinkOptions) -> Result<AcceptedLink, LinkError> {
        let shared = Arc::new(LinkShared::new(options.credit));
        let key = self.requested.key;
        let accepted = self
            .session
            .inner
            .connection
            .endpoint()
            .with(|connection, registry| {
                connection.accept_attach(key, options)?;
                registry.add_link(key, self.session.inner.key, Arc::clone(&shared));
                Ok::<_, LinkError>(())
            });
        accepted.map_err(|error| self.session.ended_or(error))?;
        self.answered = true;
        let role = self.attach().role;
        shared.attached(Arc::clone(&self.requested.attach));
        let link = Link::new(self.session.clone(), key, shared);
        Ok(match role {
            Role::Sender => AcceptedLink::Receiver(ReceiverLink::new(link)),
            Role::Receiver => AcceptedLink::Sender(SenderLink::new(link)),
        })
    }

    /// Refuses the link and tells the peer why.
    pub fn refuse(mut self, error: AmqpError) {
        self.start_refuse(error);
    }

    fn start_refuse(&mut self, error: AmqpError) {
        if !std::mem::replace(&mut self.answered, true) {
            // The key is stale when the peer has detached meanwhile.
            let _ = self
                .session
                .inner
                .connection
                .endpoint()
                .with(|connection, _| connection.refuse_attach(self.requested.key, error));
        }
    }
}

impl Drop for IncomingLink {
    fn drop(&mut self) {
        self.start_refuse(AmqpError::new(
            condition::NOT_ALLOWED,
            "the link was not accepted",
        ));
    }
}
