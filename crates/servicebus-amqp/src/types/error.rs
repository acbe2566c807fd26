use std::fmt;

use bytestring::ByteString;

use super::{Map, Symbol};

/// An error as a peer states it (AMQP 1.0 §2.8.14).
#[derive(Clone, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the fields"
)]
pub struct AmqpError {
    /// What is wrong, by name.
    pub condition: Symbol,
    /// Words for a person.
    pub description: Option<ByteString>,
    /// More about the error, by key.
    pub info: Option<Map>,
}

impl AmqpError {
    /// An error of this condition with a description.
    pub fn new(condition: impl Into<Symbol>, description: impl Into<ByteString>) -> Self {
        Self {
            condition: condition.into(),
            description: Some(description.into()),
            info: None,
        }
    }
}

impl From<Symbol> for AmqpError {
    /// An error of this condition without a description.
    fn from(condition: Symbol) -> Self {
        Self {
            condition,
            description: None,
            info: None,
        }
    }
}

impl fmt::Display for AmqpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.condition.as_str())?;
        match &self.description {
            Some(description) if !description.is_empty() => write!(f, ": {description}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for AmqpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmqpError")
            .field("condition", &self.condition)
            .field("description", &self.description)
            .field("info", &self.info)
            .finish()
    }
}

/// The error conditions of the specification (AMQP 1.0 §2.8.15–2.8.18, §4.5.8).
pub mod condition {
    use super::Symbol;

    macro_rules! conditions {
        ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
            $($(#[$doc])* pub const $name: Symbol = Symbol::from_static($text);)*
        };
    }

    conditions! {
        /// An internal error; the peer may have to intervene.
        INTERNAL_ERROR = "amqp:internal-error";
        /// No such node.
        NOT_FOUND = "amqp:not-found";
        /// Access denied.
        UNAUTHORIZED_ACCESS = "amqp:unauthorized-access";
        /// Data could not be decoded.
        DECODE_ERROR = "amqp:decode-error";
        /// A resource limit of the peer was exceeded.
        RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded";
        /// The operation is not allowed.
        NOT_ALLOWED = "amqp:not-allowed";
        /// A field is invalid.
        INVALID_FIELD = "amqp:invalid-field";
        /// The operation is not implemented.
        NOT_IMPLEMENTED = "amqp:not-implemented";
        /// The resource is in use.
        RESOURCE_LOCKED = "amqp:resource-locked";
        /// A precondition failed.
        PRECONDITION_FAILED = "amqp:precondition-failed";
        /// The resource has been deleted.
        RESOURCE_DELETED = "amqp:resource-deleted";
        /// The peer's state does not permit the operation.
        ILLEGAL_STATE = "amqp:illegal-state";
        /// The frame size is too small for the performative.
        FRAME_SIZE_TOO_SMALL = "amqp:frame-size-too-small";
        /// The connection was closed by an operator or by policy.
        CONNECTION_FORCED = "amqp:connection:forced";
        /// A frame is malformed.
        FRAMING_ERROR = "amqp:connection:framing-error";
        /// Another address is to be used.
        CONNECTION_REDIRECT = "amqp:connection:redirect";
        /// The peer violated the session window.
        WINDOW_VIOLATION = "amqp:session:window-violation";
        /// Input arrived for a link that was detached with an error.
        ERRANT_LINK = "amqp:session:errant-link";
        /// An attach used a handle that is taken.
        HANDLE_IN_USE = "amqp:session:handle-in-use";
        /// A frame named a handle without a link.
        UNATTACHED_HANDLE = "amqp:session:unattached-handle";
        /// The link was detached by an operator or by policy.
        DETACH_FORCED = "amqp:link:detach-forced";
        /// The peer sent more deliveries than it had credit for.
        TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded";
        /// A message is larger than the link allows.
        MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded";
        /// Another address is to be used for the link.
        LINK_REDIRECT = "amqp:link:redirect";
        /// The link was attached elsewhere.
        STOLEN = "amqp:link:stolen";
        /// The transaction is not known.
        TRANSACTION_UNKNOWN_ID = "amqp:transaction:unknown-id";
        /// The transaction was rolled back.
        TRANSACTION_ROLLBACK = "amqp:transaction:rollback";
        /// The transaction took too long.
        TRANSACTION_TIMEOUT = "amqp:transaction:timeout";
    }
}
