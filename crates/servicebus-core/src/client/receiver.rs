use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use futures_util::Stream;
use tracing::Instrument as _;

use super::clock::wall;
use super::intake::{Intake, Settings};
use super::locked_message::{LockedMessage, SettleError};
use super::mode::{Mode, PeekLock};
use super::node::Node;
use crate::error::Result;
use crate::lock_token::LockToken;
use crate::management::{DeleteMessages, Peek, ReceiveDeferred, RenewLock, UpdateDisposition};
use crate::message::ReceivedMessage;
use crate::options::ReceiverOptions;
use crate::settlement::Settlement;

/// How many messages one request deletes: what all tiers of the service take.
const DELETE_AT_ONCE: u32 = 500;

/// Receives messages from a queue, a subscription, or a queue that belongs to one.
///
/// The type parameter says how: with [`PeekLock`] messages are locked and have to be settled, with
/// [`ReceiveAndDelete`](super::ReceiveAndDelete) they are deleted as they come.
///
/// It can be cloned and used from many tasks at once: receives are served in turn, so poll or drop one that was begun;
/// settling never waits for them. The link is attached when it is first needed and again after it was lost. When the
/// last clone is gone, messages that wait in it are given back and the link is detached.
#[derive(Debug)]
pub struct Receiver<M = PeekLock> {
    intake: Arc<Intake>,
    mode: PhantomData<M>,
}

impl<M> Clone for Receiver<M> {
    fn clone(&self) -> Self {
        Self {
            intake: Arc::clone(&self.intake),
            mode: PhantomData,
        }
    }
}

impl<M: Mode> Receiver<M> {
    pub(crate) fn new(node: Arc<Node>, options: ReceiverOptions) -> Self {
        let settings = Settings {
            mode: M::MODE,
            identifier: options.identifier,
            session: None,
            prefetch: options.prefetch,
            keep_lock: options.keep_lock,
            linger: options.linger,
        };
        Self {
            intake: Intake::new(node, settings),
            mode: PhantomData,
        }
    }

    /// The path of the queue or subscription.
    pub fn entity(&self) -> &str {
        self.intake.node().address.as_str()
    }

    /// Receives the next message; waits until there is one.
    ///
    /// A lost link is attached again meanwhile, so that a receive can wait for days.
    ///
    /// # Errors
    ///
    /// What keeps the receiver from its messages after the attempts of the client's retry options, as
    /// [`ErrorKind::EntityNotFound`](crate::error::ErrorKind::EntityNotFound), [`ErrorKind::Unauthorized`](crate::error::ErrorKind::Unauthorized) or [`ErrorKind::Communication`](crate::error::ErrorKind::Communication);
    /// [`ErrorKind::InvalidOperation`](crate::error::ErrorKind::InvalidOperation) where the entity requires sessions. The receiver can be used again.
    ///
    /// # Cancel safety
    ///
    /// No message is lost when the future is dropped: one that is on its way is kept for the next receive, or given back to
    /// the broker after half a second.
    pub async fn receive(&self) -> Result<M::Message> {
        loop {
            let receive = self.intake.receive_one::<M>(None);
            if let Some(message) = receive.instrument(self.span()).await? {
                return Ok(message);
            }
        }
    }

    /// Receives the next message, or `None` when there is none within `wait`. A `wait` of zero takes what is here already.
    ///
    /// The wait is counted while the link is attached, so that `None` says that there was no message, and not that the
    /// service was slow to answer. Attaching has the time of the client's [`RetryOptions`](crate::retry::RetryOptions).
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    ///
    /// # Cancel safety
    ///
    /// As [`receive`](Self::receive).
    pub async fn receive_within(&self, wait: Duration) -> Result<Option<M::Message>> {
        let receive = self.intake.receive_one::<M>(Some(wait));
        receive.instrument(self.span()).await
    }

    /// Receives up to `max` messages. Waits for the first one for `wait`, which is counted as in
    /// [`receive_within`](Self::receive_within); then takes what comes until none has come for
    /// [`linger`](ReceiverOptions::linger). An empty batch says that there was nothing.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    ///
    /// # Cancel safety
    ///
    /// As [`receive`](Self::receive).
    pub async fn receive_batch(&self, max: usize, wait: Duration) -> Result<Vec<M::Message>> {
        self.intake
            .receive::<M>(max, Some(wait))
            .instrument(tracing::debug_span!("receive", entity = self.entity(), max))
            .await
    }

