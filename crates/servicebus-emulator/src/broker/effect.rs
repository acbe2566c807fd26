#![allow(
    clippy::exhaustive_structs,
    reason = "the gateway reads every field of what happens"
)]

use std::sync::Arc;

use servicebus_amqp::types::{ByteString, Timestamp};

use super::{ConsumerId, EntityId, Error, LockToken, SessionGrant, StoredMessage};

/// Something that the gateway has to do, in this order.
#[derive(Clone, Debug)]
#[allow(
    clippy::exhaustive_enums,
    reason = "the gateway must deal with every effect"
)]
pub enum Effect {
    /// Transfer a message.
    Deliver(Delivery),
    /// Answer the attach of a receiver that waited for a session.
    SessionAccepted {
        /// The link.
        consumer: ConsumerId,
        /// Its session.
        session: SessionGrant,
    },
    /// Refuse the attach of a receiver that waited for a session. The consumer is gone.
    SessionRefused {
        /// The link.
        consumer: ConsumerId,
        /// Why.
        error: Error,
    },
    /// Detach a receiver. The consumer is gone.
    DetachReceiver {
        /// The link.
        consumer: ConsumerId,
        /// Why.
        error: Error,
    },
    /// Detach all senders that were attached to this entity.
    DetachSenders {
        /// The entity, which may be gone.
        entity: EntityId,
        /// Why.
        error: Error,
    },
}

/// A message on its way to a receiver.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The link; `None` in the answer to a request over management.
    pub consumer: Option<ConsumerId>,
    /// The lock; `None` when the message was removed on delivery, to be transferred settled.
    pub token: Option<LockToken>,
    /// The message.
    pub message: StoredMessage,
}

/// Something that happened, for those who write tests. Recorded when [`Broker::record_events`] asks for it.
///
/// [`Broker::record_events`]: super::Broker::record_events
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// The namespace.
    pub namespace: Arc<str>,
    /// The path of the entity.
    pub entity: Arc<str>,
    /// What.
    pub kind: EventKind,
}

/// How a lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SettlementKind {
    /// Completed.
    Completed,
    /// Abandoned.
    Abandoned,
    /// Deferred.
    Deferred,
    /// Dead-lettered by the receiver.
    DeadLettered,
    /// Released.
    Released,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// A message was stored as active.
    Enqueued {
        /// Its number.
        sequence_number: i64,
        /// Its id, when it is text.
        message_id: Option<ByteString>,
    },
    /// A message was stored to become active later.
    Scheduled {
        /// Its number.
        sequence_number: i64,
    },
    /// A message was dropped as a duplicate.
    DuplicateDropped {
        /// Its id, when it is text.
        message_id: Option<ByteString>,
    },
    /// A scheduled message was cancelled.
    Cancelled {
        /// Its number.
        sequence_number: i64,
    },
    /// A message was locked and delivered.
    Locked {
        /// Its number.
        sequence_number: i64,
        /// The lock.
        token: LockToken,
    },
    /// A message was delivered and removed.
    ReceivedAndDeleted {
        /// Its number.
        sequence_number: i64,
    },
    /// A message was settled.
    Settled {
        /// Its number.
        sequence_number: i64,
        /// How.
        settlement: SettlementKind,
    },
    /// The lock on a message ran out.
    LockExpired {
        /// Its number.
        sequence_number: i64,
    },
    /// A message expired.
    Expired {
        /// Its number.
        sequence_number: i64,
    },
    /// A message was moved to the dead-letter queue, which gives it this reason.
    DeadLettered {
        /// Its number, in the entity it came from.
        sequence_number: i64,
        /// Why.
        reason: Option<ByteString>,
    },
    /// A message was passed on to another entity.
    Forwarded {
        /// The path of that entity.
        to: Arc<str>,
    },
    /// A session was accepted.
    SessionAccepted {
        /// The session.
        session: ByteString,
    },
    /// A session was given back.
    SessionReleased {
        /// The session.
        session: ByteString,
    },
    /// The lock on a session ran out.
    SessionExpired {
        /// The session.
        session: ByteString,
    },
    /// A transaction was committed; its entity is the first that it touched.
    Committed,
    /// A transaction was rolled back; its entity is the first that it touched.
    RolledBack,
    /// The entity was created.
    Created,
    /// The entity was deleted.
    Deleted,
}
