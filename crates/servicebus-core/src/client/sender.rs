use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytestring::ByteString;
use servicebus_amqp::engine::DetachMode;
use servicebus_amqp::types::DeliveryState;
use tracing::Instrument as _;

use super::cell::Cell;
use super::clock::wall;
use super::closing::Closing;
use super::failure::{Failure, Fate, uncertain, within};
use super::node::Node;
use super::operation::Operation;
use super::sending_link::SendingLink;
use super::transaction::other_connection;
use crate::batch::MessageBatch;
use crate::error::{Error, ErrorKind, Result};
use crate::management::{CancelScheduled, Schedule};
use crate::message::{Encoded, Message};
use crate::names::BATCH_MESSAGE_FORMAT;
use crate::options::{BatchOptions, SenderOptions};

/// Sends messages to a queue or a topic.
///
/// It can be cloned and used from many tasks at once: sends do not wait for one another. The link is attached when it
/// is first needed and again after it was lost. When the last clone is gone, the link is detached in the background.
#[derive(Clone, Debug)]
pub struct Sender {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    node: Arc<Node>,
    identifier: Option<ByteString>,
    link: Cell<SendingLink>,
    closing: Closing,
}

impl Sender {
    pub(crate) fn new(node: Arc<Node>, options: SenderOptions) -> Self {
        Self {
            inner: Arc::new(Inner {
                node,
                identifier: options.identifier,
                link: Cell::default(),
                closing: Closing::default(),
            }),
        }
    }

    /// The path of the queue or topic.
    pub fn entity(&self) -> &str {
        self.inner.node.address.as_str()
    }

    /// Sends a message, and waits until the service has taken it.
    ///
    /// A message without an id is given a new uuid. What fails in passing is repeated as the client's
    /// [`RetryOptions`](crate::retry::RetryOptions) say, with the same id, so that an entity with duplicate detection
    /// keeps one of them.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::InvalidArgument`] when [`Message::check`] refuses it, and [`ErrorKind::MessageTooLarge`] when
    ///   the entity does not take messages of its size: nothing was sent.
    /// * [`ErrorKind::Uncertain`] when the connection was lost before the answer, and with it each repetition: the
    ///   message may have been taken.
    /// * What the service refused it with, as [`ErrorKind::EntityNotFound`], [`ErrorKind::Unauthorized`] or
    ///   [`ErrorKind::QuotaExceeded`].
    ///
    /// # Cancel safety
    ///
    /// A message that was not yet put on the wire when the future is dropped is not sent. One that was may be taken.
    pub async fn send(&self, message: impl Into<Message>) -> Result<()> {
        let mut message = message.into();
        message.assign_message_id();
        let span = tracing::debug_span!(
            "send",
            entity = self.entity(),
            message_id = message.message_id.as_ref().map(tracing::field::display),
        );
        let payload = self.encode(message)?;
        self.inner.deliver(payload, 0).instrument(span).await
    }

    /// An empty batch, of the size that the service takes now.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send): the limit is known once the link is attached.
    ///
    /// # Cancel safety
    ///
    /// Nothing happens when the future is dropped.
    pub async fn batch(&self) -> Result<MessageBatch> {
        self.batch_with(BatchOptions::default()).await
    }

    /// An empty batch with these options.
    ///
    /// # Errors
    ///
    /// As [`batch`](Self::batch); [`ErrorKind::InvalidArgument`] when the options ask for a larger batch than the
    /// service takes.
    ///
    /// # Cancel safety
    ///
    /// Nothing happens when the future is dropped.
    pub async fn batch_with(&self, options: BatchOptions) -> Result<MessageBatch> {
        let limit = self.inner.batch_limit().await?;
        match options.max_size {
            Some(size) if size > limit => Err(self.inner.node.about(Error::new(
                ErrorKind::InvalidArgument,
                format!("a batch of {size} bytes was asked for, {limit} are allowed"),
            ))),
            size => Ok(MessageBatch::new(size.unwrap_or(limit), wall())),
        }
    }

