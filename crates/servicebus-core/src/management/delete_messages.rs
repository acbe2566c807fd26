use std::time::SystemTime;

use bytestring::ByteString;
use servicebus_amqp::types::{Map, Timestamp};

use super::{Effect, Operation};
use crate::error::Result;
use crate::names::operation;
use crate::rpc::{Answer, field};

/// Deletes messages without receiving them. Locked ones are passed over. Not on partitioned entities.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeleteMessages {
    count: u32,
    enqueued_before: SystemTime,
    session_id: Option<ByteString>,
}

impl DeleteMessages {
    /// At most `count` messages that were enqueued before this time, the oldest first. The service takes at most 4000
    /// in Premium namespaces and 500 in others.
    pub fn new(count: u32, enqueued_before: SystemTime) -> Self {
        Self {
            count,
            enqueued_before,
            session_id: None,
        }
    }

    /// Only messages of this session.
    #[must_use]
    pub fn session(mut self, session_id: impl Into<ByteString>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }
}

impl Operation for DeleteMessages {
    const NAME: &'static str = operation::BATCH_DELETE_MESSAGES;
    /// How many were deleted; 0 is the end.
    type Output = u32;

    fn arguments(&self) -> Map {
        let count = i32::try_from(self.count).unwrap_or(i32::MAX);
        let before = Timestamp::from(self.enqueued_before);
        let mut map = Map::new()
            .with("message-count", count)
            .with("enqueued-time-utc", before);
        if let Some(session_id) = &self.session_id {
            map.insert("session-id", session_id.clone());
        }
        map
    }

    fn read(&self, answer: Answer) -> Result<u32> {
        if answer.is_nothing() {
            return Ok(0);
        }
        field(&answer.content()?, "message-count", |count| {
            count.as_u64()?.try_into().ok()
        })
    }

    /// The number deleted by a call whose answer was lost stays unknown.
    fn effect(&self) -> Effect {
        Effect::Once
    }
}
