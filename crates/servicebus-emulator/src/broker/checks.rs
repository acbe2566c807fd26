//! What entities may be called and be like.

use std::time::Duration;

use super::{Broker, Error, ErrorKind, entity::Policy, registry::normalise};

/// The longest paths that the service has.
pub(super) const MAX_PATH: usize = 260;
/// The longest names of subscriptions and rules.
pub(super) const MAX_NAME: usize = 50;

impl Broker {
    /// Checks how long messages may be locked, and how often they may be delivered.
    pub(super) fn check_locks(
        &self,
        lock_duration: Duration,
        max_delivery_count: u32,
    ) -> Result<(), Error> {
        if lock_duration.is_zero() {
            return Err(Error::invalid(
                "The lock duration must be longer than zero.",
            ));
        }
        if let Some((least, most)) = self.limits.lock_duration {
            if lock_duration > most {
                return Err(Error::invalid(format!(
                    "SubCode=40000. The supplied lock time exceeds the allowed maximum of '{}' minutes.",
                    most.as_secs() / 60
                )));
            }
            if lock_duration < least {
                return Err(Error::invalid(format!(
                    "SubCode=40000. The supplied lock time is below the allowed minimum of '{}' seconds.",
                    least.as_secs()
                )));
            }
        }
        if max_delivery_count == 0 {
            return Err(Error::invalid("The max delivery count must be at least 1."));
        }
        if let Some(limit) = self.limits.max_delivery_count
            && max_delivery_count > limit
        {
            return Err(Error::invalid(format!(
                "The max delivery count exceeds the allowed maximum of {limit}."
            )));
        }
        Ok(())
    }

    pub(super) fn check_forwarding(
        &self,
        namespace: &str,
        path: &str,
        policy: &Policy,
        requires_session: bool,
    ) -> Result<(), Error> {
        if requires_session && policy.forward_to.is_some() {
            return Err(Error::invalid(
                "Auto-forwarding is not allowed on an entity that requires sessions.",
            ));
        }
        for target in [&policy.forward_to, &policy.forward_dead_lettered_to]
            .into_iter()
            .flatten()
        {
            if **target == *normalise(path) {
                return Err(Error::invalid(format!(
                    "'{path}' cannot be forwarded to itself."
                )));
            }
            if self.entities.find(namespace, target).is_none() {
                return Err(Error::new(
                    ErrorKind::EntityNotFound,
                    format!("SubCode=40400. The forwarding target '{target}' does not exist."),
                ));
            }
        }
        Ok(())
    }
}

pub(super) fn already_exists(name: &str) -> Error {
    Error::new(
        ErrorKind::EntityAlreadyExists,
        format!("The messaging entity '{name}' already exists."),
    )
}

pub(super) fn check_limit(what: &str, count: usize, limit: Option<usize>) -> Result<(), Error> {
    match limit {
        Some(limit) if count >= limit => Err(Error::new(
            ErrorKind::QuotaExceeded,
            format!("The limit of {limit} {what} is reached."),
        )),
        _ => Ok(()),
    }
}

pub(super) fn check_unchanged(name: &str, before: bool, after: bool) -> Result<(), Error> {
    if before == after {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "SubCode=40000. The value for the {name} property of an existing entity cannot be changed."
    )))
}

pub(super) fn check_name_length(name: &str, limit: usize) -> Result<(), Error> {
    if name.is_empty() || name.chars().count() > limit {
        return Err(Error::invalid(format!(
            "The name '{name}' must have between 1 and {limit} characters."
        )));
    }
    Ok(())
}

pub(super) fn check_name(name: &str, limit: usize) -> Result<(), Error> {
    check_name_length(name, limit)?;
    let legal = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | '~');
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '~'));
    if let Some(c) = name.chars().find(|c| !legal(*c)) {
        return Err(Error::invalid(format!(
            "The name '{name}' contains {c:?}; letters, digits and . - _ / ~ are allowed."
        )));
    }
    if !ends(name.chars().next()) || !ends(name.chars().next_back()) {
        return Err(Error::invalid(format!(
            "The name '{name}' must begin and end with a letter or digit."
        )));
    }
    Ok(())
}
