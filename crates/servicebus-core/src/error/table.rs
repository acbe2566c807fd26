//! One table from a condition or a status to a kind and a way back.

use super::ErrorKind;
use crate::names::condition as sb;

/// What has to be renewed before an operation that failed may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recovery {
    /// Nothing helps: the same request fails again.
    None,
    /// Nothing; wait and try again where it was tried.
    Retry,
    /// Nothing; but wait as long as a throttled client has to.
    Busy,
    /// The token: authorise again, once.
    Token,
    /// The link.
    Link,
    /// The connection.
    Connection,
}

impl Recovery {
    /// Whether time alone may turn the failure into success. A refused token is not of this sort: it is renewed
    /// once, and the second refusal is final.
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Retry | Self::Busy | Self::Link | Self::Connection
        )
    }
}

use ErrorKind as K;
use Recovery as R;

/// What a condition means. A condition that is not in the table may be something new that passes: it is retried.
pub(super) fn meaning_of_condition(condition: &str) -> (ErrorKind, Recovery) {
    known(condition).unwrap_or((K::Other, R::Link))
}

/// What an answer means: by its condition where that is known, else by its status.
pub(super) fn meaning_of_answer(status: i32, condition: Option<&str>) -> (ErrorKind, Recovery) {
    condition
        .and_then(known)
        .unwrap_or_else(|| meaning_of_status(status))
}

/// The way back from a failure that the client found itself.
pub(super) const fn recovery_of_kind(kind: ErrorKind) -> Recovery {
    match kind {
        K::ServiceBusy => R::Busy,
        K::Timeout => R::Retry,
        K::Communication => R::Link,
        K::Unauthorized => R::Token,
        _ => R::None,
    }
}

const fn meaning_of_status(status: i32) -> (ErrorKind, Recovery) {
    match status {
        400 => (K::InvalidArgument, R::None),
        401 => (K::Unauthorized, R::Token),
        403 => (K::QuotaExceeded, R::None),
        404 => (K::EntityNotFound, R::None),
        408 => (K::Timeout, R::Retry),
        409 => (K::EntityAlreadyExists, R::None),
        501 => (K::Unsupported, R::None),
        503 => (K::ServiceBusy, R::Busy),
        // 410 alone says that something is gone, not what; the operation knows.
        500..=599 => (K::Other, R::Retry),
        _ => (K::Other, R::None),
    }
}

macro_rules! table {
    ($($condition:expr => $kind:ident, $recovery:ident;)*) => {
        const TABLE: &[(&str, ErrorKind, Recovery)] = &[$(($condition, K::$kind, R::$recovery)),*];
    };
}

