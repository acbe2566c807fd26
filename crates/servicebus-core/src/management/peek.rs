use bytestring::ByteString;
use servicebus_amqp::types::{Map, Value};

use super::{Operation, elements};
use crate::error::Result;
use crate::message::{Origin, ReceivedMessage};
use crate::names::operation;
use crate::rpc::Answer;

/// Looks at messages without locking them: active, deferred, scheduled and locked ones.
///
/// One call gives fewer than asked for, as few as one, although there are more; only an empty answer is the end.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peek {
    from: i64,
    count: u32,
    session_id: Option<ByteString>,
}

impl Peek {
    /// At most `count` messages with a sequence number of `from` or more, in their order.
    pub fn new(from: i64, count: u32) -> Self {
        Self {
            from,
            count,
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

impl Operation for Peek {
    const NAME: &'static str = operation::PEEK_MESSAGE;
    /// The messages; none is the end.
    type Output = Vec<ReceivedMessage>;

    fn arguments(&self) -> Map {
        let count = i32::try_from(self.count).unwrap_or(i32::MAX);
        let mut map = Map::new()
            .with("from-sequence-number", self.from)
            .with("message-count", count);
        if let Some(session_id) = &self.session_id {
            map.insert("session-id", session_id.clone());
        }
        map
    }

    fn read(&self, answer: Answer) -> Result<Self::Output> {
        if answer.is_nothing() {
            return Ok(Vec::new());
        }
        let map = answer.content()?;
        if map.get("messages").is_none_or(Value::is_null) {
            return Ok(Vec::new());
        }
        elements(&map, "messages", |entry| {
            entry.as_map()?.get("message")?.as_binary().cloned()
        })?
        .into_iter()
        .map(|encoded| ReceivedMessage::decode(encoded, Origin::Peeked))
        .collect()
    }
}