    /// Sends a batch: the service takes all of its messages or none. An empty batch is not sent.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send). [`ErrorKind::MessageTooLarge`] also when the service takes less now than when the
    /// batch was made.
    ///
    /// # Cancel safety
    ///
    /// As [`send`](Self::send).
    pub async fn send_batch(&self, batch: MessageBatch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let span = tracing::debug_span!("send_batch", entity = self.entity(), count = batch.len());
        let limit = self.inner.batch_limit().await?;
        if batch.size() > limit {
            return Err(self.inner.node.about(Error::new(
                ErrorKind::MessageTooLarge,
                format!(
                    "the batch has {} bytes, {limit} are allowed now",
                    batch.size()
                ),
            )));
        }
        self.inner
            .deliver(batch.into_payload().into(), BATCH_MESSAGE_FORMAT)
            .instrument(span)
            .await
    }

    /// Sends a message now, to become active at `at`; gives the number that [`cancel_scheduled`](Self::cancel_scheduled)
    /// takes. The message gets another sequence number when it becomes active.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send). A repeated request has the same message id.
    ///
    /// # Cancel safety
    ///
    /// The message may be scheduled when the future is dropped.
    pub async fn schedule(&self, message: impl Into<Message>, at: SystemTime) -> Result<i64> {
        let numbers = self.schedule_all([message.into()], at).await?;
        numbers.first().copied().ok_or_else(|| {
            self.inner.node.about(crate::rpc::protocol(
                "the service scheduled the message and gave no number",
            ))
        })
    }

    /// Sends messages now, to become active at `at`; gives a number for each. All are taken or none is.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    ///
    /// # Cancel safety
    ///
    /// The messages may be scheduled when the future is dropped.
    pub async fn schedule_all<M: Into<Message>>(
        &self,
        messages: impl IntoIterator<Item = M>,
        at: SystemTime,
    ) -> Result<Vec<i64>> {
        self.inner.closing.check()?;
        let node = &self.inner.node;
        let messages = messages.into_iter().map(Into::into);
        let request = Schedule::new(messages, at, wall()).map_err(|error| node.about(error))?;
        if request.is_empty() {
            return Ok(Vec::new());
        }
        let span = tracing::debug_span!("schedule", entity = self.entity());
        node.call(&request, self.inner.link_name())
            .instrument(span)
            .await
    }

    /// Takes a scheduled message back, by the number that scheduling it gave.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::MessageNotFound`] when it is not scheduled, or not any more.
    ///
    /// # Cancel safety
    ///
    /// The message may be cancelled when the future is dropped.
    pub async fn cancel_scheduled(&self, number: i64) -> Result<()> {
        self.cancel_scheduled_all([number]).await
    }

    /// Takes scheduled messages back.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::MessageNotFound`] when one of them is not scheduled.
    ///
    /// # Cancel safety
    ///
    /// The messages may be cancelled when the future is dropped.
    pub async fn cancel_scheduled_all(&self, numbers: impl IntoIterator<Item = i64>) -> Result<()> {
        self.inner.closing.check()?;
        let numbers: Vec<i64> = numbers.into_iter().collect();
        if numbers.is_empty() {
            return Ok(());
        }
        let span = tracing::debug_span!("cancel_scheduled", entity = self.entity());
        let request = CancelScheduled::new(numbers);
        self.inner
            .node
            .call(&request, self.inner.link_name())
            .instrument(span)
            .await
    }

    /// Whether the sender or its client was closed.
    pub fn is_closed(&self) -> bool {
        self.inner.closing.is_closed() || self.inner.node.shared.closing.is_closed()
    }

    /// Detaches the link, for all clones: what is asked of them from now on fails with [`ErrorKind::Closed`]. Closing
    /// again does nothing. Await sends before, to know what became of them.
    ///
    /// # Cancel safety
    ///
    /// The sender is closed when the future is dropped; the link is detached in the background.
    pub async fn close(&self) {
        self.inner.closing.close();
        if let Some(link) = self.inner.link.end() {
            link.link.detach(DetachMode::Close, None).await;
        }
    }

