use bytes::Bytes;

use super::{AmqpError, Described, Map};

/// The state of a delivery at one of its ends (AMQP 1.0 §3.4, §4.5.6).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DeliveryState {
    /// A terminal state: what became of the delivery.
    Outcome(Outcome),
    /// How far a resumed delivery got (§3.4.1).
    Received {
        /// The section up to which the receiver has all data.
        section_number: u32,
        /// The number of bytes of that section.
        section_offset: u64,
    },
    /// The state within a transaction (§4.5.6).
    Transactional(Box<TransactionalState>),
    /// A state of a type that this crate does not know, kept as it came.
    Unknown(Box<Described>),
}

/// What became of a delivery (AMQP 1.0 §3.4).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// Processed (§3.4.2).
    Accepted,
    /// Invalid, and why (§3.4.3).
    Rejected(Option<Box<AmqpError>>),
    /// Not processed, and may be sent again (§3.4.4).
    Released,
    /// Not processed, and changed (§3.4.5).
    Modified(Box<Modified>),
    /// A transaction was declared under this id (§4.5.5).
    Declared {
        /// The transaction.
        txn_id: Bytes,
    },
}

/// The fields of the outcome `modified` (AMQP 1.0 §3.4.5).
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct Modified {
    /// Counts as a failed delivery; `None` means false.
    pub delivery_failed: Option<bool>,
    /// Must not be delivered to this link again; `None` means false.
    pub undeliverable_here: Option<bool>,
    /// Annotations to merge into the message.
    pub message_annotations: Option<Map>,
}

/// The state of a delivery in a transaction (AMQP 1.0 §4.5.6).
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct TransactionalState {
    /// The transaction.
    pub txn_id: Bytes,
    /// The outcome that takes effect when the transaction commits.
    pub outcome: Option<Outcome>,
}

impl From<Outcome> for DeliveryState {
    fn from(outcome: Outcome) -> Self {
        Self::Outcome(outcome)
    }
}

impl DeliveryState {
    /// `accepted`
    pub const ACCEPTED: Self = Self::Outcome(Outcome::Accepted);
    /// `released`
    pub const RELEASED: Self = Self::Outcome(Outcome::Released);

    /// The outcome: the state's own, or the provisional one of a transaction.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Outcome(outcome) => Some(outcome),
            Self::Transactional(state) => state.outcome.as_ref(),
            Self::Received { .. } | Self::Unknown(_) => None,
        }
    }
}