    /// The messages as a stream, which only ends after an error that a new attempt does not help against.
    ///
    /// # Errors
    ///
    /// The items are the results of [`receive`](Self::receive).
    ///
    /// # Cancel safety
    ///
    /// As [`receive`](Self::receive), for dropping the stream as well.
    pub fn stream(&self) -> impl Stream<Item = Result<M::Message>> + Send + Unpin + use<M> {
        messages(self.clone(), |receiver| async move {
            let result = receiver.receive().await;
            (result, receiver)
        })
    }

    /// Receives deferred messages by their sequence numbers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::MessageNotFound`](crate::error::ErrorKind::MessageNotFound) when one of them is not deferred; as [`receive`](Self::receive) for others.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped the messages may be locked until their locks run out, or deleted with
    /// [`ReceiveAndDelete`](super::ReceiveAndDelete).
    pub async fn receive_deferred(
        &self,
        numbers: impl IntoIterator<Item = i64>,
    ) -> Result<Vec<M::Message>> {
        receive_deferred::<M>(&self.intake, numbers).await
    }

    /// Looks at up to `max` messages without locking them, beginning behind the last one that this receiver looked at.
    /// Active, deferred, scheduled and locked messages are shown.
    ///
    /// The service may give fewer than asked for although there are more; an empty list is the end.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    ///
    /// # Cancel safety
    ///
    /// The next call begins at the same place when the future is dropped.
    pub async fn peek(&self, max: u32) -> Result<Vec<ReceivedMessage>> {
        peek(&self.intake, max).await
    }

    /// Looks at up to `max` messages whose sequence number is `from` or more. Leaves the place of [`peek`](Self::peek)
    /// as it is.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    ///
    /// # Cancel safety
    ///
    /// Nothing happens when the future is dropped.
    pub async fn peek_from(&self, from: i64, max: u32) -> Result<Vec<ReceivedMessage>> {
        peek_from(&self.intake, from, max).await
    }

    /// Deletes up to `max` messages that were enqueued before `before`, the oldest first, without receiving them; gives how
    /// many. Locked messages are passed over. The service takes at most 4000 in Premium namespaces and 500 in others,
    /// and not for partitioned entities.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive). It is not repeated: with [`ErrorKind::Uncertain`](crate::error::ErrorKind::Uncertain) messages may have been deleted.
    ///
    /// # Cancel safety
    ///
    /// Messages may be deleted when the future is dropped.
    pub async fn delete_batch(&self, max: u32, before: SystemTime) -> Result<u32> {
        self.intake.check()?;
        let request = DeleteMessages::new(max, before);
        let link = self.intake.link_name();
        self.intake
            .node()
            .call(&request, link)
            .instrument(tracing::debug_span!("delete", entity = self.entity(), max))
            .await
    }

    /// Deletes all messages that were enqueued before `before` and are not locked; gives how many. With `None`: all that
    /// are there now.
    ///
    /// # Errors
    ///
    /// As [`delete_batch`](Self::delete_batch).
    ///
    /// # Cancel safety
    ///
    /// Messages may be deleted when the future is dropped.
    pub async fn purge(&self, before: Option<SystemTime>) -> Result<u64> {
        let before = before.unwrap_or_else(wall);
        let mut deleted = 0;
        loop {
            let count = self.delete_batch(DELETE_AT_ONCE, before).await?;
            if count == 0 {
                return Ok(deleted);
            }
            deleted += u64::from(count);
        }
    }

    fn span(&self) -> tracing::Span {
        tracing::debug_span!("receive", entity = self.entity())
    }

    /// Whether the receiver or its client was closed.
    pub fn is_closed(&self) -> bool {
        self.intake.is_closed()
    }

    /// Ends receiving, for all clones: gives messages that wait here back to the broker and detaches the link. Receives
    /// that wait end with [`ErrorKind::Closed`](crate::error::ErrorKind::Closed), as does what is asked from now on. Messages in the hands of the
    /// application can still be settled. Closing again does nothing.
    ///
    /// With [`ReceiveAndDelete`](super::ReceiveAndDelete) there is nobody to give messages back to: receiving goes on
    /// to give them out until there are none.
    ///
    /// It takes up to a second, and the client's close time-out when the service does not answer.
    ///
    /// # Cancel safety
    ///
    /// No more is received when the future is dropped; close again to give back what waits here.
    pub async fn close(&self) {
        self.intake.close().await;
    }
}