    fn encode(&self, message: Message) -> Result<Encoded> {
        // The time is of interest to a message with an end only, and not for free.
        let now = match message.time_to_live {
            Some(_) => wall(),
            None => SystemTime::UNIX_EPOCH,
        };
        message
            .into_parts(now)
            .map_err(|error| self.inner.node.about(error))
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.inner.node
    }

    /// A message as it is sent.
    pub(crate) fn payload(&self, mut message: Message) -> Result<Encoded> {
        message.assign_message_id();
        self.encode(message)
    }

    /// Sends within a transaction: once.
    pub(crate) async fn send_enlisted(
        &self,
        payload: Encoded,
        message_format: u32,
        generation: u64,
        state: DeliveryState,
    ) -> Result<()> {
        let operation = Operation::new(&self.inner.node, "send");
        let deadline = operation.begin().await?;
        let link = self.inner.link(deadline).await?;
        if link.generation != generation {
            return Err(other_connection(&self.inner.node));
        }
        link.queue(payload, message_format, Some(state))
            .taken(deadline)
            .await
            .map_err(|failure| {
                let error = self.inner.node.about(failure.error);
                match failure.fate {
                    Fate::Known => error,
                    Fate::Unknown => uncertain(error),
                }
            })
    }
}

impl Inner {
    async fn deliver(self: &Arc<Self>, payload: Encoded, message_format: u32) -> Result<()> {
        let mut operation = Operation::new(&self.node, "send");
        let mut fate = Fate::Known;
        loop {
            let attempt = self.deliver_once(&operation, &payload, message_format);
            let Err(failure) = attempt.await else {
                tracing::trace!("sent");
                return Ok(());
            };
            if failure.fate == Fate::Unknown {
                fate = Fate::Unknown;
            }
            if let Err(error) = operation.failed(failure.error).await {
                let error = self.node.about(error);
                return Err(match fate {
                    Fate::Known => error,
                    Fate::Unknown => uncertain(error),
                });
            }
        }
    }

    async fn deliver_once(
        self: &Arc<Self>,
        operation: &Operation<'_>,
        payload: &Encoded,
        message_format: u32,
    ) -> Result<(), Failure> {
        let deadline = operation.begin().await?;
        let link = match self.link.living() {
            Some(link) if !self.closing.is_closed() => link,
            // Boxed, for most sends find the link attached.
            _ => Box::pin(self.link(deadline)).await?,
        };
        let _flight = self.node.shared.in_flight.enter();
        link.queue(payload.clone(), message_format, None)
            .taken(deadline)
            .await
    }

    /// The attached link, or a new one.
    async fn link(self: &Arc<Self>, deadline: Option<Instant>) -> Result<Arc<SendingLink>> {
        self.closing.check()?;
        if let Some(link) = self.link.living() {
            return Ok(link);
        }
        let this = Arc::clone(self);
        let link = self.link.get_or_make(|| async move {
            SendingLink::attach(&this.node, this.identifier.as_ref()).await
        });
        let link = within(deadline, self.closing.unless_closed(link));
        let link = self.node.shared.closing.unless_closed(link).await?;
        // It may have been closed while the link was attached.
        self.closing.check()?;
        Ok(link)
    }

    async fn batch_limit(self: &Arc<Self>) -> Result<usize> {
        let mut operation = Operation::new(&self.node, "attach");
        loop {
            let deadline = operation.begin().await?;
            match self.link(deadline).await {
                Ok(link) => return Ok(link.batch_limit),
                Err(error) => operation.failed(error).await?,
            }
        }
    }

    /// The link that management requests are made for.
    fn link_name(&self) -> Option<ByteString> {
        let link = self.link.living()?;
        Some(link.link.peer_attach()?.name.clone())
    }
}
