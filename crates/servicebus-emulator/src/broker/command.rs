//! What can be asked of the broker. Each command is data; [`Broker::apply`] carries it out.

#![allow(
    clippy::exhaustive_structs,
    clippy::exhaustive_enums,
    reason = "commands are written as literals; a new field is meant to be noticed by every writer"
)]

use std::time::Duration;

use bytes::Bytes;
use servicebus_amqp::types::{ByteString, Map, Timestamp};

use super::{
    Broker, ConsumerId, Delivery, EntityId, Error, LockToken, QueueOptions, StoredMessage,
    SubscriptionOptions, TopicOptions, TransactionId, rule::Rule,
};

/// A command and what it answers.
pub trait Command {
    /// The answer.
    type Reply;

    /// Carries the command out at the broker's present time.
    #[doc(hidden)]
    fn apply(self, broker: &mut Broker) -> Result<Self::Reply, Error>;
}

macro_rules! commands {
    ($($command:ident => $method:ident -> $reply:ty;)*) => {
        $(impl Command for $command {
            type Reply = $reply;

            fn apply(self, broker: &mut Broker) -> Result<$reply, Error> {
                broker.$method(self)
            }
        })*
    };
}

commands! {
    CreateQueue => create_queue -> EntityId;
    CreateTopic => create_topic -> EntityId;
    CreateSubscription => create_subscription -> EntityId;
    UpdateQueue => update_queue -> ();
    UpdateTopic => update_topic -> ();
    UpdateSubscription => update_subscription -> ();
    DeleteEntity => delete_entity -> ();
    DeleteNamespace => delete_namespace -> ();
    Purge => purge -> u64;
    AddRule => add_rule -> ();
    RemoveRule => remove_rule -> ();
    EnumerateRules => enumerate_rules -> Vec<Rule>;
    AttachSender => attach_sender -> SenderTerms;
    AttachReceiver => attach_receiver -> Attached;
    DetachReceiver => detach_receiver -> ();
    SetCredit => set_credit -> ();
    Send => send -> ();
    Settle => settle -> ();
    UpdateDispositions => update_dispositions -> ();
    RenewLocks => renew_locks -> Vec<Timestamp>;
    ReceiveDeferred => receive_deferred -> Vec<Delivery>;
    Schedule => schedule -> Vec<i64>;
    CancelScheduled => cancel_scheduled -> ();
    Peek => peek -> Vec<StoredMessage>;
    BatchDelete => batch_delete -> u32;
    RenewSessionLock => renew_session_lock -> Timestamp;
    ReadSessionState => read_session_state -> Option<Bytes>;
    WriteSessionState => write_session_state -> ();
    ListSessions => list_sessions -> Vec<ByteString>;
    BeginTransaction => begin_transaction -> TransactionId;
    EndTransaction => end_transaction -> ();
    ExpireLock => expire_lock -> ();
    ExpireSession => expire_session -> ();
    Duplicate => duplicate -> i64;
    DeadLetter => dead_letter_now -> ();
    FailNext => fail_next -> ();
    DetachLinks => detach_links -> ();
}

/// Creates a queue with its two dead-letter queues. The namespace comes into being with its first entity.
#[derive(Clone, Debug)]
pub struct CreateQueue {
    /// The namespace's name.
    pub namespace: String,
    /// The queue's path.
    pub name: String,
    /// Its description.
    pub options: QueueOptions,
}

/// Creates a topic.
#[derive(Clone, Debug)]
pub struct CreateTopic {
    /// The namespace's name.
    pub namespace: String,
    /// The topic's path.
    pub name: String,
    /// Its description.
    pub options: TopicOptions,
}

/// Creates a subscription with its two dead-letter queues.
#[derive(Clone, Debug)]
pub struct CreateSubscription {
    /// The topic.
    pub topic: EntityId,
    /// The subscription's name.
    pub name: String,
    /// Its description.
    pub options: SubscriptionOptions,
    /// Its rules; `None` gives it `$Default`, which takes every message.
    pub rules: Option<Vec<Rule>>,
}

