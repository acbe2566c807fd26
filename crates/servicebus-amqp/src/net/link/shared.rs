use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use crate::engine::{
    self, CreditMode, DetachMode, IncomingDelivery, LinkError, LinkKey, LinkStatus,
};
use crate::net::connection::wait;
use crate::net::endpoint::Endpoint;
use crate::net::registry::Registry;
use crate::net::session::Session;
use crate::types::{AmqpError, Attach};

/// How many deliveries of one link may wait for their outcome; further ones wait before they are queued.
const MAX_IN_FLIGHT: usize = 2048;

/// What the ends of a link have in common. Dropping it detaches the link in the background.
pub(in crate::net) struct Link {
    session: Session,
    pub(super) key: LinkKey,
    pub(super) shared: Arc<LinkShared>,
}

/// What the events of the link say, for those who wait for it.
#[derive(Debug)]
pub(in crate::net) struct LinkShared {
    pub(super) notify: Notify,
    attach: OnceLock<Arc<Attach>>,
    ended: OnceLock<LinkError>,
    /// Sender: one for each delivery that may still be queued.
    pub(in crate::net) permits: Semaphore,
    /// Sender: whether the peer asks to use its credit up and the application has not answered.
    pub(super) drain_requested: AtomicBool,
    /// Receiver: what arrived and was not taken yet, and when. It outlives the link.
    pub(super) inbox: Mutex<VecDeque<(IncomingDelivery, Instant)>>,
    /// Receiver: how many wait for more than one delivery. Raised before they look into the inbox.
    pub(super) counting: AtomicUsize,
    /// Receiver: the window; 0 when credit is exact.
    pub(super) window: AtomicU32,
    /// Receiver: how many deliveries were taken since the engine was told.
    pub(super) taken: AtomicU32,
    /// Receiver: how many drains have ended.
    pub(super) drains: AtomicU64,
}

impl LinkShared {
    pub(in crate::net) fn new(credit: CreditMode) -> Self {
        Self {
            notify: Notify::new(),
            attach: OnceLock::new(),
            ended: OnceLock::new(),
            permits: Semaphore::new(MAX_IN_FLIGHT),
            drain_requested: AtomicBool::new(false),
            inbox: Mutex::default(),
            counting: AtomicUsize::new(0),
            window: AtomicU32::new(window_of(credit)),
            taken: AtomicU32::new(0),
            drains: AtomicU64::new(0),
        }
    }

    pub(in crate::net) fn attached(&self, attach: Arc<Attach>) {
        let _ = self.attach.set(attach);
        self.notify.notify_waiters();
    }

    pub(in crate::net) fn end(&self, error: LinkError) {
        let _ = self.ended.set(error);
        self.permits.close();
        self.notify.notify_waiters();
    }

    pub(in crate::net) fn push(&self, delivery: IncomingDelivery, now: Instant) {
        let waiting = {
            let mut inbox = self.inbox();
            inbox.push_back((delivery, now));
            inbox.len()
        };
        // Who waits for any delivery was told of the first.
        if waiting == 1 || self.counting.load(Ordering::Relaxed) > 0 {
            self.notify.notify_waiters();
        }
    }

    pub(in crate::net) fn credit_changed(&self) {
        self.notify.notify_waiters();
    }

    pub(in crate::net) fn request_drain(&self) {
        self.drain_requested.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    pub(in crate::net) fn drained(&self) {
        self.drains.fetch_add(1, Ordering::Release);
        self.notify.notify_waiters();
    }

    pub(super) fn inbox(&self) -> MutexGuard<'_, VecDeque<(IncomingDelivery, Instant)>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn error(&self) -> Option<&LinkError> {
        self.ended.get()
    }
}

impl Link {
    pub(in crate::net) fn new(session: Session, key: LinkKey, shared: Arc<LinkShared>) -> Self {
        Self {
            session,
            key,
            shared,
        }
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn endpoint(&self) -> &Endpoint<Registry> {
        self.session.connection().endpoint()
    }

    pub(super) fn peer_attach(&self) -> Option<&Attach> {
        self.shared.attach.get().map(|attach| &**attach)
    }

    pub(super) fn error(&self) -> Option<&LinkError> {
        self.shared.error()
    }

    /// A request on a link that has ended fails with a stale key; its end says more.
    pub(super) fn ended_or(&self, error: engine::RequestError) -> LinkError {
        self.error().cloned().unwrap_or(LinkError::Refused(error))
    }

    pub(super) fn status(&self) -> Result<LinkStatus, LinkError> {
        self.endpoint()
            .read(|connection, _| connection.link(self.key))
            .map_err(|error| self.ended_or(error))
    }

    pub(in crate::net) async fn wait_attached(&self) -> Result<(), LinkError> {
        let ready = || match self.error() {
            Some(error) => Some(Err(error.clone())),
            None => self.shared.attach.get().map(|_| Ok(())),
        };
        wait(&self.shared.notify, ready).await
    }

    pub(super) async fn ended(&self) -> LinkError {
        wait(&self.shared.notify, || self.error().cloned()).await
    }

    pub(super) async fn detach(&self, mode: DetachMode, error: Option<AmqpError>) -> LinkError {
        self.start_detach(mode, error);
        let limit = self.session.connection().close_timeout();
        if let Ok(error) = timeout(limit, self.ended()).await {
            return error;
        }
        // Those who wait for outcomes are not to wait for a peer that is silent.
        self.endpoint()
            .read(|_, registry| registry.end_link(self.key, LinkError::NoAnswer));
        LinkError::NoAnswer
    }

    fn start_detach(&self, mode: DetachMode, error: Option<AmqpError>) {
        // The key is stale when the link has ended already.
        let _ = self
            .endpoint()
            .with(|connection, _| connection.detach(self.key, mode, error));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.error().is_none() {
            self.start_detach(DetachMode::Close, None);
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("name", &self.peer_attach().map(|attach| &attach.name))
            .field("ended", &self.error())
            .finish_non_exhaustive()
    }
}

/// The window of a link, for the bookkeeping of its inbox; 0 when credit is exact.
pub(super) const fn window_of(credit: CreditMode) -> u32 {
    match credit {
        CreditMode::Exact(_) => 0,
        CreditMode::Window(window) => window,
    }
}
