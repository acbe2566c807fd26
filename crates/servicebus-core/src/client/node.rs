use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytestring::ByteString;
use servicebus_amqp::types::DeliveryState;

use super::Shared;
use super::cell::{Cell, Mortal};
use super::clock::{now, wall};
use super::failure::{Failure, Fate, uncertain, within};
use super::grant::Grant;
use super::live::Live;
use super::operation::Operation;
use super::requests::{Context, Requests};
use super::transaction::other_connection;
use crate::entity::Address;
use crate::error::{Error, ErrorKind, Result};
use crate::management::{self, Effect};
use crate::renewal::LockClock;
use crate::retry::HoldOff;

/// What all users of one entity share: its management node, its authorisation, and what was learnt
/// about it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) shared: Arc<Shared>,
    /// Which of the client's connections.
    pub(crate) slot: usize,
    pub(crate) address: Address,
    /// What is wrong with the name, or with its use; said by each operation.
    problem: Option<Problem>,
    audience: String,
    requests: Cell<Management>,
    hold_off: Mutex<HoldOff>,
    /// Whether it is worth to look at the hold-off.
    was_busy: AtomicBool,
    clock: Mutex<Clock>,
}

/// What the ends of locks are read with.
#[derive(Debug, Default)]
struct Clock {
    locks: LockClock,
    /// When messages arrived, last: by the monotonic clock and by the other one. Many arrive at once.
    arrival: Option<(Instant, SystemTime)>,
}

/// An error that can be said many times.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    kind: ErrorKind,
    text: String,
}

/// The links to `$management`, and what they stand on.
#[derive(Debug)]
struct Management {
    requests: Requests,
    generation: u64,
    _grant: Arc<Grant>,
}

impl Node {
    pub(crate) fn new(
        shared: Arc<Shared>,
        slot: usize,
        address: Address,
        problem: Option<Problem>,
    ) -> Self {
        Self {
            problem,
            audience: shared.endpoint.audience(address.as_str()),
            shared,
            slot,
            address,
            requests: Cell::default(),
            hold_off: Mutex::default(),
            was_busy: AtomicBool::new(false),
            clock: Mutex::default(),
        }
    }

    /// Whether the entity can be used at all.
    pub(crate) fn check(&self) -> Result<()> {
        self.shared.closing.check()?;
        match &self.problem {
            Some(problem) => Err(self.about(Error::new(problem.kind, problem.text.clone()))),
            None => Ok(()),
        }
    }

    /// The connection, with a token for the entity.
    pub(crate) async fn authorised(&self) -> Result<(Arc<Live>, Arc<Grant>)> {
        let live = self.shared.live(self.slot).await?;
        let grant = live.grant(&self.audience);
        grant
            .accept(&self.shared, &live, self.try_timeout())
            .await?;
        Ok((live, grant))
    }

    /// How long each step on the way to a link may take.
    pub(crate) fn try_timeout(&self) -> Duration {
        self.shared.options.retry.try_timeout
    }

    /// The token was refused: the next attempt puts a new one.
    pub(crate) fn forget_grant(&self) {
        if let Some(live) = self.shared.living(self.slot) {
            live.forget_grant(&self.audience);
        }
        self.requests.take();
    }

    /// Asks the management node, as often as the retry options say and the request allows.
    pub(crate) async fn call<O: management::Operation>(
        self: &Arc<Self>,
        operation: &O,
        associated_link: Option<ByteString>,
    ) -> Result<O::Output> {
        let mut attempts = Operation::new(self, O::NAME);
        let mut fate = Fate::Known;
        loop {
            let deadline = attempts.begin().await?;
            let context = Context {
                associated_link: associated_link.clone(),
                transaction: None,
            };
            let failure = match self.call_once(operation, context, deadline).await {
                Ok(output) => return Ok(output),
                Err(failure) => failure,
            };
            if failure.fate == Fate::Unknown {
                match operation.effect() {
                    Effect::None => {}
                    Effect::Lasting => fate = Fate::Unknown,
                    Effect::Once => return Err(uncertain(self.about(failure.error))),
                }
            }
            attempts
                .failed(failure.error)
                .await
                .map_err(|error| match fate {
                    Fate::Known => error,
                    Fate::Unknown => uncertain(error),
                })?;
        }
    }

