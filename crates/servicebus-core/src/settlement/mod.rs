//! What is to become of a message, on the wire, and what the broker answers.

use servicebus_amqp::types::{
    AmqpError, DeliveryState, Map, Modified, Outcome, Symbol, Value, condition as amqp,
};

use crate::error::{Error, ErrorKind, Result};
use crate::names::{condition, property};

/// The longest reason or description of a dead-lettered message, in characters.
const MAX_TEXT: usize = 4096;

/// What is to become of a locked message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Settlement {
    /// It is done with and deleted.
    Complete,
    /// It is given back, to be delivered again; counts as a failed delivery.
    Abandon {
        /// Application properties to set on the message.
        properties: Map,
    },
    /// It stays, and is only given out by its sequence number.
    Defer {
        /// Application properties to set on the message.
        properties: Map,
    },
    /// It is moved to the dead-letter queue.
    DeadLetter(DeadLetter),
}

/// Why a message is dead-lettered.
///
/// ```
/// use servicebus_core::settlement::DeadLetter;
///
/// let why = DeadLetter::new("invalid").description("no field 'id'").property("attempt", 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// A short reason, at most 4096 characters; the application property `DeadLetterReason`.
    pub reason: Option<String>,
    /// More words, at most 4096 characters; the application property `DeadLetterErrorDescription`.
    pub description: Option<String>,
    /// Application properties to set on the message.
    pub properties: Map,
}

impl DeadLetter {
    /// For this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..Self::default()
        }
    }

    /// Says more about the reason.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets an application property on the message.
    #[must_use]
    pub fn property(mut self, name: impl AsRef<str>, value: impl Into<Value>) -> Self {
        self.properties.insert(name.as_ref(), value);
        self
    }
}

impl Settlement {
    /// Checks the lengths that the service limits.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a reason or description of more than 4096 characters.
    pub fn check(&self) -> Result<()> {
        let Self::DeadLetter(why) = self else {
            return Ok(());
        };
        for (what, text) in [("reason", &why.reason), ("description", &why.description)] {
            let length = text.as_ref().map_or(0, |text| text.chars().count());
            if length > MAX_TEXT {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!(
                        "the dead-letter {what} has {length} characters, {MAX_TEXT} are allowed"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The outcome that says so on the link the message came on. It is stated unsettled; the broker settles.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Complete => Outcome::Accepted,
            Self::Abandon { properties } => Outcome::Modified(Box::new(Modified {
                message_annotations: symbol_keys(properties),
                ..Modified::default()
            })),
            // The one difference to abandon; `delivery-failed` says nothing to this broker.
            Self::Defer { properties } => Outcome::Modified(Box::new(Modified {
                undeliverable_here: Some(true),
                message_annotations: symbol_keys(properties),
                ..Modified::default()
            })),
            Self::DeadLetter(why) => Outcome::Rejected(Some(Box::new(AmqpError {
                condition: Symbol::from_static(condition::DEAD_LETTER),
                description: None,
                info: why.info(),
            }))),
        }
    }

    /// The word for it in the management operation `update-disposition`.
    pub const fn disposition_status(&self) -> &'static str {
        match self {
            Self::Complete => "completed",
            Self::Abandon { .. } => "abandoned",
            // Spelled so on the wire.
            Self::Defer { .. } => "defered",
            Self::DeadLetter(_) => "suspended",
        }
    }

    /// Reads what the broker answered on the link.
    ///
    /// Success is the same kind of outcome as was stated. A dead-lettered message is answered by `rejected` too; an
    /// error in it tells failure.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::MessageLockLost`] or [`ErrorKind::SessionLockLost`] when the lock is over, also when the broker
    /// gives the message back or does not know the delivery; [`ErrorKind::Protocol`] for another outcome than the
    /// stated one; what else a condition means.
    pub fn read_answer(&self, state: Option<&DeliveryState>) -> Result<()> {
        let Some(outcome) = state.and_then(DeliveryState::outcome) else {
            return Err(Error::new(
                ErrorKind::Protocol,
                "the broker settled the message without an outcome",
            ));
        };
        match (self, outcome) {
            (Self::Complete, Outcome::Accepted)
            | (Self::Abandon { .. } | Self::Defer { .. }, Outcome::Modified(_))
            | (Self::DeadLetter(_), Outcome::Rejected(None)) => Ok(()),
            (Self::DeadLetter(_), Outcome::Rejected(Some(error)))
                if error.condition == condition::DEAD_LETTER =>
            {
                Ok(())
            }
            (_, Outcome::Rejected(Some(error))) => Err(refusal(error)),
            (_, Outcome::Released) => Err(Error::new(
                ErrorKind::MessageLockLost,
                "the broker gave the message back instead of settling it",
            )),
            _ => Err(Error::new(
                ErrorKind::Protocol,
                "the broker settled the message with another outcome than the stated one",
            )),
        }
    }
}

fn refusal(error: &AmqpError) -> Error {
    let meaning = Error::from_amqp(error);
    if error.condition == amqp::NOT_FOUND.as_str() {
        // The delivery is unknown, not the entity: the lock may still be good for management.
        return meaning.with_kind(ErrorKind::MessageLockLost);
    }
    meaning
}

/// Reads what the broker answered to a message that was sent.
///
/// # Errors
///
/// What the condition of a rejection means; a transient error when the broker gave the message back.
pub fn read_send_answer(state: Option<&DeliveryState>) -> Result<()> {
    match state.and_then(DeliveryState::outcome) {
        Some(Outcome::Accepted) => Ok(()),
        Some(Outcome::Rejected(Some(error))) => Err(Error::from_amqp(error)),
        Some(Outcome::Rejected(None)) => Err(Error::new(
            ErrorKind::Other,
            "the broker rejected the message and did not say why",
        )),
        Some(Outcome::Released | Outcome::Modified(_)) => Err(Error::new(
            ErrorKind::Other,
            "the broker gave the message back without taking it",
        )
        .with_recovery(crate::error::Recovery::Retry)),
        _ => Err(Error::new(
            ErrorKind::Uncertain,
            "the broker settled the message without an outcome",
        )),
    }
}

impl DeadLetter {
    /// Reason, description and properties under symbol keys, as .NET, Python and Go write them.
    fn info(&self) -> Option<Map> {
        let mut info = Map::new();
        if let Some(reason) = &self.reason {
            let key = Symbol::from_static(property::DEAD_LETTER_REASON);
            info.insert(key, reason.as_str());
        }
        if let Some(description) = &self.description {
            let key = Symbol::from_static(property::DEAD_LETTER_ERROR_DESCRIPTION);
            info.insert(key, description.as_str());
        }
        info.0
            .extend(symbol_keys(&self.properties).unwrap_or_default().0);
        (!info.is_empty()).then_some(info)
    }
}

/// The properties with symbols for keys; `None` when there are none.
fn symbol_keys(properties: &Map) -> Option<Map> {
    if properties.is_empty() {
        return None;
    }
    let pairs = properties.iter().map(|(key, value)| {
        let key = match key {
            Value::String(text) => Value::Symbol(Symbol::from(text.clone())),
            other => other.clone(),
        };
        (key, value.clone())
    });
    Some(pairs.collect())
}

#[cfg(test)]
mod tests;
