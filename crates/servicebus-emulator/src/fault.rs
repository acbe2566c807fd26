//! Faults as data: what a test orders, in Rust or as JSON.

use serde::{Deserialize, Serialize};
use servicebus_amqp::types::SaslCode;

use crate::broker::{Error, ErrorKind, Operation};

/// Something that goes wrong on order.
///
/// As JSON: `{"fault": "fail", "entity": "orders", "operation": "send", "error": "server-busy", "times": 2}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "fault",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
#[non_exhaustive]
pub enum Fault {
    /// Connections end without a close, as when a machine dies: one, or all of them.
    Drop {
        /// The number of the connection; all without one.
        #[serde(default)]
        connection: Option<u64>,
    },
    /// Connections stay open and nothing comes any more, as when a network swallows packets.
    HalfOpen {
        /// The number of the connection; all without one.
        #[serde(default)]
        connection: Option<u64>,
    },
    /// Connections are closed with an error.
    Close {
        /// The number of the connection; all without one.
        #[serde(default)]
        connection: Option<u64>,
        /// The condition, as `amqp:connection:forced`.
        condition: String,
        /// The text that goes with it.
        #[serde(default)]
        description: String,
    },
    /// The next connections are closed with an error as soon as they are open.
    RefuseOpen {
        /// The condition, as `amqp:connection:forced`.
        condition: String,
        /// The text that goes with it.
        #[serde(default)]
        description: String,
        /// How many of them; 0 takes the fault back.
        times: u32,
    },
    /// The next clients that authenticate are refused, whatever their credentials.
    RefuseSasl {
        /// What they are told.
        code: SaslFailure,
        /// How many of them; 0 takes the fault back.
        times: u32,
    },
    /// Connections are written to in pieces of this many bytes, those that exist and those to come. 0 ends the fault.
    Chop {
        /// The most bytes of one write.
        bytes: usize,
    },
    /// All links of an entity are detached with an error.
    Detach {
        /// The entity's path.
        entity: String,
        /// The error.
        error: Failure,
    },
    /// The next operations of a kind fail.
    Fail {
        /// The entity's path.
        entity: String,
        /// The kind of operation.
        operation: Operated,
        /// How they fail.
        error: Failure,
        /// How many of them; 0 takes the fault back.
        times: u32,
    },
    /// The next answers of a kind are never given.
    LoseAnswer {
        /// The entity's path.
        entity: String,
        /// To what.
        operation: Answered,
        /// Whether the operation takes effect in spite of it.
        applied: bool,
        /// How many answers.
        times: u32,
    },
    /// The next answers of a kind come late, on the emulator's clock.
    Delay {
        /// The entity's path.
        entity: String,
        /// To what.
        operation: Answered,
        /// By how many milliseconds.
        millis: u64,
        /// How many answers.
        times: u32,
    },
    /// The next answers of a kind are held back until there are so many, and then given in reverse order.
    Reverse {
        /// The entity's path.
        entity: String,
        /// To what.
        operation: Answered,
        /// How many answers; 0 takes the fault back.
        count: u32,
    },
    /// A message is stored once more.
    Duplicate {
        /// The entity's path.
        entity: String,
        /// The message.
        sequence_number: i64,
    },
    /// The lock on a message ends now.
    ExpireLock {
        /// The entity's path.
        entity: String,
        /// The message.
        sequence_number: i64,
    },
    /// A message is moved to the dead-letter queue. If it is locked, the lock is lost.
    DeadLetter {
        /// The entity's path.
        entity: String,
        /// The message.
        sequence_number: i64,
        /// Why, in a word.
        reason: String,
        /// Why, in words.
        #[serde(default)]
        description: String,
    },
    /// The lock on a session ends now.
    ExpireSession {
        /// The entity's path.
        entity: String,
        /// The session.
        session: String,
    },
    /// Somebody else gets the session and holds it for as long as a lock lasts: its receiver loses it, and nobody can accept
    /// it meanwhile.
    StealSession {
        /// The entity's path.
        entity: String,
        /// The session, which need not exist.
        session: String,
    },
}

