use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::SystemTime;

use bytestring::ByteString;
use servicebus_amqp::engine::{DeliveryKey, RequestError};
use servicebus_amqp::net::DeliveryError;
use servicebus_amqp::types::{DeliveryState, Map};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::clock::now;
use super::failure::{Failure, Fate, answer, uncertain};
use super::held_session::HeldSession;
use super::link::ReceivingLink;
use super::node::Node;
use super::renewer::Hold;
use super::transaction::other_connection;
use crate::error::{Error, ErrorKind, Result};
use crate::lock_token::LockToken;
use crate::management::{RenewLock, UpdateDisposition};
use crate::message::ReceivedMessage;
use crate::settlement::{DeadLetter, Settlement};
use crate::transaction::TransactionId;

/// A message that was received and is locked for this receiver: nobody else gets it until it is settled or its lock runs
/// out. What it says is read through [`ReceivedMessage`], to which it dereferences.
///
/// Settling consumes it; each of [`complete`](Self::complete), [`abandon`](Self::abandon), [`defer`](Self::defer) and
/// [`dead_letter`](Self::dead_letter) waits until the service has confirmed. They can run at the same time for many
/// messages, and travel together then. When the link that brought the message is gone, the message is settled over the
/// entity's management node.
///
/// The lock is renewed in the background as the receiver's options say. A message that is dropped without being settled is
/// not renewed any more: it comes again, to any receiver, when its lock runs out, and its delivery count goes up.
///
/// Nobody settles it twice (case B62):
///
/// ```compile_fail,E0382
/// # use servicebus_core::client::LockedMessage;
/// async fn twice(message: LockedMessage) {
///     let _ = message.complete().await;
///     let _ = message.complete().await; // use of moved value
/// }
/// ```
#[must_use = "a message that is not settled comes again when its lock runs out"]
pub struct LockedMessage(Box<Locked>);

/// Boxed, because messages are moved often and are not small.
struct Locked {
    message: ReceivedMessage,
    lock: MessageLock,
}

/// The lock of a message, and the ways to settle it.
#[derive(Debug)]
pub(crate) struct MessageLock {
    pub(crate) token: LockToken,
    pub(crate) node: Arc<Node>,
    /// The link that it came on; none for a deferred message.
    pub(crate) link: Option<(Arc<ReceivingLink>, DeliveryKey)>,
    pub(crate) session: Option<Arc<HeldSession>>,
    pub(crate) hold: Option<Hold>,
}

impl LockedMessage {
    pub(crate) fn new(message: ReceivedMessage, lock: MessageLock) -> Self {
        Self(Box::new(Locked { message, lock }))
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.0.lock.node
    }

    /// The token of the lock, which settles the message also from elsewhere.
    pub fn lock_token(&self) -> LockToken {
        self.0.lock.token
    }

    /// When the lock ends, by the service's clock: as it said with the message, or when the lock was last renewed.
    pub fn locked_until(&self) -> Option<SystemTime> {
        let renewed = self.0.lock.hold.as_ref().and_then(Hold::locked_until);
        renewed.or_else(|| self.0.message.locked_until())
    }

    /// A token that is cancelled when the lock is lost or has run out: what is still being done about the message is
    /// for nothing then. The lock of a message that belongs to a session is the session's, and lost with it.
    pub fn lock_lost(&self) -> CancellationToken {
        match (&self.0.lock.session, &self.0.lock.hold) {
            (Some(session), _) => session.link.session_lock_lost(),
            (None, Some(hold)) => hold.lost(),
            (None, None) => CancellationToken::new(),
        }
    }

    /// Completes the message: it is done with, and deleted.
    ///
    /// # Errors
    ///
    /// The error gives the message back. [`ErrorKind::MessageLockLost`]: the lock was over, and the message comes again.
    /// [`ErrorKind::SessionLockLost`] the same for a message of a session. [`ErrorKind::Uncertain`]: the request was
    /// made and its answer was lost, and further attempts did not tell what became of it. Others after the attempts of
    /// the client's retry options.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped the message may be settled, or it comes again when its lock runs out.
    pub async fn complete(self) -> Result<(), SettleError> {
        self.settle(Settlement::Complete).await
    }

    /// Gives the message back, to be delivered again at once. It counts as a failed delivery: after as many as the entity
    /// allows the message is dead-lettered.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    ///
    /// As [`complete`](Self::complete).
    pub async fn abandon(self) -> Result<(), SettleError> {
        self.abandon_with(Map::new()).await
    }

    /// Gives the message back and sets these application properties on it.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    ///
    /// As [`complete`](Self::complete).
    pub async fn abandon_with(self, properties: Map) -> Result<(), SettleError> {
        self.settle(Settlement::Abandon { properties }).await
    }

