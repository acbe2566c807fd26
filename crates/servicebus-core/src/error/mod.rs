//! The one error of the client, and the table that gives a wire error its meaning.

mod table;

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use servicebus_amqp::types::{AmqpError, Symbol};

pub use table::Recovery;

/// What went wrong in an operation of the client.
///
/// [`kind`](Self::kind) is what a program decides on; the text is for people. What the service said is kept:
/// [`condition`](Self::condition), [`status`](Self::status) and [`tracking_id`](Self::tracking_id), which Azure
/// support asks for.
///
/// ```
/// use servicebus_core::error::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::MessageLockLost, "the lock is over");
/// assert_eq!(error.kind(), ErrorKind::MessageLockLost);
/// assert!(!error.is_transient());
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    recovery: Recovery,
    text: Cow<'static, str>,
    entity: Option<String>,
    condition: Option<Symbol>,
    status: Option<i32>,
    tracking_id: Option<String>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// A result with the client's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
///
/// The first group has the names of the official SDKs' failure reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no queue, topic, subscription, rule or sub-queue of this name.
    EntityNotFound,
    /// The entity is disabled for this operation.
    EntityDisabled,
    /// There is an entity or a rule of this name already.
    EntityAlreadyExists,
    /// The lock of the message is over, or was never this receiver's. The message will be delivered again.
    MessageLockLost,
    /// There is no deferred or scheduled message of this sequence number.
    MessageNotFound,
    /// The message or batch is larger than the entity takes.
    MessageTooLarge,
    /// The entity is full, or another quota is used up.
    QuotaExceeded,
    /// The service throttles; wait before the next attempt.
    ServiceBusy,
    /// No answer within the time given.
    Timeout,
    /// The connection, session or link failed.
    Communication,
    /// The session is locked by another receiver.
    SessionCannotBeLocked,
    /// The session's lock is over. This receiver is of no more use; accept the session again.
    SessionLockLost,
    /// The credential or its rights do not allow the operation.
    Unauthorized,

    /// A value given to the client is wrong. Nothing was sent.
    InvalidArgument,
    /// The service does not allow the operation on this entity, as receiving without a session where sessions are
    /// required.
    InvalidOperation,
    /// The service does not know the operation.
    Unsupported,
    /// The client, sender or receiver was closed.
    Closed,
    /// The operation may or may not have taken effect: the connection was lost after the request was sent and before
    /// the answer came.
    Uncertain,
    /// The transaction failed or was rolled back; none of its operations took effect.
    Transaction,
    /// The peer's answer breaks the protocol or cannot be read.
    Protocol,
    /// Anything else; the text and the condition say more.
    Other,
}