/// Describes a queue anew. Links are detached and locks given back, as by the service.
#[derive(Clone, Debug)]
pub struct UpdateQueue {
    /// The queue.
    pub entity: EntityId,
    /// Its new description.
    pub options: QueueOptions,
}

/// Describes a topic anew.
#[derive(Clone, Debug)]
pub struct UpdateTopic {
    /// The topic.
    pub entity: EntityId,
    /// Its new description.
    pub options: TopicOptions,
}

/// Describes a subscription anew. Links are detached and locks given back, as by the service.
#[derive(Clone, Debug)]
pub struct UpdateSubscription {
    /// The subscription.
    pub entity: EntityId,
    /// Its new description.
    pub options: SubscriptionOptions,
}

/// Deletes a queue, topic or subscription with everything in and under it.
#[derive(Clone, Copy, Debug)]
pub struct DeleteEntity {
    /// The entity.
    pub entity: EntityId,
}

/// Deletes a namespace with all its entities.
#[derive(Clone, Debug)]
pub struct DeleteNamespace {
    /// The namespace's name.
    pub namespace: String,
}

/// Removes all messages of one entity, whatever their state, and all session state. Answers how many messages there
/// were.
#[derive(Clone, Copy, Debug)]
pub struct Purge {
    /// The entity.
    pub entity: EntityId,
}

/// Adds a rule to a subscription.
#[derive(Clone, Debug)]
pub struct AddRule {
    /// The subscription.
    pub subscription: EntityId,
    /// The rule.
    pub rule: Rule,
}

/// Removes a rule of a subscription.
#[derive(Clone, Debug)]
pub struct RemoveRule {
    /// The subscription.
    pub subscription: EntityId,
    /// The rule's name, in any case.
    pub name: String,
}

/// Lists the rules of a subscription in the order in which they were added.
#[derive(Clone, Copy, Debug)]
pub struct EnumerateRules {
    /// The subscription.
    pub subscription: EntityId,
    /// How many to pass over.
    pub skip: usize,
    /// How many to answer at most.
    pub top: usize,
}

/// Asks whether a sending link may be attached to an entity, and under which terms. The broker keeps no record of
/// senders.
#[derive(Clone, Copy, Debug)]
pub struct AttachSender {
    /// The entity.
    pub entity: EntityId,
}

/// What a sender has to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderTerms {
    /// The largest message in bytes; `None` means no limit.
    pub max_message_size: Option<u64>,
    /// The largest batch in bytes; `None` means no limit.
    pub max_batch_size: Option<u64>,
}

/// What becomes of a message when it is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReceiveMode {
    /// It is locked, and settled later.
    PeekLock,
    /// It is removed.
    ReceiveAndDelete,
}

/// Which session a receiver asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionRequest {
    /// None: the receiver is not for sessions.
    None,
    /// This one.
    Named(ByteString),
    /// Any session that is free and has a message.
    Next {
        /// How long to wait for one; `None` means the limit of the profile.
        wait: Option<Duration>,
    },
}

/// Attaches a receiving link.
#[derive(Clone, Debug)]
pub struct AttachReceiver {
    /// The entity.
    pub entity: EntityId,
    /// What becomes of delivered messages.
    pub mode: ReceiveMode,
    /// The session that the receiver asks for.
    pub session: SessionRequest,
}

/// A session that a receiver holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionGrant {
    /// The session.
    pub id: ByteString,
    /// When its lock ends unless it is renewed.
    pub locked_until: Timestamp,
}

/// How a receiver was attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attached {
    /// The attach is to be answered now.
    Ready {
        /// The link.
        consumer: ConsumerId,
        /// Its session, if it asked for one.
        session: Option<SessionGrant>,
    },
    /// No session is free: the answer is an effect, [`SessionAccepted`](super::Effect::SessionAccepted) or
    /// [`SessionRefused`](super::Effect::SessionRefused). Detach the consumer to stop waiting.
    Waiting {
        /// The link.
        consumer: ConsumerId,
    },
}