table! {
    sb::TIMEOUT => Timeout, Retry;
    sb::SERVER_BUSY => ServiceBusy, Busy;
    sb::MESSAGE_LOCK_LOST => MessageLockLost, None;
    sb::SESSION_LOCK_LOST => SessionLockLost, None;
    sb::SESSION_CANNOT_BE_LOCKED => SessionCannotBeLocked, None;
    sb::STORE_LOCK_LOST => MessageLockLost, None;
    sb::PARTITION_NOT_OWNED => Communication, Link;
    sb::MESSAGE_NOT_FOUND => MessageNotFound, None;
    sb::SESSION_NOT_FOUND => Other, None;
    sb::ENTITY_NOT_FOUND => EntityNotFound, None;
    sb::ENTITY_DISABLED => EntityDisabled, None;
    sb::ENTITY_ALREADY_EXISTS => EntityAlreadyExists, None;
    sb::NO_MATCHING_SUBSCRIPTION => Other, None;
    sb::ARGUMENT_ERROR => InvalidArgument, None;
    sb::ARGUMENT_OUT_OF_RANGE => InvalidArgument, None;
    sb::AUTH_FAILED => Unauthorized, Token;
    sb::PUBLISHER_REVOKED => Unauthorized, None;
    sb::OPERATION_CANCELLED => Communication, Retry;
    sb::ADDRESS_ALREADY_IN_USE => Other, None;
    sb::RELAY_NOT_FOUND => Other, None;
    sb::DEAD_LETTER => Protocol, None;

    "amqp:not-found" => EntityNotFound, None;
    "amqp:unauthorized-access" => Unauthorized, Token;
    "amqp:not-allowed" => InvalidOperation, None;
    "amqp:not-implemented" => Unsupported, None;
    "amqp:resource-limit-exceeded" => QuotaExceeded, None;
    "amqp:resource-locked" => Other, None;
    "amqp:resource-deleted" => EntityNotFound, None;
    "amqp:precondition-failed" => Other, None;
    "amqp:invalid-field" => InvalidArgument, None;
    "amqp:illegal-state" => Other, None;
    "amqp:decode-error" => Protocol, None;
    "amqp:frame-size-too-small" => Protocol, None;
    "amqp:internal-error" => Other, Retry;

    "amqp:link:message-size-exceeded" => MessageTooLarge, None;
    "amqp:link:transfer-limit-exceeded" => Communication, Link;
    "amqp:link:detach-forced" => Communication, Link;
    "amqp:link:stolen" => Communication, None;
    "amqp:link:redirect" => Communication, None;

    "amqp:connection:forced" => Communication, Connection;
    "amqp:connection:framing-error" => Communication, Connection;
    "amqp:connection:redirect" => Communication, None;
    "amqp:session:window-violation" => Communication, Connection;
    "amqp:session:errant-link" => Communication, Connection;
    "amqp:session:handle-in-use" => Communication, Connection;
    "amqp:session:unattached-handle" => Communication, Connection;

    "amqp:transaction:unknown-id" => Transaction, None;
    "amqp:transaction:rollback" => Transaction, None;
    "amqp:transaction:timeout" => Transaction, None;
}

fn known(condition: &str) -> Option<(ErrorKind, Recovery)> {
    TABLE
        .iter()
        .find(|(name, ..)| *name == condition)
        .map(|&(_, kind, recovery)| (kind, recovery))
}

#[cfg(test)]
mod tests {
    use servicebus_amqp::types::{Symbol, condition as amqp};

    use super::super::Error;
    use super::*;

    fn row(status: i32, condition: &str) -> (ErrorKind, bool) {
        let symbol = (!condition.is_empty()).then(|| Symbol::from(condition));
        let error = Error::from_status(status, symbol.as_ref(), None);
        assert_eq!(error.status(), Some(status));
        assert_eq!(error.condition(), symbol.as_ref().map(Symbol::as_str));
        (error.kind(), error.is_transient())
    }

    /// Status codes and conditions of the management node, row by row.
    #[test]
    fn b70_status_and_condition_give_kind_and_transience() {
        let rows = [
            (
                400,
                "com.microsoft:argument-error",
                K::InvalidArgument,
                false,
            ),
            (400, "", K::InvalidArgument, false),
            (
                400,
                "com.microsoft:entity-disabled",
                K::EntityDisabled,
                false,
            ),
            (401, "", K::Unauthorized, false),
            (
                403,
                "amqp:link:message-size-exceeded",
                K::MessageTooLarge,
                false,
            ),
            (403, "", K::QuotaExceeded, false),
            (
                404,
                "com.microsoft:message-not-found",
                K::MessageNotFound,
                false,
            ),
            (404, "", K::EntityNotFound, false),
            (408, "", K::Timeout, true),
            (500, "com.microsoft:timeout", K::Timeout, true),
            (
                409,
                "com.microsoft:entity-already-exists",
                K::EntityAlreadyExists,
                false,
            ),
            (409, "", K::EntityAlreadyExists, false),
            (
                410,
                "com.microsoft:message-lock-lost",
                K::MessageLockLost,
                false,
            ),
            (
                410,
                "com.microsoft:session-lock-lost",
                K::SessionLockLost,
                false,
            ),
            (
                410,
                "com.microsoft:session-cannot-be-locked",
                K::SessionCannotBeLocked,
                false,
            ),
            (410, "", K::Other, false),
            (500, "", K::Other, true),
            (501, "", K::Unsupported, false),
            (503, "", K::ServiceBusy, true),
            (500, "com.microsoft:server-busy", K::ServiceBusy, true),
            (599, "", K::Other, true),
            (499, "com.example:new", K::Other, false),
        ];
        for (status, condition, kind, transient) in rows {
            assert_eq!(
                row(status, condition),
                (kind, transient),
                "{status} {condition}"
            );
        }
    }

