use std::fmt::{self, Write as _};

use servicebus_amqp::types::{AmqpError, ByteString, Map, Symbol, Timestamp, condition as amqp};

use super::{id::Ids, time};
use crate::names::condition;

/// Why the broker refused something: a kind, and the text that clients show and some parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    text: String,
}

/// What went wrong; each kind has one AMQP condition and one status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// `amqp:not-found`, 404
    EntityNotFound,
    /// `com.microsoft:entity-disabled`, 400
    EntityDisabled,
    /// `com.microsoft:entity-already-exists`, 409
    EntityAlreadyExists,
    /// `amqp:not-found`, 404
    RuleNotFound,
    /// `com.microsoft:message-not-found`, 404
    MessageNotFound,
    /// `com.microsoft:message-lock-lost`, 410
    MessageLockLost,
    /// `com.microsoft:session-lock-lost`, 410
    SessionLockLost,
    /// `com.microsoft:session-cannot-be-locked`, 410
    SessionCannotBeLocked,
    /// `com.microsoft:timeout`, 408
    Timeout,
    /// `com.microsoft:server-busy`, 503
    ServerBusy,
    /// `amqp:not-allowed`, 400
    NotAllowed,
    /// `com.microsoft:argument-error`, 400
    InvalidArgument,
    /// `com.microsoft:argument-out-of-range`, 400
    ArgumentOutOfRange,
    /// `amqp:resource-limit-exceeded`, 403
    QuotaExceeded,
    /// `amqp:link:message-size-exceeded`, 403
    MessageSizeExceeded,
    /// `amqp:unauthorized-access`, 401
    Unauthorized,
    /// `amqp:decode-error`, 400: the bytes of a message are no message.
    InvalidMessage,
    /// `amqp:transaction:unknown-id`, 400
    TransactionUnknown,
    /// `amqp:transaction:rollback`, 400
    TransactionRolledBack,
    /// `amqp:resource-deleted`, 404: the entity of a link was deleted.
    EntityDeleted,
    /// `amqp:link:detach-forced`, 500: the link was ended by an update of its entity or by a fault.
    DetachForced,
    /// `amqp:internal-error`, 500
    Internal,
}

impl ErrorKind {
    /// The condition on links and in `errorCondition`.
    pub fn condition(self) -> Symbol {
        match self {
            Self::EntityNotFound | Self::RuleNotFound => amqp::NOT_FOUND,
            Self::EntityDisabled => condition::ENTITY_DISABLED,
            Self::EntityAlreadyExists => condition::ENTITY_ALREADY_EXISTS,
            Self::MessageNotFound => condition::MESSAGE_NOT_FOUND,
            Self::MessageLockLost => condition::MESSAGE_LOCK_LOST,
            Self::SessionLockLost => condition::SESSION_LOCK_LOST,
            Self::SessionCannotBeLocked => condition::SESSION_CANNOT_BE_LOCKED,
            Self::Timeout => condition::TIMEOUT,
            Self::ServerBusy => condition::SERVER_BUSY,
            Self::NotAllowed => amqp::NOT_ALLOWED,
            Self::InvalidArgument => condition::ARGUMENT_ERROR,
            Self::ArgumentOutOfRange => condition::ARGUMENT_OUT_OF_RANGE,
            Self::QuotaExceeded => amqp::RESOURCE_LIMIT_EXCEEDED,
            Self::MessageSizeExceeded => amqp::MESSAGE_SIZE_EXCEEDED,
            Self::Unauthorized => amqp::UNAUTHORIZED_ACCESS,
            Self::InvalidMessage => amqp::DECODE_ERROR,
            Self::TransactionUnknown => amqp::TRANSACTION_UNKNOWN_ID,
            Self::TransactionRolledBack => amqp::TRANSACTION_ROLLBACK,
            Self::EntityDeleted => amqp::RESOURCE_DELETED,
            Self::DetachForced => amqp::DETACH_FORCED,
            Self::Internal => amqp::INTERNAL_ERROR,
        }
    }

    /// The `statusCode` of a management reply.
    pub fn status(self) -> i32 {
        match self {
            Self::EntityNotFound
            | Self::RuleNotFound
            | Self::MessageNotFound
            | Self::EntityDeleted => 404,
            Self::EntityAlreadyExists => 409,
            Self::MessageLockLost | Self::SessionLockLost | Self::SessionCannotBeLocked => 410,
            Self::Timeout => 408,
            Self::ServerBusy => 503,
            Self::QuotaExceeded | Self::MessageSizeExceeded => 403,
            Self::Unauthorized => 401,
            Self::DetachForced | Self::Internal => 500,
            Self::EntityDisabled
            | Self::NotAllowed
            | Self::InvalidArgument
            | Self::ArgumentOutOfRange
            | Self::InvalidMessage
            | Self::TransactionUnknown
            | Self::TransactionRolledBack => 400,
        }
    }
}

impl Error {
    /// An error of this kind with this text.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The condition on links and in `errorCondition`.
    pub fn condition(&self) -> Symbol {
        self.kind.condition()
    }

    /// The `statusCode` of a management reply.
    pub fn status(&self) -> i32 {
        self.kind.status()
    }

    /// The text for `statusDescription` and error descriptions.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The error as a link, session or disposition carries it.
    pub fn to_amqp(&self) -> AmqpError {
        amqp_error(self.condition(), self.text.as_str())
    }

    /// Appends the identification that the service ends its texts with, unless it is there.
    pub(super) fn tracked(mut self, ids: &mut Ids, now: Timestamp, system: &str) -> Self {
        if !self.text.contains("TrackingId:") {
            let id = ids.uuid_for(0);
            let time = time::iso(now);
            // Writing to a string cannot fail.
            let _ = write!(
                self.text,
                " TrackingId:{id}_G0, SystemTracker:{system}, Timestamp:{time}"
            );
        }
        self
    }

    /// No entity at this path. SDKs recognise this sentence.
    pub(crate) fn entity_not_found(namespace: &str, path: &str) -> Self {
        Self::new(
            ErrorKind::EntityNotFound,
            format!(
                "The messaging entity 'sb://{namespace}.servicebus.windows.net/{path}' could not be found. To know more visit \
                 https://aka.ms/sbResourceMgrExceptions."
            ),
        )
    }

    pub(super) fn entity_gone() -> Self {
        Self::new(
            ErrorKind::EntityDeleted,
            "The messaging entity of this link could not be found: it was deleted.",
        )
    }

    pub(crate) fn message_lock_lost() -> Self {
        Self::new(
            ErrorKind::MessageLockLost,
            "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue, \
             or was received by a different receiver instance.",
        )
    }

    pub(super) fn session_lock_lost() -> Self {
        Self::new(
            ErrorKind::SessionLockLost,
            "The session lock has expired on the MessageSession. Accept a new MessageSession.",
        )
    }

    pub(super) fn not_allowed(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotAllowed, text)
    }

    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, text)
    }
}

/// An error with all its fields. Clients in the field read errors by position and stumble over lists that end early.
pub(crate) fn amqp_error(condition: Symbol, description: impl Into<ByteString>) -> AmqpError {
    AmqpError {
        condition,
        description: Some(description.into()),
        info: Some(Map::new()),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.condition(), self.text)
    }
}

impl std::error::Error for Error {}
