//! What tests order to go wrong.

use servicebus_amqp::types::ByteString;

use crate::broker::{EntityId, Error};

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