/// Removes a receiving link. A session is given back with its messages; other locks stay until they run out. Unknown
/// consumers are ignored.
#[derive(Clone, Copy, Debug)]
pub struct DetachReceiver {
    /// The link.
    pub consumer: ConsumerId,
}

/// Sets how many messages a receiver takes from now on.
#[derive(Clone, Copy, Debug)]
pub struct SetCredit {
    /// The link.
    pub consumer: ConsumerId,
    /// The credit that is open at this moment: what the flow grants less what was delivered since.
    pub credit: u32,
    /// Delivers what is there and sets the rest of the credit to zero.
    pub drain: bool,
}

/// Stores a message, or all messages of a batch or none.
#[derive(Clone, Debug)]
pub struct Send {
    /// A queue or topic.
    pub entity: EntityId,
    /// The encoded sections.
    pub payload: Bytes,
    /// The transfer's message-format: 0 or that of a batch.
    pub format: u32,
    /// The transaction at whose commit the messages appear.
    pub transaction: Option<TransactionId>,
}

/// What a receiver makes of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Settlement {
    /// Done: removed.
    Complete,
    /// Given back, counted as a failed delivery.
    Abandon {
        /// Application properties to set.
        properties: Map,
    },
    /// Put aside; from now on only received by sequence number. Counted as a failed delivery.
    Defer {
        /// Application properties to set.
        properties: Map,
    },
    /// Moved to the dead-letter queue.
    DeadLetter {
        /// Why, in a word.
        reason: Option<ByteString>,
        /// Why, in words.
        description: Option<ByteString>,
        /// Application properties to set.
        properties: Map,
    },
    /// Given back, not counted.
    Release,
}

/// Settles a message that is locked.
#[derive(Clone, Debug)]
pub struct Settle {
    /// The entity that it was received from.
    pub entity: EntityId,
    /// The lock.
    pub token: LockToken,
    /// The outcome.
    pub settlement: Settlement,
    /// The transaction at whose commit the outcome takes effect.
    pub transaction: Option<TransactionId>,
}

/// Settles messages over management: all, or none when a lock is lost.
#[derive(Clone, Debug)]
pub struct UpdateDispositions {
    /// The entity that they were received from.
    pub entity: EntityId,
    /// The locks.
    pub tokens: Vec<LockToken>,
    /// The outcome of each.
    pub settlement: Settlement,
    /// The transaction at whose commit the outcomes take effect.
    pub transaction: Option<TransactionId>,
}

/// Renews locks, all or none. Answers when each ends.
#[derive(Clone, Debug)]
pub struct RenewLocks {
    /// The entity.
    pub entity: EntityId,
    /// The locks.
    pub tokens: Vec<LockToken>,
}

/// Receives deferred messages by sequence number, all or none. The deliveries have no consumer.
#[derive(Clone, Debug)]
pub struct ReceiveDeferred {
    /// The entity.
    pub entity: EntityId,
    /// The messages.
    pub sequence_numbers: Vec<i64>,
    /// What becomes of them.
    pub mode: ReceiveMode,
    /// The session that they belong to; it must be held by a receiver.
    pub session: Option<ByteString>,
}

/// Stores messages that become active at the time in their annotation. Answers the numbers by which to cancel.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// A queue or topic.
    pub entity: EntityId,
    /// The encoded messages.
    pub messages: Vec<Bytes>,
    /// The transaction at whose commit the messages appear. Their numbers are given at once.
    pub transaction: Option<TransactionId>,
}

/// Removes messages that are not active yet, all or none.
#[derive(Clone, Debug)]
pub struct CancelScheduled {
    /// A queue or topic.
    pub entity: EntityId,
    /// The numbers that scheduling answered.
    pub sequence_numbers: Vec<i64>,
}

/// Looks at messages in the order of their numbers, whatever their state.
#[derive(Clone, Debug)]
pub struct Peek {
    /// The entity.
    pub entity: EntityId,
    /// The least number.
    pub from: i64,
    /// How many to answer at most. Also bounded by the limits.
    pub count: usize,
    /// Only this session.
    pub session: Option<ByteString>,
}

