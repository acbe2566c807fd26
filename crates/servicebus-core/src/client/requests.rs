use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use bytestring::ByteString;
use servicebus_amqp::engine::{CreditMode, LinkOptions, OutgoingDelivery};
use servicebus_amqp::net::{ReceiverLink, SenderLink};
use servicebus_amqp::types::{
    DeliveryState, Message, MessageId, ReceiverSettleMode, SenderSettleMode, Source, Target,
};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;

use super::cell::Mortal;
use super::clock::{sleep_until, until};
use super::closing::Closing;
use super::failure::{Failure, Fate, timeout};
use super::fault::closed;
use super::live::Seat;
use crate::error::{Error, ErrorKind, Result};
use crate::rpc::{Answer, Envelope, Request};
use crate::settlement::read_send_answer;

/// How many requests may wait for their answers; further ones wait before they are sent.
const MAX_PENDING: usize = 1024;

/// How many answers the service may send before they are read.
const ANSWER_WINDOW: u32 = 200;

/// Requests to one node, `$cbs` or the `$management` of an entity, and their answers: a link for each. Many are under
/// way at a time; an answer finds its request by the correlation id.
pub(crate) struct Requests {
    sender: SenderLink,
    receiver: ReceiverLink,
    reply_to: ByteString,
    waiters: Arc<Waiters>,
    pending: Semaphore,
    reader: AbortHandle,
    _seat: Seat,
}

/// Those who wait for answers, by the number in the id of their request.
#[derive(Debug, Default)]
struct Waiters {
    waiting: Mutex<HashMap<u64, oneshot::Sender<Result<Answer>>>>,
    last: AtomicU64,
}

/// What a request carries beside its content.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// The link that it is made for.
    pub(crate) associated_link: Option<ByteString>,
    /// The transaction that it belongs to.
    pub(crate) transaction: Option<DeliveryState>,
}

impl Requests {
    /// Attaches the two links.
    pub(crate) async fn attach(seat: Seat, node: ByteString, limit: Duration) -> Result<Self> {
        let name: ByteString = format!("{node}-{}", uuid::Uuid::new_v4()).into();
        let requests = LinkOptions::new(
            Source {
                address: Some(name.clone()),
                ..Source::default()
            },
            Target {
                address: Some(node.clone()),
                ..Target::default()
            },
        );
        let mut answers = LinkOptions::new(
            Source {
                address: Some(node),
                ..Source::default()
            },
            Target {
                address: Some(name.clone()),
                ..Target::default()
            },
        );
        answers.snd_settle_mode = SenderSettleMode::Settled;
        answers.rcv_settle_mode = ReceiverSettleMode::First;
        answers.credit = CreditMode::Window(ANSWER_WINDOW);
        let session = seat.session();
        let (sender, receiver) = futures_util::future::try_join(
            session.attach_sender(name.clone(), requests, limit),
            session.attach_receiver(name.clone(), answers, limit),
        )
        .await?;
        let waiters = Arc::new(Waiters::default());
        let reader = tokio::spawn(read_answers(receiver.clone(), Arc::clone(&waiters)));
        Ok(Self {
            sender,
            receiver,
            reply_to: name,
            waiters,
            pending: Semaphore::new(MAX_PENDING),
            reader: reader.abort_handle(),
            _seat: seat,
        })
    }

