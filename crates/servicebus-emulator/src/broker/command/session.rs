//! Sessions, beyond their being accepted.

use bytes::Bytes;
use servicebus_amqp::types::{ByteString, Timestamp};

use crate::broker::EntityId;

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