    /// Defers the message: from now on it is only received by its
    /// [sequence number](ReceivedMessage::sequence_number), which the application has to keep.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    ///
    /// As [`complete`](Self::complete).
    pub async fn defer(self) -> Result<(), SettleError> {
        self.defer_with(Map::new()).await
    }

    /// Defers the message and sets these application properties on it.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    ///
    /// As [`complete`](Self::complete).
    pub async fn defer_with(self, properties: Map) -> Result<(), SettleError> {
        self.settle(Settlement::Defer { properties }).await
    }

    /// Moves the message to the entity's dead-letter queue.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete); [`ErrorKind::InvalidArgument`] for a reason or description of more than 4096
    /// characters.
    ///
    /// # Cancel safety
    ///
    /// As [`complete`](Self::complete).
    pub async fn dead_letter(self, why: DeadLetter) -> Result<(), SettleError> {
        self.settle(Settlement::DeadLetter(why)).await
    }

    /// Settles the message in any of the four ways.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete) and [`dead_letter`](Self::dead_letter).
    ///
    /// # Cancel safety
    ///
    /// As [`complete`](Self::complete).
    pub async fn settle(mut self, settlement: Settlement) -> Result<(), SettleError> {
        let span = tracing::debug_span!(
            "settle",
            entity = %self.0.lock.node.address,
            how = settlement.disposition_status(),
            sequence_number = self.0.message.sequence_number(),
            delivery_count = self.0.message.delivery_count(),
        );
        let result = self.0.lock.settle(&settlement).instrument(span).await;
        match result {
            Ok(()) => {
                self.0.lock.release();
                Ok(())
            }
            Err(error) => Err(self.not_settled(error)),
        }
    }

    /// Renews the lock now; gives when it ends, by the service's clock.
    ///
    /// Not needed while it is renewed in the background.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::MessageLockLost`] when it was over; [`ErrorKind::InvalidOperation`] for a message of a session, whose
    /// lock is the session's.
    ///
    /// # Cancel safety
    ///
    /// The lock may be renewed when the future is dropped.
    pub async fn renew_lock(&self) -> Result<Option<SystemTime>> {
        let node = &self.0.lock.node;
        if self.0.lock.session.is_some() {
            return Err(node.about(Error::new(
                ErrorKind::InvalidOperation,
                "the lock of a message in a session is the session's",
            )));
        }
        let request = RenewLock::new([self.0.lock.token]);
        let ends = node.call(&request, self.0.lock.link_name()).await?;
        let until = ends.into_iter().next().flatten();
        if let Some(hold) = &self.0.lock.hold {
            hold.renewed(node, until);
        }
        Ok(until)
    }

    /// What was received, without its lock. The message is not settled, and its lock is not renewed any more: for those
    /// who keep the [lock token](Self::lock_token) to settle it elsewhere.
    pub fn into_message(self) -> ReceivedMessage {
        self.0.message
    }

    /// Settles within a transaction: once, on the link that it came on. Gives the lock, which is to be held until the
    /// transaction has ended.
    pub(crate) async fn settle_enlisted(
        self,
        settlement: Settlement,
        generation: u64,
        transaction: &TransactionId,
    ) -> Result<MessageLock, SettleError> {
        let result = self
            .0
            .lock
            .settle_enlisted(&settlement, generation, transaction)
            .await;
        match result {
            Ok(()) => Ok(self.0.lock),
            Err(error) => Err(self.not_settled(error)),
        }
    }

    pub(crate) fn not_settled(self, error: Error) -> SettleError {
        SettleError {
            error,
            message: self,
        }
    }
}

impl Deref for LockedMessage {
    type Target = ReceivedMessage;

    fn deref(&self) -> &ReceivedMessage {
        &self.0.message
    }
}

impl AsRef<ReceivedMessage> for LockedMessage {
    fn as_ref(&self) -> &ReceivedMessage {
        self
    }
}

impl fmt::Debug for LockedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedMessage")
            .field("sequence_number", &self.0.message.sequence_number())
            .field("lock_token", &self.0.lock.token)
            .field("delivery_count", &self.0.message.delivery_count())
            .finish_non_exhaustive()
    }
}

/// How stating the outcome on the link went when it did not settle the message.
enum OnLink {
    /// The broker's answer, which is final.
    Refused(Error),
    /// It can't be settled there; the management node may know the lock.
    Unable {
        error: Error,
        /// The outcome was stated: the broker may have acted on it.
        stated: bool,
    },
}

impl MessageLock {
    /// The message is settled.
    pub(crate) fn release(&mut self) {
        if let Some(hold) = self.hold.take() {
            hold.release();
        }
    }

    fn link_name(&self) -> Option<ByteString> {
        self.link.as_ref().map(|(link, _)| link.name.clone())
    }