/// Removes the oldest active messages that are not locked. Answers how many there were.
#[derive(Clone, Debug)]
pub struct BatchDelete {
    /// The entity.
    pub entity: EntityId,
    /// How many to remove at most.
    pub count: u32,
    /// Only those stored before this time; `None` means now.
    pub before: Option<Timestamp>,
    /// Only this session.
    pub session: Option<ByteString>,
}

/// Renews the lock of a session. Answers when it ends.
#[derive(Clone, Debug)]
pub struct RenewSessionLock {
    /// The entity.
    pub entity: EntityId,
    /// The session.
    pub session: ByteString,
}

/// Reads the state of a session.
#[derive(Clone, Debug)]
pub struct ReadSessionState {
    /// The entity.
    pub entity: EntityId,
    /// The session, which must be held by a receiver.
    pub session: ByteString,
}

/// Sets or clears the state of a session.
#[derive(Clone, Debug)]
pub struct WriteSessionState {
    /// The entity.
    pub entity: EntityId,
    /// The session, which must be held by a receiver.
    pub session: ByteString,
    /// The state; `None` clears it.
    pub state: Option<Bytes>,
}

/// Lists sessions in the order of their ids.
#[derive(Clone, Copy, Debug)]
pub struct ListSessions {
    /// The entity.
    pub entity: EntityId,
    /// Sessions whose state was set after this time; `None` means those with messages or state.
    pub updated_after: Option<Timestamp>,
    /// How many to pass over.
    pub skip: usize,
    /// How many to answer at most.
    pub top: usize,
}

/// Opens a transaction.
#[derive(Clone, Copy, Debug)]
pub struct BeginTransaction;

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionEnd {
    /// Everything in it takes effect.
    Commit,
    /// Nothing in it takes effect; messages stay locked.
    Rollback,
}

/// Ends a transaction.
#[derive(Clone, Copy, Debug)]
pub struct EndTransaction {
    /// The transaction.
    pub transaction: TransactionId,
    /// How it ends.
    pub end: TransactionEnd,
}

/// Fault: ends the lock on a message as if its time had run out.
#[derive(Clone, Copy, Debug)]
pub struct ExpireLock {
    /// The entity.
    pub entity: EntityId,
    /// The message.
    pub sequence_number: i64,
}

/// Fault: ends the lock on a session as if its time had run out.
#[derive(Clone, Debug)]
pub struct ExpireSession {
    /// The entity.
    pub entity: EntityId,
    /// The session.
    pub session: ByteString,
}

/// Fault: stores a second copy of a message, as a sender does that repeats after a lost answer. Answers its number.
#[derive(Clone, Copy, Debug)]
pub struct Duplicate {
    /// The entity.
    pub entity: EntityId,
    /// The message.
    pub sequence_number: i64,
}

/// Fault: moves a message to the dead-letter queue. If it is locked, the lock is lost.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// The entity.
    pub entity: EntityId,
    /// The message.
    pub sequence_number: i64,
    /// Why, in a word.
    pub reason: ByteString,
    /// Why, in words.
    pub description: ByteString,
}

/// A kind of operation that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Attaching a sender or receiver.
    Attach,
    /// Sending, scheduling included.
    Send,
    /// Settling, on the link or over management.
    Settle,
    /// Renewing the lock of a message or session.
    Renew,
    /// Every other request over management.
    Manage,
}

/// Fault: the next operations of one kind on an entity fail, for example as throttled.
#[derive(Clone, Debug)]
pub struct FailNext {
    /// The entity.
    pub entity: EntityId,
    /// The kind of operation.
    pub operation: Operation,
    /// How many of them fail; 0 takes the fault back.
    pub times: u32,
    /// How they fail.
    pub error: Error,
}

/// Fault: detaches all receivers of an entity, and asks for its senders to be detached.
#[derive(Clone, Debug)]
pub struct DetachLinks {
    /// The entity.
    pub entity: EntityId,
    /// What the peers are told.
    pub error: Error,
}