impl Receiver<PeekLock> {
    /// Settles a message by its lock token alone, as one that was received elsewhere.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::MessageLockLost`](crate::error::ErrorKind::MessageLockLost) when the lock is over; as [`receive`](Self::receive) for others.
    ///
    /// # Cancel safety
    ///
    /// The message may be settled when the future is dropped.
    pub async fn settle(&self, token: LockToken, settlement: Settlement) -> Result<()> {
        self.intake.check()?;
        let node = self.intake.node();
        settlement.check().map_err(|error| node.about(error))?;
        let request = UpdateDisposition::new([token], settlement);
        node.call(&request, self.intake.link_name()).await
    }

    /// Settles many messages at once, in the same way; gives those back that could not be settled.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, messages may be settled or come again when their locks run out.
    pub async fn settle_all(
        &self,
        messages: impl IntoIterator<Item = LockedMessage>,
        settlement: Settlement,
    ) -> Vec<SettleError> {
        settle_all(messages, settlement).await
    }

    /// Renews locks by their tokens, as of messages that were received elsewhere; gives when each ends, by the service's
    /// clock.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::MessageLockLost`](crate::error::ErrorKind::MessageLockLost) when one of them is over.
    ///
    /// # Cancel safety
    ///
    /// The locks may be renewed when the future is dropped.
    pub async fn renew_locks(
        &self,
        tokens: impl IntoIterator<Item = LockToken>,
    ) -> Result<Vec<Option<SystemTime>>> {
        self.intake.check()?;
        let tokens: Vec<_> = tokens.into_iter().collect();
        if tokens.is_empty() {
            return Ok(Vec::new());
        }
        let node = self.intake.node();
        node.call(&RenewLock::new(tokens), self.intake.link_name())
            .await
    }
}

pub(crate) async fn settle_all(
    messages: impl IntoIterator<Item = LockedMessage>,
    settlement: Settlement,
) -> Vec<SettleError> {
    let settling = messages
        .into_iter()
        .map(|message| message.settle(settlement.clone()));
    let results = futures_util::future::join_all(settling).await;
    results.into_iter().filter_map(Result::err).collect()
}

pub(crate) async fn receive_deferred<M: Mode>(
    intake: &Arc<Intake>,
    numbers: impl IntoIterator<Item = i64>,
) -> Result<Vec<M::Message>> {
    intake.check()?;
    let numbers: Vec<i64> = numbers.into_iter().collect();
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let node = intake.node();
    let mut request = ReceiveDeferred::new(numbers, M::MODE);
    if let Some(session) = intake.session() {
        request = request.session(session.id.clone());
    }
    let span = tracing::debug_span!("receive_deferred", entity = %node.address);
    let call = node.call(&request, intake.link_name()).instrument(span);
    let messages = call.await?.into_iter();
    messages
        .map(|message| M::deferred(message, intake).map_err(|error| node.about(error)))
        .collect()
}

pub(crate) async fn peek(intake: &Arc<Intake>, max: u32) -> Result<Vec<ReceivedMessage>> {
    let from = intake.cursor.load(Ordering::Relaxed);
    let messages = peek_from(intake, from, max).await?;
    if let Some(last) = messages.last() {
        let next = last.sequence_number().saturating_add(1);
        intake.cursor.store(next, Ordering::Relaxed);
    }
    Ok(messages)
}

pub(crate) async fn peek_from(
    intake: &Arc<Intake>,
    from: i64,
    max: u32,
) -> Result<Vec<ReceivedMessage>> {
    intake.check()?;
    if max == 0 {
        return Ok(Vec::new());
    }
    let mut request = Peek::new(from, max);
    if let Some(session) = intake.session() {
        request = request.session(session.id.clone());
    }
    let node = intake.node();
    let span = tracing::debug_span!("peek", entity = %node.address, from, max);
    node.call(&request, intake.link_name())
        .instrument(span)
        .await
}

/// A stream of what `next` gives, up to the first error that is final.
pub(crate) fn messages<R, T, F>(
    receiver: R,
    next: impl Fn(R) -> F + Send,
) -> impl Stream<Item = Result<T>> + Send + Unpin
where
    R: Send,
    T: Send,
    F: Future<Output = (Result<T>, R)> + Send,
{
    let state = (Some(receiver), next);
    let stream = futures_util::stream::unfold(state, |(receiver, next)| async move {
        let (result, receiver) = next(receiver?).await;
        let over = matches!(&result, Err(error) if !error.is_transient());
        Some((result, ((!over).then_some(receiver), next)))
    });
    // For those who hold it in a place of their own and call `next` on it.
    Box::pin(stream)
}