    /// Sends a request, unless the client is closed before, and waits for its answer until the deadline.
    pub(crate) async fn call(
        &self,
        request: &Request,
        context: Context,
        deadline: Option<Instant>,
        closing: &Closing,
    ) -> Result<Answer, Failure> {
        let given_up = async {
            tokio::select! {
                biased;
                () = closing.closed() => closed(),
                () = sleep_until(deadline) => timeout(),
            }
        };
        let mut given_up = std::pin::pin!(given_up);
        let _permit = tokio::select! {
            permit = self.pending.acquire() => permit,
            error = &mut given_up => return Err(Failure::known(error)),
        };
        let (waiter, mut answer) = self.waiters.enter();
        if self.receiver.error().is_some() {
            // The reader of the answers may have left before this one entered.
            return Err(Failure::known(self.ended()));
        }
        let message = request.message(&Envelope {
            message_id: MessageId::String(waiter.number.to_string().into()),
            reply_to: self.reply_to.clone(),
            server_timeout: Some(server_timeout(deadline)),
            tracking_id: None,
            associated_link: context.associated_link,
        });
        let mut payload = BytesMut::new();
        message
            .encode(&mut payload)
            .map_err(|error| Failure::known(crate::message::too_large(error)))?;
        let mut delivery = OutgoingDelivery::new(payload.freeze());
        delivery.state = context.transaction;
        let queued = tokio::select! {
            queued = self.sender.queue(delivery) => queued,
            error = &mut given_up => return Err(Failure::known(error)),
        };
        let mut outcome = queued.map_err(Failure::from)?;
        let mut taken = false;
        loop {
            tokio::select! {
                biased;
                answered = &mut answer => {
                    return match answered {
                        Ok(Ok(answer)) => Ok(answer),
                        Ok(Err(error)) => Err(Failure::unknown(error)),
                        Err(_) => Err(Failure::unknown(self.ended())),
                    };
                }
                state = &mut outcome, if !taken => {
                    let state = state.map_err(Failure::from)?;
                    taken = true;
                    if state.is_some() {
                        read_send_answer(state.as_ref())?;
                    }
                }
                () = sleep_until(deadline) => {
                    let fate = if !taken && outcome.cancel() { Fate::Known } else { Fate::Unknown };
                    return Err(Failure { error: timeout(), fate });
                }
            }
        }
    }

    fn ended(&self) -> Error {
        match self.receiver.error() {
            Some(error) => error.clone().into(),
            None => Error::new(ErrorKind::Communication, "the answers' link has ended"),
        }
    }
}

/// How long the service is told to try: a little less than we wait, so that its answer arrives in time.
fn server_timeout(deadline: Option<Instant>) -> Duration {
    const AHEAD: Duration = Duration::from_secs(1);
    const DEFAULT: Duration = Duration::from_secs(60);
    let left = deadline.map_or(DEFAULT, |_| until(deadline));
    if left > AHEAD * 2 { left - AHEAD } else { left }
}

async fn read_answers(receiver: ReceiverLink, waiters: Arc<Waiters>) {
    while let Ok(delivery) = receiver.recv().await {
        if !delivery.settled {
            // Settled by the peer meanwhile, if it fails.
            let _ = receiver.settle(delivery.delivery, DeliveryState::ACCEPTED);
        }
        match Message::decode(delivery.payload) {
            Ok(message) => waiters.answer(message),
            Err(error) => tracing::warn!(%error, "an answer cannot be decoded"),
        }
    }
    waiters.waiting().clear();
}

impl Waiters {
    fn enter(&self) -> (Waiter<'_>, oneshot::Receiver<Result<Answer>>) {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = oneshot::channel();
        self.waiting().insert(number, sender);
        let waiter = Waiter {
            waiters: self,
            number,
        };
        (waiter, receiver)
    }

    fn answer(&self, message: Message) {
        let id = message
            .properties
            .as_ref()
            .and_then(|properties| properties.correlation_id.as_ref());
        let number = match id {
            Some(MessageId::String(id)) => id.parse().ok(),
            Some(MessageId::Ulong(id)) => Some(*id),
            _ => None,
        };
        let waiter = number.and_then(|number: u64| self.waiting().remove(&number));
        match waiter {
            Some(waiter) => {
                // Its request was given up just now if it fails.
                let _ = waiter.send(Answer::read(message));
            }
            None => tracing::debug!("an answer to a request that nobody waits for"),
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Result<Answer>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits; leaves when it is dropped.
struct Waiter<'a> {
    waiters: &'a Waiters,
    number: u64,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.waiters.waiting().remove(&self.number);
    }
}

impl Mortal for Requests {
    fn is_alive(&self) -> bool {
        self.sender.error().is_none() && self.receiver.error().is_none()
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests")
            .field("reply_to", &self.reply_to)
            .finish_non_exhaustive()
    }
}
