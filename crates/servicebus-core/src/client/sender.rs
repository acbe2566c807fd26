use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use bytestring::ByteString;
use servicebus_amqp::engine::{DetachMode, LinkOptions, OutgoingDelivery};
use servicebus_amqp::net::{DeliveryError, Outcome, SenderLink};
use servicebus_amqp::types::{DeliveryState, Source, Target};
use tracing::Instrument as _;

use super::cell::{Cell, Mortal};
use super::clock::{sleep_until, wall};
use super::closing::Closing;
use super::failure::{Failure, Fate, timeout, uncertain, within};
use super::grant::Grant;
use super::live::Seat;
use super::node::Node;
use super::operation::Operation;
use crate::batch::{MessageBatch, batch_limit};
use crate::error::{Error, ErrorKind, Result};
use crate::management::{CancelScheduled, Schedule};
use crate::message::Message;
use crate::names::BATCH_MESSAGE_FORMAT;
use crate::options::{BatchOptions, SenderOptions};
use crate::settlement::read_send_answer;

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

/// An attached link, and what it stands on.
#[derive(Debug)]
pub(crate) struct SendingLink {
    pub(crate) link: SenderLink,
    pub(crate) generation: u64,
    batch_limit: usize,
    _grant: Arc<Grant>,
    _seat: Seat,
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
            .deliver(batch.into_payload(), BATCH_MESSAGE_FORMAT)
            .instrument(span)
            .await
    }

    /// Sends messages in their order, in as few batches as the service's limits and the messages' sessions and partition
    /// keys allow. A message that is too large for a batch is sent alone. Messages without an id are given one.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send); the error says how many messages, counted from the first, are sent. Those that follow
    /// were not sent, unless it is [`ErrorKind::Uncertain`].
    ///
    /// # Cancel safety
    ///
    /// Each batch is sent or not as in [`send`](Self::send); how many were is not told when the future is dropped.
    pub async fn send_all<M: Into<Message>>(
        &self,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<(), SendAllError> {
        let mut messages = messages.into_iter().map(Into::into).peekable();
        let mut sent = 0;
        if messages.peek().is_none() {
            return Ok(());
        }
        let failed = |sent, error| SendAllError { sent, error };
        let mut batch = self.batch().await.map_err(|error| failed(0, error))?;
        for mut message in messages {
            message.assign_message_id();
            let group = batch.is_empty() || batch.takes_group(&message);
            let added = if group {
                batch.try_add(&message)
            } else {
                Ok(false)
            };
            match added {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::MessageTooLarge => {
                    self.send(message)
                        .await
                        .map_err(|error| failed(sent, error))?;
                    sent += 1;
                    continue;
                }
                Err(error) => return Err(self.flush(batch, sent, error).await),
            }
            let full = std::mem::replace(
                &mut batch,
                self.batch().await.map_err(|error| failed(sent, error))?,
            );
            let count = full.len();
            self.send_batch(full)
                .await
                .map_err(|error| failed(sent, error))?;
            sent += count;
            match batch.try_add(&message) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::MessageTooLarge => {
                    self.send(message)
                        .await
                        .map_err(|error| failed(sent, error))?;
                    sent += 1;
                }
                Err(error) => return Err(failed(sent, error)),
            }
        }
        self.send_batch(batch)
            .await
            .map_err(|error| failed(sent, error))
    }

    /// A message is wrong in itself: what comes before it is sent.
    async fn flush(&self, batch: MessageBatch, sent: usize, error: Error) -> SendAllError {
        let count = batch.len();
        match self.send_batch(batch).await {
            Ok(()) => SendAllError {
                sent: sent + count,
                error: self.inner.node.about(error),
            },
            Err(error) => SendAllError { sent, error },
        }
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

    fn encode(&self, message: Message) -> Result<Bytes> {
        // The time is of interest to a message with an end only, and not for free.
        let now = match message.time_to_live {
            Some(_) => wall(),
            None => SystemTime::UNIX_EPOCH,
        };
        message
            .into_encoded(now)
            .map_err(|error| self.inner.node.about(error))
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.inner.node
    }

    /// A message as it is sent.
    pub(crate) fn payload(&self, mut message: Message) -> Result<Bytes> {
        message.assign_message_id();
        self.encode(message)
    }

    /// Sends within a transaction: once.
    pub(crate) async fn send_enlisted(
        &self,
        payload: Bytes,
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
        queue(&link, payload, message_format, Some(state))
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

/// The transaction and what it is to do are not on one connection.
pub(crate) fn other_connection(node: &Node) -> Error {
    node.about(Error::new(
        ErrorKind::Transaction,
        "the transaction was begun on another connection than the one in use now; it is rolled back",
    ))
}

impl Inner {
    async fn deliver(self: &Arc<Self>, payload: Bytes, message_format: u32) -> Result<()> {
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
        payload: &Bytes,
        message_format: u32,
    ) -> Result<(), Failure> {
        let deadline = operation.begin().await?;
        let link = match self.link.living() {
            Some(link) if !self.closing.is_closed() => link,
            // Boxed, for most sends find the link attached.
            _ => Box::pin(self.link(deadline)).await?,
        };
        let _flight = self.node.shared.in_flight.enter();
        queue(&link, payload.clone(), message_format, None)
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
        let link = self.link.get_or_make(|| async move { this.attach().await });
        let link = within(deadline, self.closing.unless_closed(link));
        let link = self.node.shared.closing.unless_closed(link).await?;
        // It may have been closed while the link was attached.
        self.closing.check()?;
        Ok(link)
    }

    async fn attach(&self) -> Result<SendingLink> {
        let (live, grant) = self.node.authorised().await?;
        let limit = self.node.try_timeout();
        let seat = live.seat(limit).await?;
        let address = self.node.address.to_byte_string();
        let name: ByteString = format!("{address}-{}", uuid::Uuid::new_v4()).into();
        let source = Source {
            address: Some(self.identifier.clone().unwrap_or_else(|| name.clone())),
            ..Source::default()
        };
        let target = Target {
            address: Some(address),
            ..Target::default()
        };
        let options = LinkOptions::new(source, target);
        let link = seat.session().attach_sender(name, options, limit).await?;
        let peer = link.peer_attach();
        let batch_limit = batch_limit(
            peer.and_then(|attach| attach.max_message_size),
            peer.and_then(|attach| attach.properties.as_ref()),
        );
        tracing::debug!(entity = %self.node.address, batch_limit, "sender attached");
        Ok(SendingLink {
            link,
            generation: live.generation,
            batch_limit,
            _grant: grant,
            _seat: seat,
        })
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

/// A delivery on its way. Small, because many of them are on their way at a time.
enum Queued {
    Now(Result<Outcome, DeliveryError>),
    /// So many have no outcome yet that this one waits.
    Later(Pin<Box<dyn Future<Output = Result<Outcome, DeliveryError>> + Send>>),
}

/// Puts a delivery in the queue of the link.
fn queue(
    link: &SendingLink,
    payload: Bytes,
    message_format: u32,
    state: Option<DeliveryState>,
) -> Queued {
    let mut delivery = OutgoingDelivery::new(payload);
    delivery.message_format = message_format;
    delivery.state = state;
    match link.link.try_queue(delivery) {
        Ok(outcome) => Queued::Now(outcome),
        Err(delivery) => {
            let link = link.link.clone();
            Queued::Later(Box::pin(async move { link.queue(delivery).await }))
        }
    }
}

impl Queued {
    /// Waits for the broker to take it, until the deadline at the latest.
    async fn taken(self, deadline: Option<Instant>) -> Result<(), Failure> {
        let mut expired = std::pin::pin!(sleep_until(deadline));
        let mut outcome = match self {
            Self::Now(outcome) => outcome?,
            Self::Later(queued) => tokio::select! {
                biased;
                queued = queued => queued?,
                () = &mut expired => return Err(Failure::known(timeout())),
            },
        };
        tokio::select! {
            biased;
            state = &mut outcome => {
                let state = state?;
                Ok(read_send_answer(state.as_ref())?)
            }
            () = &mut expired => Err(if outcome.cancel() {
                Failure::known(timeout())
            } else {
                Failure::unknown(timeout())
            }),
        }
    }
}

/// Why [`Sender::send_all`] stopped, and how far it came.
#[derive(Debug)]
pub struct SendAllError {
    sent: usize,
    error: Error,
}

impl SendAllError {
    /// How many messages, counted from the first, are sent.
    pub fn sent(&self) -> usize {
        self.sent
    }

    /// Why no more are.
    pub fn error(&self) -> &Error {
        &self.error
    }
}

impl std::fmt::Display for SendAllError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "after {} messages: {}", self.sent, self.error)
    }
}

impl std::error::Error for SendAllError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<SendAllError> for Error {
    fn from(error: SendAllError) -> Self {
        error.error
    }
}

impl Mortal for SendingLink {
    fn is_alive(&self) -> bool {
        self.link.error().is_none()
    }
}
