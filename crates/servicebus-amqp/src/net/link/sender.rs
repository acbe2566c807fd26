use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::TryAcquireError;

use super::outcome::Outcome;
use super::shared::Link;
use crate::engine::{DetachMode, LinkError, LinkStatus, OutgoingDelivery};
use crate::net::connection::wait;
use crate::net::operation::DeliveryError;
use crate::net::session::Session;
use crate::types::{AmqpError, Attach, DeliveryState};

/// The sending end of a link: a handle that can be cloned and used from many tasks at once.
///
/// When the last handle is gone the link is detached in the background.
#[derive(Clone, Debug)]
pub struct SenderLink {
    link: Arc<Link>,
}

impl SenderLink {
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

    /// Why the link ended, if it has.
    pub fn error(&self) -> Option<&LinkError> {
        self.link.error()
    }

    /// A look at the link: its credit, and what waits.
    ///
    /// # Errors
    ///
    /// Why the link ended.
    pub fn status(&self) -> Result<LinkStatus, LinkError> {
        self.link.status()
    }

    /// Sends a delivery and waits for the peer's answer. Bounded by nothing but the link's life: a peer that gives no
    /// credit makes it wait.
    ///
    /// Returns the peer's state; `None` when it settled without one, and for a delivery that is sent settled.
    ///
    /// # Errors
    ///
    /// [`DeliveryError`] tells whether the peer can have processed the delivery.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes a delivery back that has not been transferred; one that is partly transferred is aborted.
    /// The fate of one that was transferred is not observed then.
    pub async fn send(
        &self,
        delivery: OutgoingDelivery,
    ) -> Result<Option<DeliveryState>, DeliveryError> {
        self.queue(delivery).await?.await
    }

    /// Queues a delivery, in order with others of the link, and returns the future of its outcome.
    ///
    /// Waits while 2,048 deliveries of the link have no outcome.
    ///
    /// # Errors
    ///
    /// [`DeliveryError::Refused`] or [`DeliveryError::NotTransferred`]: nothing was sent.
    ///
    /// # Cancel safety
    ///
    /// Nothing was queued when the future is dropped.
    pub async fn queue(&self, delivery: OutgoingDelivery) -> Result<Outcome, DeliveryError> {
        let permit = self
            .link
            .shared
            .permits
            .acquire()
            .await
            .map_err(|_| self.not_transferred())?;
        let outcome = self.start(delivery)?;
        // It is given back with the outcome, also when nobody waits for that any more.
        permit.forget();
        Ok(outcome)
    }

    /// Queues a delivery as [`queue`](Self::queue) does, or gives it back where that would wait.
    ///
    /// # Errors
    ///
    /// The delivery; and within the result as [`queue`](Self::queue).
    #[allow(
        clippy::result_large_err,
        reason = "the delivery is given back to be queued again"
    )]
    pub fn try_queue(
        &self,
        delivery: OutgoingDelivery,
    ) -> Result<Result<Outcome, DeliveryError>, OutgoingDelivery> {
        let permit = match self.link.shared.permits.try_acquire() {
            Ok(permit) => permit,
            Err(TryAcquireError::NoPermits) => return Err(delivery),
            Err(TryAcquireError::Closed) => return Ok(Err(self.not_transferred())),
        };
        let outcome = self.start(delivery);
        if outcome.is_ok() {
            permit.forget();
        }
        Ok(outcome)
    }

    fn start(&self, delivery: OutgoingDelivery) -> Result<Outcome, DeliveryError> {
        let (delivery, operation) = self.link.endpoint().with(|connection, registry| {
            let operation = registry.operations.start(self.link.key);
            match connection.send(self.link.key, delivery, operation.context()) {
                Ok(delivery) => Ok((delivery, operation)),
                Err(error) => {
                    registry.operations.abandon(operation);
                    Err(error)
                }
            }
        })?;
        Ok(Outcome::new(Arc::clone(&self.link), delivery, operation))
    }

    /// Waits until the peer has given credit.
    ///
    /// # Errors
    ///
    /// Why the link ended.
    ///
    /// # Cancel safety
    ///
    /// Only looks on: dropping the future changes nothing.
    pub async fn credit(&self) -> Result<u32, LinkError> {
        let ready = || match self.status() {
            Ok(status) => (status.credit > 0).then_some(Ok(status.credit)),
            Err(error) => Some(Err(error)),
        };
        wait(&self.link.shared.notify, ready).await
    }

    /// Waits until the peer asks to use its credit up, on a link whose drain policy is
    /// [`Manual`](crate::engine::DrainPolicy::Manual). Queue what there is, then call [`drained`](Self::drained).
    ///
    /// # Errors
    ///
    /// Why the link ended.
    ///
    /// # Cancel safety
    ///
    /// Only looks on: dropping the future changes nothing.
    pub async fn drain_requested(&self) -> Result<(), LinkError> {
        let shared = &self.link.shared;
        let ready = || match self.error() {
            Some(error) => Some(Err(error.clone())),
            None => shared
                .drain_requested
                .load(Ordering::Acquire)
                .then_some(Ok(())),
        };
        wait(&shared.notify, ready).await
    }

    /// Gives the rest of the credit back once what is queued is sent: the answer to
    /// [`drain_requested`](Self::drain_requested).
    ///
    /// # Errors
    ///
    /// Why the link ended.
    pub fn drained(&self) -> Result<(), LinkError> {
        let result = self.link.endpoint().with(|connection, _| {
            self.link
                .shared
                .drain_requested
                .store(false, Ordering::Release);
            connection.drained(self.link.key)
        });
        result.map_err(|error| self.link.ended_or(error))
    }

    /// Waits until the link has ended, for whatever reason. Not bounded.
    ///
    /// # Cancel safety
    ///
    /// Only looks on: dropping the future changes nothing.
    pub async fn ended(&self) -> LinkError {
        self.link.ended().await
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

    fn not_transferred(&self) -> DeliveryError {
        DeliveryError::NotTransferred(self.error().cloned().unwrap_or(LinkError::DetachedLocally))
    }
}
