use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::outcome::Outcome;
use super::shared::{Link, window_of};
use crate::engine::{
    CreditMode, DeliveryKey, DetachMode, IncomingDelivery, LinkError, LinkStatus, Settle,
};
use crate::net::connection::wait;
use crate::net::operation::DeliveryError;
use crate::net::session::Session;
use crate::types::{AmqpError, Attach, DeliveryState};

/// The receiving end of a link: a handle that can be cloned and used from many tasks at once.
///
/// When the last handle is gone the link is detached in the background.
#[derive(Clone, Debug)]
pub struct ReceiverLink {
    link: Arc<Link>,
}

impl ReceiverLink {
    pub(in crate::net) fn new(link: Link) -> Self {
        Self {
            link: Arc::new(link),
        }
    }

    /// The session of the link.
    pub fn session(&self) -> &Session {
        self.link.session()
    }

    /// The peer's attach.
    pub fn peer_attach(&self) -> Option<&Attach> {
        self.link.peer_attach()
    }

    /// Why the link ended, if it has. Deliveries may still be waiting in the inbox.
    pub fn error(&self) -> Option<&LinkError> {
        self.link.error()
    }

    /// A look at the link: the credit that the peer has.
    ///
    /// # Errors
    ///
    /// Why the link ended.
    pub fn status(&self) -> Result<LinkStatus, LinkError> {
        self.link.status()
    }

    /// How many deliveries wait in the inbox.
    pub fn inbox_len(&self) -> usize {
        self.link.shared.inbox().len()
    }

    /// Takes the next delivery, and waits for one if there is none. Not bounded.
    ///
    /// # Errors
    ///
    /// Why the link ended, once its inbox is empty.
    ///
    /// # Cancel safety
    ///
    /// No delivery is lost when the future is dropped.
    pub async fn recv(&self) -> Result<IncomingDelivery, LinkError> {
        let ready = || match self.try_recv() {
            Some(delivery) => Some(Ok(delivery)),
            None => self.link.error().cloned().map(Err),
        };
        wait(&self.link.shared.notify, ready).await
    }

    /// Takes the next delivery, if there is one.
    pub fn try_recv(&self) -> Option<IncomingDelivery> {
        self.try_take().map(|(delivery, _)| delivery)
    }

    /// Takes the next delivery, with when it arrived, if there is one.
    pub fn try_take(&self) -> Option<(IncomingDelivery, Instant)> {
        let taken = self.link.shared.inbox().pop_front()?;
        self.took(1);
        Some(taken)
    }

    /// Waits until so many deliveries are in the inbox, and takes none. Not bounded.
    ///
    /// # Errors
    ///
    /// Why the link ended before.
    ///
    /// # Cancel safety
    ///
    /// Only looks on: dropping the future changes nothing.
    pub async fn wait_for(&self, count: usize) -> Result<(), LinkError> {
        let _counting = (count > 1).then(|| Counting::new(&self.link.shared.counting));
        let ready = || {
            if self.inbox_len() >= count {
                return Some(Ok(()));
            }
            self.link.error().cloned().map(Err)
        };
        wait(&self.link.shared.notify, ready).await
    }

    /// Looks at the deliveries in the inbox, and at when each arrived. The inbox is locked meanwhile.
    pub fn inspect(&self, mut look: impl FnMut(&IncomingDelivery, Instant)) {
        for (delivery, arrived) in self.link.shared.inbox().iter() {
            look(delivery, *arrived);
        }
    }

    /// Takes up to `max` deliveries that are there, without waiting, each with when it arrived.
    pub fn take(&self, max: usize) -> Vec<(IncomingDelivery, Instant)> {
        let mut inbox = self.link.shared.inbox();
        let count = inbox.len().min(max);
        let deliveries: Vec<_> = inbox.drain(..count).collect();
        drop(inbox);
        self.took(u32::try_from(count).unwrap_or(u32::MAX));
        deliveries
    }

    /// Sets the credit: exactly so many deliveries, or a window that is kept open as deliveries are taken. Ends a
    /// [`drain`](Self::drain) without completing it.
    ///
    /// # Errors
    ///
    /// Why the link ended.
    pub fn set_credit(&self, credit: CreditMode) -> Result<(), LinkError> {
        let shared = &self.link.shared;
        shared.window.store(window_of(credit), Ordering::Relaxed);
        // What was taken and not reported would count as held for ever.
        let taken = shared.taken.swap(0, Ordering::Relaxed);
        let result = self.link.endpoint().with(|connection, _| {
            connection.release(self.link.key, taken)?;
            connection.set_credit(self.link.key, credit)
        });
        result.map_err(|error| self.link.ended_or(error))
    }

