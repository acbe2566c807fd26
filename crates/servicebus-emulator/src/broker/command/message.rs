//! Messages, from sending to settling.

use bytes::Bytes;
use servicebus_amqp::types::{ByteString, Map, Timestamp};

use crate::broker::{EntityId, LockToken, ReceiveMode, TransactionId};

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
