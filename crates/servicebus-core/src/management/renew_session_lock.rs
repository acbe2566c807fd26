use std::time::SystemTime;

use bytestring::ByteString;
use servicebus_amqp::types::{Map, Value};

use super::Operation;
use crate::error::{Error, ErrorKind, Result};
use crate::names::operation;
use crate::rpc::{Answer, field};

/// Renews the lock of a session that the client holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RenewSessionLock {
    session_id: ByteString,
}

impl RenewSessionLock {
    /// The lock of this session.
    pub fn new(session_id: impl Into<ByteString>) -> Self {
        Self {
            session_id: session_id.into(),
        }
    }
}

impl Operation for RenewSessionLock {
    const NAME: &'static str = operation::RENEW_SESSION_LOCK;
    /// When the lock ends now; `None` past what the platform's clock can show.
    type Output = Option<SystemTime>;

    fn arguments(&self) -> Map {
        Map::new().with("session-id", self.session_id.clone())
    }

    fn read(&self, answer: Answer) -> Result<Self::Output> {
        let map = answer.content().map_err(gone_is_lost)?;
        Ok(field(&map, "expiration", Value::as_timestamp)?.to_system_time())
    }
}

/// 410 without a condition, in an answer about a session.
pub(super) fn gone_is_lost(error: Error) -> Error {
    if error.status() == Some(410) && error.kind() == ErrorKind::Other {
        error.with_kind(ErrorKind::SessionLockLost)
    } else {
        error
    }
}
