//! The broker: a pure state machine. Commands and time go in, answers and effects come out.
//!
//! ```text
//! apply(now, command) -> Result<answer, Error>      poll_effect() -> deliveries, detaches, accepted sessions
//! handle_timeout(now)                               poll_timeout() -> when to call handle_timeout
//! ```
//!
//! * Every [`Command`] is a plain struct; [`Broker::apply`] runs the timers that are due, carries it out and answers it
//!   at once. What concerns other links comes as an [`Effect`], in order, from [`Broker::poll_effect`].
//! * Time is the `now` of each call, in milliseconds since the Unix epoch. It never goes backwards: an earlier `now`
//!   counts as the latest that was seen.
//! * Entities and receivers are named by ids that are never reused; [`Broker::resolve`] finds the entity of an address.
//! * An [`Error`] has the condition, status code and text that clients expect.
//! * Lock tokens and transaction ids come from a seed, so a run can be repeated.
//!
//! ```
//! use servicebus_amqp::types::Timestamp;
//! use servicebus_emulator::broker::{
//!     AttachReceiver, Attached, Broker, CreateQueue, Effect, Limits, QueueOptions, ReceiveMode, Send, SessionRequest,
//!     SetCredit, Settle, Settlement,
//! };
//!
//! let mut broker = Broker::new(Limits::unlimited(), 42);
//! let now = Timestamp::from_millis(1_700_000_000_000);
//! let entity = broker.apply(now, CreateQueue {
//!     namespace: "test".into(),
//!     name: "orders".into(),
//!     options: QueueOptions::default(),
//! })?;
//! let Attached::Ready { consumer, .. } = broker.apply(now, AttachReceiver {
//!     entity,
//!     mode: ReceiveMode::PeekLock,
//!     session: SessionRequest::None,
//! })? else { unreachable!("only session receivers wait") };
//! broker.apply(now, SetCredit { consumer, credit: 1, drain: false })?;
//! // One data section that holds "hi".
//! let payload = (&[0x00, 0x53, 0x75, 0xa0, 2, b'h', b'i'][..]).into();
//! broker.apply(now, Send { entity, payload, format: 0, transaction: None })?;
//!
//! let Some(Effect::Deliver(delivery)) = broker.poll_effect() else { panic!("no delivery") };
//! assert_eq!(delivery.message.sequence_number(), 1);
//! let token = delivery.token.expect("locked");
//! broker.apply(now, Settle { entity, token, settlement: Settlement::Complete, transaction: None })?;
//! assert_eq!(broker.counts(entity)?.active, 0);
//! # Ok::<(), servicebus_emulator::broker::Error>(())
//! ```

use std::collections::VecDeque;

use servicebus_amqp::types::Timestamp;
use slab::Slab;

mod checks;
mod command;
mod create;
mod dead_letter;
mod deadlines;
mod delete;
mod effect;
mod entity;
mod error;
mod fault;
mod forward;
mod id;
mod lock;
mod log;
mod message;
mod messages;
mod options;
mod peek;
mod receive;
mod registry;
mod rule;
mod schedule;
mod send;
mod session;
mod settle;
mod time;
mod timer;
mod topic;
mod transaction;
mod update;

pub use command::{
    AddRule, AttachReceiver, AttachSender, Attached, BatchDelete, BeginTransaction,
    CancelScheduled, Command, CreateQueue, CreateSubscription, CreateTopic, DeadLetter,
    DeleteEntity, DeleteNamespace, DetachLinks, DetachReceiver, Duplicate, EndTransaction,
    EnumerateRules, ExpireLock, ExpireSession, FailNext, ListSessions, Operation, Peek, Purge,
    ReadSessionState, ReceiveDeferred, ReceiveMode, RemoveRule, RenewLocks, RenewSessionLock,
    Schedule, Send, SenderTerms, SessionGrant, SessionRequest, SetCredit, Settle, Settlement,
    TransactionEnd, UpdateDispositions, UpdateQueue, UpdateSubscription, UpdateTopic,
    WriteSessionState,
};
pub use effect::{Delivery, Effect, Event, EventKind, SettlementKind};
pub(crate) use error::amqp_error;
pub use error::{Error, ErrorKind};
pub use id::{ConsumerId, EntityId, LockToken, TransactionId};
pub use message::{MessageState, StoredMessage};
pub use options::{
    ForwardFailure, Limits, QueueOptions, Status, SubscriptionOptions, TopicOptions,
};
pub use peek::{Counts, MessageSnapshot, ReceiverSnapshot, SessionSnapshot, Snapshot};
pub use rule::{CorrelationFilter, Filter, Rule};