impl Error {
    /// An error of this kind, not transient unless the kind is by nature.
    pub fn new(kind: ErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            recovery: table::recovery_of_kind(kind),
            text: text.into(),
            entity: None,
            condition: None,
            status: None,
            tracking_id: None,
            source: None,
        }))
    }

    /// What an AMQP error of the peer means: of a detach, an end, a close, or a rejected delivery.
    pub fn from_amqp(error: &AmqpError) -> Self {
        let condition = error.condition.as_str();
        let (kind, recovery) = table::meaning_of_condition(condition);
        let text = match error.description.as_deref() {
            Some(text) if !text.is_empty() => text.to_owned(),
            _ => format!("the peer answered {condition}"),
        };
        let mut this = Self::new(kind, text);
        this.0.recovery = recovery;
        this.0.condition = Some(error.condition.clone());
        this.0.tracking_id = tracking_id_in(&this.0.text);
        this
    }

    /// What the answer of `$cbs` or `$management` means: its status, condition and text.
    ///
    /// The condition decides where it is known, because one status stands for several reasons.
    pub fn from_status(status: i32, condition: Option<&Symbol>, description: Option<&str>) -> Self {
        let (kind, recovery) = table::meaning_of_answer(status, condition.map(Symbol::as_str));
        let text = match description {
            Some(text) if !text.is_empty() => text.to_owned(),
            _ => format!("the service answered with status {status}"),
        };
        let mut this = Self::new(kind, text);
        this.0.recovery = recovery;
        this.0.condition = condition.cloned();
        this.0.status = Some(status);
        this.0.tracking_id = tracking_id_in(&this.0.text);
        this
    }

    /// The same error, naming the entity it is about.
    #[must_use]
    pub fn with_entity(mut self, entity: impl Into<String>) -> Self {
        self.0.entity = Some(entity.into());
        self
    }

    /// The same error with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into().into());
        self
    }

    /// The same error under the name that the service's logs have for the request.
    #[must_use]
    pub fn with_tracking_id(mut self, tracking_id: impl Into<String>) -> Self {
        self.0.tracking_id = Some(tracking_id.into());
        self
    }

    /// The same facts, read as another kind by someone who knows what was asked.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self.0.recovery = table::recovery_of_kind(kind);
        self
    }

    /// The same error with another way back.
    #[must_use]
    pub fn with_recovery(mut self, recovery: Recovery) -> Self {
        self.0.recovery = recovery;
        self
    }

    /// Why the operation failed.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same operation may succeed later without a change. The client itself retries such failures within
    /// its retry options before it reports them.
    pub fn is_transient(&self) -> bool {
        self.0.recovery.is_transient()
    }

    /// What has to be renewed before another attempt makes sense.
    pub fn recovery(&self) -> Recovery {
        self.0.recovery
    }

    /// The error condition that the peer named, as `com.microsoft:message-lock-lost`.
    pub fn condition(&self) -> Option<&str> {
        self.0.condition.as_ref().map(Symbol::as_str)
    }

    /// The status code of a management or authorisation answer.
    pub fn status(&self) -> Option<i32> {
        self.0.status
    }

    /// The path of the entity that the operation was about.
    pub fn entity(&self) -> Option<&str> {
        self.0.entity.as_deref()
    }

    /// The name under which the service logged the failure.
    pub fn tracking_id(&self) -> Option<&str> {
        self.0.tracking_id.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)?;
        match (&self.0.entity, &self.0.condition) {
            (Some(entity), Some(condition)) => write!(f, " ({condition}, entity '{entity}')"),
            (Some(entity), None) => write!(f, " (entity '{entity}')"),
            (None, Some(condition)) => write!(f, " ({condition})"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("text", &self.0.text)
            .field("recovery", &self.0.recovery)
            .field("entity", &self.0.entity)
            .field("condition", &self.0.condition)
            .field("status", &self.0.status)
            .field("tracking_id", &self.0.tracking_id)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// The id after `TrackingId:` in the service's texts, which end with
/// `TrackingId:<guid>_<role>, SystemTracker:<…>, Timestamp:<…>`.
fn tracking_id_in(text: &str) -> Option<String> {
    const MARK: &str = "TrackingId:";
    let (_, rest) = text.split_once(MARK)?;
    let id = rest
        .split(|c: char| c == ',' || c.is_whitespace())
        .next()
        .unwrap_or_default();
    (!id.is_empty()).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tracking_id_is_taken_from_the_text_of_the_service() {
        let error = Error::from_amqp(&AmqpError::new(
            "amqp:not-found",
            "The messaging entity 'sb://ns.servicebus.windows.net/q' could not be found. \
             TrackingId:6f4b5a2e-0d5c-4f5e-9c8d-0b1c2d3e4f50_G12, SystemTracker:ns:q, Timestamp:2026-01-01T00:00:00",
        ));
        assert_eq!(
            error.tracking_id(),
            Some("6f4b5a2e-0d5c-4f5e-9c8d-0b1c2d3e4f50_G12")
        );
        assert_eq!(error.kind(), ErrorKind::EntityNotFound);
    }

    #[test]
    fn a_text_without_a_tracking_id_has_none() {
        for text in ["", "busy", "TrackingId:", "TrackingId:, SystemTracker:x"] {
            assert_eq!(tracking_id_in(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_text_names_condition_and_entity() {
        let error = Error::from_amqp(&AmqpError::new("amqp:not-allowed", "no session"))
            .with_entity("orders");
        assert_eq!(
            error.to_string(),
            "no session (amqp:not-allowed, entity 'orders')"
        );
    }
}