    /// Adds to the credit of a link in exact mode. Ends a [`drain`](Self::drain) without completing it.
    ///
    /// # Errors
    ///
    /// Why the link ended, or [`LinkError::Refused`] in window mode.
    pub fn add_credit(&self, credit: u32) -> Result<(), LinkError> {
        let result = self
            .link
            .endpoint()
            .with(|connection, _| connection.add_credit(self.link.key, credit));
        result.map_err(|error| self.link.ended_or(error))
    }

    /// Asks the peer to use its credit up, and waits until it has. What it sends meanwhile is in the inbox then. The link
    /// is in exact mode with no credit afterwards.
    ///
    /// Not bounded: some peers never answer a drain, and setting or adding credit meanwhile ends the drain and not the wait.
    ///
    /// # Errors
    ///
    /// Why the link ended.
    ///
    /// # Cancel safety
    ///
    /// The drain goes on when the future is dropped; its deliveries are in the inbox.
    pub async fn drain(&self) -> Result<(), LinkError> {
        let shared = &self.link.shared;
        let before = shared.drains.load(Ordering::Acquire);
        shared.window.store(0, Ordering::Relaxed);
        let result = self
            .link
            .endpoint()
            .with(|connection, _| connection.drain(self.link.key));
        result.map_err(|error| self.link.ended_or(error))?;
        let ready = || {
            if shared.drains.load(Ordering::Acquire) != before {
                return Some(Ok(()));
            }
            self.link.error().cloned().map(Err)
        };
        wait(&shared.notify, ready).await
    }

    /// Settles a delivery with this state, without waiting for anything (receiver settle mode *first*).
    ///
    /// # Errors
    ///
    /// [`DeliveryError::Refused`] when it is settled already, perhaps by the peer, the link has ended, or the state does not
    /// fit a frame of the peer.
    pub fn settle(&self, delivery: DeliveryKey, state: DeliveryState) -> Result<(), DeliveryError> {
        let result = self
            .link
            .endpoint()
            .with(|connection, _| connection.settle(delivery, state, Settle::First));
        Ok(result?)
    }

    /// States the outcome of a delivery, and returns the future of the peer's answer (receiver settle mode *second*).
    ///
    /// The disposition is sent whether or not the future is awaited.
    ///
    /// # Errors
    ///
    /// [`DeliveryError::Refused`] when it is settled already, perhaps by the peer, the link has ended, or the state does not
    /// fit a frame of the peer.
    pub fn settle_confirmed(
        &self,
        delivery: DeliveryKey,
        state: DeliveryState,
    ) -> Result<Outcome, DeliveryError> {
        let operation = self.link.endpoint().with(|connection, registry| {
            connection.settle(delivery, state, Settle::Second)?;
            let operation = registry.operations.start(self.link.key);
            registry.add_settlement(delivery, operation);
            Ok::<_, DeliveryError>(operation)
        })?;
        Ok(Outcome::new(Arc::clone(&self.link), delivery, operation))
    }

    /// Waits until the link has ended, for whatever reason. Not bounded. The future does not keep the link attached.
    ///
    /// # Cancel safety
    ///
    /// Only looks on: dropping the future changes nothing.
    pub fn ended(&self) -> impl Future<Output = LinkError> + Send + use<> {
        let shared = Arc::clone(&self.link.shared);
        async move { wait(&shared.notify, || shared.error().cloned()).await }
    }

    /// Detaches the link and waits for the peer's answer; at most for
    /// [`Config::close_timeout`](crate::engine::Config::close_timeout). Returns why the link ended.
    ///
    /// # Cancel safety
    ///
    /// The detach goes on when the future is dropped.
    pub async fn detach(&self, mode: DetachMode, error: Option<AmqpError>) -> LinkError {
        self.link.detach(mode, error).await
    }

    /// Reports taken deliveries to the engine, some at a time, so that taking one does not cost a lock of it.
    fn took(&self, count: u32) {
        let shared = &self.link.shared;
        let window = shared.window.load(Ordering::Relaxed);
        if window == 0 || count == 0 {
            return;
        }
        let taken = shared
            .taken
            .fetch_add(count, Ordering::Relaxed)
            .saturating_add(count);
        if taken >= (window / 4).max(1) {
            let taken = shared.taken.swap(0, Ordering::Relaxed);
            // The key is stale when the link has ended; its inbox can still be emptied.
            let _ = self
                .link
                .endpoint()
                .with(|connection, _| connection.release(self.link.key, taken));
        }
    }
}

/// One who wants to be told of each delivery, for as long as this lives.
struct Counting<'a>(&'a AtomicUsize);

impl<'a> Counting<'a> {
    fn new(counting: &'a AtomicUsize) -> Self {
        counting.fetch_add(1, Ordering::Relaxed);
        Self(counting)
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