    async fn settle(&self, settlement: &Settlement) -> Result<()> {
        let node = &self.node;
        settlement.check().map_err(|error| node.about(error))?;
        node.check()?;
        let mut stated_before = false;
        if let Some((link, delivery)) = &self.link {
            match self.settle_on_link(link, *delivery, settlement).await {
                Ok(()) => return Ok(()),
                Err(OnLink::Refused(error)) => return Err(node.about(error)),
                Err(OnLink::Unable { error, stated }) => {
                    if self.session.is_some() && link.link.error().is_some() {
                        // A broker that takes the session away has answered before what it acted on.
                        let open = stated && !link.session_taken_away();
                        let error = node.about(link.session_lost());
                        return Err(if open { uncertain(error) } else { error });
                    }
                    tracing::debug!(%error, "settling over the management node");
                    stated_before = stated;
                }
            }
        }
        let mut request = UpdateDisposition::new([self.token], settlement.clone());
        if let Some(session) = &self.session {
            request = request.session(session.id.clone());
        }
        // Boxed, for most messages never come here.
        let result = Box::pin(node.call(&request, self.link_name())).await;
        if let (Ok(()), Some((link, delivery))) = (&result, &self.link) {
            link.forget(*delivery);
        }
        result.map_err(|error| {
            if stated_before {
                uncertain(error)
            } else {
                error
            }
        })
    }

    async fn settle_on_link(
        &self,
        link: &ReceivingLink,
        delivery: DeliveryKey,
        settlement: &Settlement,
    ) -> Result<(), OnLink> {
        let outcome = DeliveryState::Outcome(settlement.outcome());
        let state = self.state(link, delivery, outcome).await?;
        settlement.read_answer(state.as_ref()).map_err(|error| {
            let unknown = error.condition() == Some("amqp:not-found");
            if error.is_transient() || unknown {
                OnLink::Unable {
                    error,
                    stated: false,
                }
            } else {
                OnLink::Refused(error)
            }
        })
    }

    /// States an outcome on the link and waits for the broker's.
    async fn state(
        &self,
        link: &ReceivingLink,
        delivery: DeliveryKey,
        outcome: DeliveryState,
    ) -> Result<Option<DeliveryState>, OnLink> {
        let unable = |error: Error, stated| OnLink::Unable { error, stated };
        let _flight = self.node.shared.in_flight.enter();
        let outcome = link
            .link
            .settle_confirmed(delivery, outcome)
            .map_err(|error| {
                // An outcome was stated before, and the answer was not waited for.
                let stated = matches!(error, DeliveryError::Refused(RequestError::WrongState));
                unable(error.into(), stated)
            })?;
        let deadline = now().checked_add(self.node.try_timeout());
        answer(outcome, deadline)
            .await
            .map_err(|Failure { error, fate }| unable(error, fate == Fate::Unknown))
    }

    async fn settle_enlisted(
        &self,
        settlement: &Settlement,
        generation: u64,
        transaction: &TransactionId,
    ) -> Result<()> {
        let node = &self.node;
        settlement.check().map_err(|error| node.about(error))?;
        node.check()?;
        let Some((link, delivery)) = &self.link else {
            let state = transaction.of_send();
            let mut request = UpdateDisposition::new([self.token], settlement.clone());
            if let Some(session) = &self.session {
                request = request.session(session.id.clone());
            }
            return Box::pin(node.call_enlisted(&request, generation, state)).await;
        };
        if link.generation != generation {
            return Err(other_connection(node));
        }
        let outcome = transaction.of_settlement(settlement.outcome());
        let answer = self.state(link, *delivery, outcome).await;
        let result = match answer {
            Ok(state) => settlement.read_answer(state.as_ref()),
            Err(OnLink::Refused(error) | OnLink::Unable { error, .. }) => Err(error),
        };
        result.map_err(|error| node.about(error))
    }
}

impl Drop for MessageLock {
    fn drop(&mut self) {
        // Without a lock in the schedule nobody else lets the link forget the delivery.
        let is_held = self.hold.as_ref().is_some_and(Hold::is_held);
        if let (Some(_), false, Some((link, delivery))) = (&self.hold, is_held, &self.link) {
            link.forget(*delivery);
        }
    }
}

/// Why a message could not be settled. It gives the message back.
pub struct SettleError {
    error: Error,
    message: LockedMessage,
}

impl SettleError {
    /// Why.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        self.error.kind()
    }

    /// The error and the message, which may be settled again unless its lock is lost.
    pub fn into_parts(self) -> (Error, LockedMessage) {
        (self.error, self.message)
    }

    /// The message, which may be settled again unless its lock is lost.
    pub fn into_message(self) -> LockedMessage {
        self.message
    }
}

impl From<SettleError> for Error {
    fn from(error: SettleError) -> Self {
        error.error
    }
}

impl fmt::Display for SettleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Debug for SettleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SettleError")
            .field("error", &self.error)
            .field("message", &self.message)
            .finish()
    }
}

impl std::error::Error for SettleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}
