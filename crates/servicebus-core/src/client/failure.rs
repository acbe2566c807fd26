use std::future::Future;
use std::time::Instant;

use servicebus_amqp::net::{DeliveryError, Outcome};
use servicebus_amqp::types::DeliveryState;

use super::clock::sleep_until;
use crate::error::{Error, ErrorKind, Result};

/// An attempt that failed, and what is known of it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) fate: Fate,
}

/// Whether the peer may have acted on what an attempt gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It has not, or it has answered.
    Known,
    /// It may have.
    Unknown,
}

impl Failure {
    pub(crate) fn known(error: Error) -> Self {
        Self {
            error,
            fate: Fate::Known,
        }
    }

    pub(crate) fn unknown(error: Error) -> Self {
        Self {
            error,
            fate: Fate::Unknown,
        }
    }
}

impl From<DeliveryError> for Failure {
    fn from(error: DeliveryError) -> Self {
        let fate = match error {
            DeliveryError::Uncertain(_) => Fate::Unknown,
            _ => Fate::Known,
        };
        Self {
            error: error.into(),
            fate,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::known(error)
    }
}

/// Nothing came of an attempt in its time.
pub(crate) fn timeout() -> Error {
    Error::new(ErrorKind::Timeout, "the service did not answer in time")
}

/// What comes of it in time.
pub(crate) async fn within<T>(
    deadline: Option<Instant>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        biased;
        result = work => result,
        () = sleep_until(deadline) => Err(timeout()),
    }
}

/// The broker's answer to a delivery or a settlement, if it comes in time.
pub(crate) async fn answer(
    outcome: Outcome,
    deadline: Option<Instant>,
) -> Result<Option<DeliveryState>, Failure> {
    let outcome = match deadline {
        Some(deadline) => outcome.until(deadline),
        None => outcome,
    };
    Ok(outcome.await?)
}

/// The error of an operation that may have taken effect.
pub(crate) fn uncertain(error: Error) -> Error {
    if error.kind() == ErrorKind::Uncertain {
        return error;
    }
    let text = format!("whether it took effect is not known: {error}");
    let this = Error::new(ErrorKind::Uncertain, text);
    match error.entity().map(str::to_owned) {
        Some(entity) => this.with_entity(entity),
        None => this,
    }
    .with_source(error)
}
