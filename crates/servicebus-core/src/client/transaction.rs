use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use servicebus_amqp::types::Map;
use tokio::sync::OnceCell;
use tracing::Instrument as _;

use super::Shared;
use super::clock::{now, wall};
use super::coordinator::Coordinator;
use super::failure::{Fate, uncertain, within};
use super::locked_message::{LockedMessage, MessageLock, SettleError};
use super::node::Node;
use super::sender::Sender;
use crate::batch::MessageBatch;
use crate::error::{Error, ErrorKind, Result};
use crate::management::Schedule;
use crate::message::{Encoded, Message};
use crate::names::BATCH_MESSAGE_FORMAT;
use crate::settlement::{DeadLetter, Settlement};
use crate::transaction::{Discharge, MAX_MESSAGES, TransactionId};

/// Operations that take effect together or not at all.
///
/// What is to belong to it is given to it: what is sent becomes visible, and what is settled is settled, when
/// [`commit`](Self::commit) returns. A transaction that is dropped is rolled back: messages that were settled in it are
/// locked as before. Their locks are renewed until it has ended.
///
/// * It begins with its first operation, and the service rolls it back two minutes later.
/// * It has at most 100 messages, all on one connection of the client.
/// * Its entity is that of its first operation. With [`TransactionScope::CrossEntity`](crate::options::TransactionScope) it
///   may send to others as well: settle first, then send.
/// * Operations in it are not repeated. After one has failed it can only be rolled back.
#[derive(Debug)]
pub struct Transaction {
    shared: Arc<Shared>,
    begun: OnceCell<Begun>,
    messages: AtomicUsize,
    failed: AtomicBool,
    /// The locks of messages that are settled in it, which are renewed until it has ended.
    locks: Mutex<Vec<MessageLock>>,
}

/// What the service knows of it.
#[derive(Debug)]
struct Begun {
    id: TransactionId,
    /// Which of the client's connections it is on.
    slot: usize,
    generation: u64,
    coordinator: Arc<Coordinator>,
    ended: AtomicBool,
}

