//! Links: senders, and receivers with their credit.

use std::time::Duration;

use servicebus_amqp::types::{ByteString, Timestamp};

use crate::broker::{ConsumerId, EntityId};

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
    /// No session is free: the answer is an effect, [`SessionAccepted`](crate::broker::Effect::SessionAccepted) or
    /// [`SessionRefused`](crate::broker::Effect::SessionRefused). Detach the consumer to stop waiting.
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
