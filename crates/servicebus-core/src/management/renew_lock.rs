use std::time::SystemTime;

use servicebus_amqp::types::{Map, Value};

use super::{Operation, elements, lock_tokens, same_count};
use crate::error::{Error, ErrorKind, Result};
use crate::lock_token::LockToken;
use crate::names::operation;
use crate::rpc::Answer;

/// Renews the locks of messages. Fails as a whole when one of the locks is over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RenewLock {
    tokens: Vec<LockToken>,
}

impl RenewLock {
    /// Renews these locks; at least one.
    pub fn new(tokens: impl IntoIterator<Item = LockToken>) -> Self {
        Self {
            tokens: tokens.into_iter().collect(),
        }
    }
}

impl Operation for RenewLock {
    const NAME: &'static str = operation::RENEW_LOCK;
    /// When each lock ends now, in the order of the tokens; `None` past what the platform's clock can show.
    type Output = Vec<Option<SystemTime>>;

    fn arguments(&self) -> Map {
        Map::new().with("lock-tokens", lock_tokens(&self.tokens))
    }

    fn read(&self, answer: Answer) -> Result<Self::Output> {
        let map = answer.content().map_err(gone_is_lost)?;
        let ends = elements(&map, "expirations", Value::as_timestamp)?;
        same_count("lock times", self.tokens.len(), ends.len())?;
        Ok(ends.into_iter().map(|end| end.to_system_time()).collect())
    }
}

/// 410 without a condition, in an answer about locks of messages.
pub(super) fn gone_is_lost(error: Error) -> Error {
    if error.status() == Some(410) && error.kind() == ErrorKind::Other {
        error.with_kind(ErrorKind::MessageLockLost)
    } else {
        error
    }
}