    /// Asks the management node once.
    pub(crate) async fn call_once<O: management::Operation>(
        self: &Arc<Self>,
        operation: &O,
        context: Context,
        deadline: Option<Instant>,
    ) -> Result<O::Output, Failure> {
        let closing = &self.shared.closing;
        let management = closing.unless_closed(self.management(deadline)).await?;
        let _flight = self.shared.in_flight.enter();
        let request = operation.request();
        let call = management
            .requests
            .call(&request, context, deadline, closing);
        let answer = Box::pin(call).await?;
        Ok(operation.read(answer)?)
    }

    /// Asks the management node within a transaction: once, on the connection of the transaction.
    pub(crate) async fn call_enlisted<O: management::Operation>(
        self: &Arc<Self>,
        operation: &O,
        generation: u64,
        transaction: DeliveryState,
    ) -> Result<O::Output> {
        let deadline = now().checked_add(self.try_timeout());
        if self.management(deadline).await?.generation != generation {
            return Err(other_connection(self));
        }
        let context = Context {
            associated_link: None,
            transaction: Some(transaction),
        };
        self.call_once(operation, context, deadline)
            .await
            .map_err(|failure| self.about(failure.error))
    }

    async fn management(self: &Arc<Self>, deadline: Option<Instant>) -> Result<Arc<Management>> {
        self.check()?;
        let this = Arc::clone(self);
        let make = || async move {
            let (live, grant) = this.authorised().await?;
            let limit = this.try_timeout();
            let address = this.address.management().to_byte_string();
            Ok(Management {
                requests: Requests::attach(live.seat(limit).await?, address, limit).await?,
                generation: live.generation,
                _grant: grant,
            })
        };
        within(deadline, Box::pin(self.requests.get_or_make(make))).await
    }

    /// The error, naming the entity.
    pub(crate) fn about(&self, error: Error) -> Error {
        if error.entity().is_some() {
            return error;
        }
        error.with_entity(self.address.as_str())
    }

    pub(crate) fn hold_off_remaining(&self) -> Duration {
        if !self.was_busy.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        let hold_off = lock(&self.hold_off);
        let remaining = hold_off.remaining(now());
        if remaining.is_zero() {
            self.was_busy.store(false, Ordering::Release);
        }
        remaining
    }

    pub(crate) fn is_busy(&self, now: Instant) {
        let wait = self.shared.options.retry.busy_wait;
        tracing::warn!(entity = %self.address, ?wait, "the service is busy");
        let mut hold_off = lock(&self.hold_off);
        hold_off.on_busy(now, wait);
        self.was_busy.store(true, Ordering::Release);
    }

    /// When a lock ends that was given at `given`.
    pub(crate) fn lock_end(
        &self,
        enqueued: Option<SystemTime>,
        locked_until: SystemTime,
        given: Instant,
    ) -> Instant {
        let mut clock = lock(&self.clock);
        if let Some(enqueued) = enqueued {
            clock.locks.observe(enqueued, locked_until);
        }
        let then = match clock.arrival {
            Some((arrived, then)) if arrived == given => then,
            _ => {
                let wall = wall();
                let age = now().saturating_duration_since(given);
                let then = wall.checked_sub(age).unwrap_or(wall);
                clock.arrival = Some((given, then));
                then
            }
        };
        given + clock.locks.remaining(locked_until, then)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self {
            kind: error.kind(),
            text: error.to_string(),
        }
    }
}

impl Mortal for Management {
    fn is_alive(&self) -> bool {
        self.requests.is_alive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