/// Why SASL fails (AMQP 1.0 §5.3.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SaslFailure {
    /// The credentials are no good.
    Auth,
    /// A system error.
    Sys,
    /// A system error that will last.
    SysPerm,
    /// A system error that may pass.
    SysTemp,
}

/// A kind of operation that a [`Fault::Fail`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Operated {
    /// Attaching a sender or receiver.
    Attach,
    /// Sending, scheduling included.
    Send,
    /// Settling, on a link or over management.
    Settle,
    /// Renewing the lock of a message or session.
    Renew,
    /// Any other request over management.
    Manage,
}

/// What an answer is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Answered {
    /// A message that was sent on a link.
    Send,
    /// A settlement on a link.
    Settle,
    /// A request over management: what is lost or late is the reply.
    Manage,
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Failure {
    /// `com.microsoft:server-busy`
    ServerBusy,
    /// `com.microsoft:timeout`
    Timeout,
    /// `amqp:internal-error`
    InternalError,
    /// `amqp:link:detach-forced`
    DetachForced,
    /// `amqp:unauthorized-access`
    Unauthorized,
    /// `amqp:not-found`
    EntityNotFound,
    /// `com.microsoft:entity-disabled`
    EntityDisabled,
    /// `amqp:resource-limit-exceeded`
    QuotaExceeded,
    /// `com.microsoft:message-lock-lost`
    MessageLockLost,
    /// `com.microsoft:session-lock-lost`
    SessionLockLost,
}

impl Failure {
    /// The error with the text of the service.
    pub(crate) fn error(self) -> Error {
        let (kind, text) = match self {
            Self::ServerBusy => (
                ErrorKind::ServerBusy,
                "The request was terminated because the entity is being throttled. Error code : 50002. Please wait 10 seconds \
                 and try again.",
            ),
            Self::Timeout => (
                ErrorKind::Timeout,
                "The operation did not complete within the allotted time.",
            ),
            Self::InternalError => (
                ErrorKind::Internal,
                "The service was unable to process the request; please retry the operation.",
            ),
            Self::DetachForced => (
                ErrorKind::DetachForced,
                "The link is force detached by the broker because of a fault that was ordered.",
            ),
            Self::Unauthorized => (ErrorKind::Unauthorized, "Unauthorized access."),
            Self::EntityNotFound => (
                ErrorKind::EntityNotFound,
                "The messaging entity of this operation could not be found.",
            ),
            Self::EntityDisabled => (
                ErrorKind::EntityDisabled,
                "The messaging entity is currently disabled.",
            ),
            Self::QuotaExceeded => (
                ErrorKind::QuotaExceeded,
                "The maximum entity size has been reached or exceeded.",
            ),
            Self::MessageLockLost => (
                ErrorKind::MessageLockLost,
                "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the \
                 queue, or was received by a different receiver instance.",
            ),
            Self::SessionLockLost => (
                ErrorKind::SessionLockLost,
                "The session lock has expired on the MessageSession. Accept a new MessageSession.",
            ),
        };
        Error::new(kind, text)
    }
}

impl SaslFailure {
    pub(crate) fn code(self) -> SaslCode {
        match self {
            Self::Auth => SaslCode::Auth,
            Self::Sys => SaslCode::Sys,
            Self::SysPerm => SaslCode::SysPerm,
            Self::SysTemp => SaslCode::SysTemp,
        }
    }
}

impl From<Operated> for Operation {
    fn from(operated: Operated) -> Self {
        match operated {
            Operated::Attach => Self::Attach,
            Operated::Send => Self::Send,
            Operated::Settle => Self::Settle,
            Operated::Renew => Self::Renew,
            Operated::Manage => Self::Manage,
        }
    }
}