use entity::Entity;
use registry::{Consumers, Entities};
use timer::{Timer, Timers};

/// A Service Bus: any number of namespaces with their entities.
#[derive(Debug)]
pub struct Broker {
    /// The latest time that was seen.
    now: Timestamp,
    limits: Limits,
    ids: id::Ids,
    entities: Entities,
    consumers: Consumers,
    locks: Slab<lock::Lock>,
    transactions: Slab<transaction::Transaction>,
    timers: Timers,
    faults: Vec<fault::Fault>,
    effects: VecDeque<Effect>,
    /// Present when somebody wants to know.
    events: Option<VecDeque<Event>>,
}

impl Broker {
    /// A broker without entities. The seed determines every lock token and transaction id.
    pub fn new(limits: Limits, seed: u64) -> Self {
        Self {
            now: Timestamp::from_millis(i64::MIN),
            limits,
            ids: id::Ids::new(seed),
            entities: Entities::default(),
            consumers: Consumers::default(),
            locks: Slab::new(),
            transactions: Slab::new(),
            timers: Timers::default(),
            faults: Vec::new(),
            effects: VecDeque::new(),
            events: None,
        }
    }

    /// Carries a command out after the timers that are due. Poll the effects afterwards.
    ///
    /// # Errors
    ///
    /// When the command is refused; nothing has changed then, unless the command says otherwise.
    pub fn apply<C: Command>(&mut self, now: Timestamp, command: C) -> Result<C::Reply, Error> {
        self.handle_timeout(now);
        command
            .apply(self)
            .map_err(|error| error.tracked(&mut self.ids, self.now, "NoSystemTracker"))
    }

    /// Runs all timers that are due, each at its own time and in that order.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        while let Some((at, timer)) = self.timers.pop(now) {
            self.now = self.now.max(at);
            match timer {
                Timer::Activate(entity, number) => self.on_activation(entity, number),
                Timer::Lock(slot) => self.on_lock_timeout(slot),
                Timer::Locks(entity) => self.on_locks_timeout(entity),
                Timer::Session(entity, slot) => self.on_session_timeout(entity, slot),
                Timer::Expire(entity, number) => self.on_expiry(entity, number),
                Timer::Expiries(entity) => self.on_expiries(entity),
                Timer::Accept(consumer) => self.on_accept_timeout(consumer),
                Timer::Transaction(slot) => self.on_transaction_timeout(slot),
                Timer::Idle(entity) => self.on_idle(entity),
            }
        }
        self.now = self.now.max(now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.timers.next()
    }

    /// The next thing that the gateway has to do.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Begins to record events. From then on, [`poll_event`](Self::poll_event) must be called to keep their number
    /// down.
    pub fn record_events(&mut self) {
        self.events.get_or_insert_default();
    }

    /// The next thing that happened, if events are recorded.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.as_mut()?.pop_front()
    }

    /// The limits of every namespace.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    fn entity(&self, id: EntityId) -> Result<&Entity, Error> {
        self.entities.get(id).ok_or_else(Error::entity_gone)
    }

    /// Notes that something is done with an entity.
    fn touch(&mut self, id: EntityId) {
        let now = self.now;
        if let Some(entity) = self.entities.get_mut(id) {
            entity.used_at = now;
        }
    }

    /// Records an event, if events are recorded.
    fn record(&mut self, entity: EntityId, kind: impl FnOnce() -> EventKind) {
        if let Some(events) = &mut self.events
            && let Some(entity) = self.entities.get(entity)
        {
            events.push_back(Event {
                at: self.now,
                namespace: entity.namespace.clone(),
                entity: entity.path.clone(),
                kind: kind(),
            });
        }
    }

    /// Identifies an error as the service does; people and tools search for it.
    fn track(&mut self, id: EntityId, error: Error) -> Error {
        let system = self.entities.get(id).map_or_else(
            || "NoSystemTracker".to_owned(),
            |entity| format!("{}:{}", entity.namespace, entity.path),
        );
        error.tracked(&mut self.ids, self.now, &system)
    }

    /// Identifies an error that is about no entity of the broker.
    pub(crate) fn identify(&mut self, error: Error) -> Error {
        error.tracked(&mut self.ids, self.now, "NoSystemTracker")
    }

    fn disabled(entity: &Entity) -> Error {
        Error::new(
            ErrorKind::EntityDisabled,
            format!("Messaging entity '{}' is currently disabled.", entity.path),
        )
    }
}