    /// What is retried and what is not, by the condition of a detach or a rejection.
    #[test]
    fn b103_what_must_not_be_retried() {
        let rows = [
            ("amqp:not-found", K::EntityNotFound, R::None),
            ("amqp:unauthorized-access", K::Unauthorized, R::Token),
            ("amqp:resource-limit-exceeded", K::QuotaExceeded, R::None),
            (
                "amqp:link:message-size-exceeded",
                K::MessageTooLarge,
                R::None,
            ),
            (
                "com.microsoft:message-lock-lost",
                K::MessageLockLost,
                R::None,
            ),
            ("com.microsoft:entity-disabled", K::EntityDisabled, R::None),
            ("amqp:not-allowed", K::InvalidOperation, R::None),
            ("com.microsoft:argument-error", K::InvalidArgument, R::None),
            ("amqp:internal-error", K::Other, R::Retry),
            ("com.microsoft:timeout", K::Timeout, R::Retry),
            ("com.microsoft:server-busy", K::ServiceBusy, R::Busy),
            ("amqp:connection:forced", K::Communication, R::Connection),
            ("amqp:link:detach-forced", K::Communication, R::Link),
            ("com.example:never-heard-of", K::Other, R::Link),
        ];
        for (condition, kind, recovery) in rows {
            assert_eq!(
                meaning_of_condition(condition),
                (kind, recovery),
                "{condition}"
            );
        }
    }

    #[test]
    fn no_condition_is_listed_twice() {
        for (i, (name, ..)) in TABLE.iter().enumerate() {
            assert!(
                TABLE.iter().skip(i + 1).all(|(other, ..)| other != name),
                "{name}"
            );
        }
    }

    #[test]
    fn every_condition_of_amqp_has_a_meaning() {
        let all = [
            amqp::INTERNAL_ERROR,
            amqp::NOT_FOUND,
            amqp::UNAUTHORIZED_ACCESS,
            amqp::DECODE_ERROR,
            amqp::RESOURCE_LIMIT_EXCEEDED,
            amqp::NOT_ALLOWED,
            amqp::INVALID_FIELD,
            amqp::NOT_IMPLEMENTED,
            amqp::RESOURCE_LOCKED,
            amqp::PRECONDITION_FAILED,
            amqp::RESOURCE_DELETED,
            amqp::ILLEGAL_STATE,
            amqp::FRAME_SIZE_TOO_SMALL,
            amqp::CONNECTION_FORCED,
            amqp::FRAMING_ERROR,
            amqp::CONNECTION_REDIRECT,
            amqp::WINDOW_VIOLATION,
            amqp::ERRANT_LINK,
            amqp::HANDLE_IN_USE,
            amqp::UNATTACHED_HANDLE,
            amqp::DETACH_FORCED,
            amqp::TRANSFER_LIMIT_EXCEEDED,
            amqp::MESSAGE_SIZE_EXCEEDED,
            amqp::LINK_REDIRECT,
            amqp::STOLEN,
            amqp::TRANSACTION_UNKNOWN_ID,
            amqp::TRANSACTION_ROLLBACK,
            amqp::TRANSACTION_TIMEOUT,
        ];
        for condition in all {
            assert!(known(condition.as_str()).is_some(), "{condition}");
        }
    }
}