impl Transaction {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            begun: OnceCell::new(),
            messages: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            locks: Mutex::default(),
        }
    }

    fn locks(&self) -> MutexGuard<'_, Vec<MessageLock>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message when the transaction is committed.
    ///
    /// # Errors
    ///
    /// As [`Sender::send`]; [`ErrorKind::Transaction`] when the transaction cannot be begun or is over;
    /// [`ErrorKind::InvalidOperation`] for more than 100 messages, and for what belongs to another client.
    ///
    /// # Cancel safety
    ///
    /// Roll the transaction back when the future is dropped: whether the message belongs to it is not known.
    pub async fn send(&self, sender: &Sender, message: impl Into<Message>) -> Result<()> {
        let payload = sender.payload(message.into())?;
        self.deliver(sender, payload, 0, 1).await
    }

    /// Sends a batch when the transaction is committed.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    ///
    /// # Cancel safety
    ///
    /// As [`send`](Self::send).
    pub async fn send_batch(&self, sender: &Sender, batch: MessageBatch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let count = batch.len();
        let payload = batch.into_payload().into();
        self.deliver(sender, payload, BATCH_MESSAGE_FORMAT, count)
            .await
    }

    async fn deliver(
        &self,
        sender: &Sender,
        payload: Encoded,
        message_format: u32,
        count: usize,
    ) -> Result<()> {
        let node = sender.node();
        let guard = self.enlist(node, count)?;
        let begun = self.begin(node).await?;
        sender
            .send_enlisted(
                payload,
                message_format,
                begun.generation,
                begun.id.of_send(),
            )
            .instrument(tracing::debug_span!(
                "send",
                entity = sender.entity(),
                transaction = true
            ))
            .await?;
        guard.succeeded();
        Ok(())
    }

    /// Schedules a message when the transaction is committed; gives the number that cancels it from then on.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    ///
    /// # Cancel safety
    ///
    /// As [`send`](Self::send).
    pub async fn schedule(
        &self,
        sender: &Sender,
        message: impl Into<Message>,
        at: SystemTime,
    ) -> Result<i64> {
        let node = sender.node();
        let request = Schedule::new([message.into()], at, wall()).map_err(|e| node.about(e))?;
        let guard = self.enlist(node, 1)?;
        let begun = self.begin(node).await?;
        let numbers = node
            .call_enlisted(&request, begun.generation, begun.id.of_send())
            .await?;
        guard.succeeded();
        numbers.first().copied().ok_or_else(|| {
            node.about(crate::rpc::protocol(
                "the service scheduled the message and gave no number",
            ))
        })
    }

    /// Completes a message when the transaction is committed.
    ///
    /// # Errors
    ///
    /// As [`LockedMessage::complete`]; [`ErrorKind::Transaction`] when the transaction cannot be begun or is over, or
    /// when the message came on another connection.
    ///
    /// # Cancel safety
    ///
    /// As [`send`](Self::send).
    pub async fn complete(&self, message: LockedMessage) -> Result<(), SettleError> {
        self.settle(message, Settlement::Complete).await
    }

    /// Abandons a message when the transaction is committed.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    ///
    /// As [`send`](Self::send).
    pub async fn abandon(&self, message: LockedMessage) -> Result<(), SettleError> {
        let properties = Map::new();
        self.settle(message, Settlement::Abandon { properties })
            .await
    }

    /// Defers a message when the transaction is committed.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    ///
    /// As [`send`](Self::send).
    pub async fn defer(&self, message: LockedMessage) -> Result<(), SettleError> {
        let properties = Map::new();
        self.settle(message, Settlement::Defer { properties }).await
    }

    /// Dead-letters a message when the transaction is committed.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    ///
    /// As [`send`](Self::send).
    pub async fn dead_letter(
        &self,
        message: LockedMessage,
        why: DeadLetter,
    ) -> Result<(), SettleError> {
        self.settle(message, Settlement::DeadLetter(why)).await
    }

    /// Settles a message in any of the four ways when the transaction is committed.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    ///
    /// As [`send`](Self::send).
    pub async fn settle(
        &self,
        message: LockedMessage,
        settlement: Settlement,
    ) -> Result<(), SettleError> {
        let node = Arc::clone(message.node());
        let guard = match self.enlist(&node, 1) {
            Ok(guard) => guard,
            Err(error) => return Err(message.not_settled(error)),
        };
        let begun = match self.begin(&node).await {
            Ok(begun) => begun,
            Err(error) => return Err(message.not_settled(error)),
        };
        let lock = message
            .settle_enlisted(settlement, begun.generation, &begun.id)
            .await?;
        self.locks().push(lock);
        guard.succeeded();
        Ok(())
    }

    /// Lets everything in the transaction take effect.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Transaction`] when it was rolled back instead: one of its operations had failed, its time was over, or
    /// the service refused. [`ErrorKind::Uncertain`] when the connection was lost before the answer.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped the transaction may be committed or not.
    pub async fn commit(self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) {
            // The reason of the roll-back is more telling than how it went.
            let _ = self.end(Discharge::Rollback).await;
            return Err(Error::new(
                ErrorKind::Transaction,
                "the transaction was rolled back because one of its operations had failed",
            ));
        }
        self.end(Discharge::Commit).await?;
        self.locks().iter_mut().for_each(MessageLock::release);
        Ok(())
    }

    /// Lets nothing in the transaction take effect.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Transaction`] or [`ErrorKind::Communication`] when the service did not say so; it rolls back by itself
    /// after two minutes.
    ///
    /// # Cancel safety
    ///
    /// The transaction is rolled back in the background when the future is dropped.
    pub async fn rollback(self) -> Result<()> {
        self.end(Discharge::Rollback).await
    }

    async fn end(&self, how: Discharge) -> Result<()> {
        let Some(begun) = self.begun.get() else {
            // Nothing was done in it.
            return Ok(());
        };
        let _flight = self.shared.in_flight.enter();
        let result = begun
            .coordinator
            .discharge(&begun.id, how, self.deadline())
            .instrument(tracing::debug_span!("end_transaction", ?how))
            .await;
        // Not before: when this is dropped in its wait, the transaction is still to be rolled back.
        begun.ended.store(true, Ordering::Release);
        result.map_err(|failure| match (how, failure.fate) {
            (Discharge::Commit, Fate::Unknown) => uncertain(failure.error),
            (Discharge::Commit, Fate::Known) if failure.error.kind() != ErrorKind::Transaction => {
                let text = format!("the transaction was not committed: {}", failure.error);
                Error::new(ErrorKind::Transaction, text).with_source(failure.error)
            }
            _ => failure.error,
        })
    }

    /// Counts what is to belong to it. Unless the guard is told of success, the transaction can only be rolled back.
    fn enlist(&self, node: &Node, count: usize) -> Result<Enlisting<'_>> {
        node.check()?;
        if !Arc::ptr_eq(&node.shared, &self.shared) {
            return Err(node.about(Error::new(
                ErrorKind::InvalidOperation,
                "the transaction was begun by another client",
            )));
        }
        if let Some(begun) = self.begun.get()
            && begun.slot != node.slot
        {
            return Err(node.about(Error::new(
                ErrorKind::InvalidOperation,
                "the entity is on another of the client's connections than the transaction; transactions across entities \
                 need TransactionScope::CrossEntity",
            )));
        }
        let before = self.messages.fetch_add(count, Ordering::AcqRel);
        if before.saturating_add(count) > MAX_MESSAGES {
            self.messages.fetch_sub(count, Ordering::AcqRel);
            return Err(node.about(Error::new(
                ErrorKind::InvalidOperation,
                format!("a transaction has at most {MAX_MESSAGES} messages"),
            )));
        }
        Ok(Enlisting { transaction: self })
    }

    async fn begin(&self, node: &Node) -> Result<&Begun> {
        let deadline = self.deadline();
        let begin = async {
            let live = node.shared.live(node.slot).await?;
            let coordinator = live.coordinator(node.try_timeout()).await?;
            let id = coordinator
                .declare(deadline)
                .await
                .map_err(|failure| failure.error)?;
            Ok(Begun {
                id,
                slot: node.slot,
                generation: live.generation,
                coordinator,
                ended: AtomicBool::new(false),
            })
        };
        let begun = self.begun.get_or_try_init(|| begin);
        let begun = node.shared.closing.unless_closed(begun);
        Box::pin(within(deadline, begun)).await.map_err(|error| {
            let error = match error.kind() {
                ErrorKind::Closed | ErrorKind::Transaction => error,
                _ => Error::new(
                    ErrorKind::Transaction,
                    format!("the transaction could not be begun: {error}"),
                )
                .with_source(error),
            };
            node.about(error)
        })
    }

    fn deadline(&self) -> Option<Instant> {
        now().checked_add(self.shared.options.retry.try_timeout)
    }
}

/// The transaction and what it is to do are not on one connection.
pub(crate) fn other_connection(node: &Node) -> Error {
    node.about(Error::new(
        ErrorKind::Transaction,
        "the transaction was begun on another connection than the one in use now, and can only be rolled back",
    ))
}

/// An operation on its way into a transaction.
struct Enlisting<'a> {
    transaction: &'a Transaction,
}

impl Enlisting<'_> {
    fn succeeded(self) {
        std::mem::forget(self);
    }
}

impl Drop for Enlisting<'_> {
    fn drop(&mut self) {
        self.transaction.failed.store(true, Ordering::Release);
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let deadline = self.deadline();
        let Some(begun) = self.begun.take() else {
            return;
        };
        if begun.ended.load(Ordering::Acquire) {
            return;
        }
        let rollback = async move {
            let ended = begun
                .coordinator
                .discharge(&begun.id, Discharge::Rollback, deadline);
            if let Err(failure) = ended.await {
                tracing::debug!(error = %failure.error, "a dropped transaction is left to its time limit");
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(rollback);
        }
    }
}
