use bytestring::ByteString;
use servicebus_amqp::types::{Map, Value};

use super::{Effect, Operation, array};
use crate::error::Result;
use crate::lock_token::LockToken;
use crate::message::{Origin, ReceivedMessage};
use crate::names::operation;
use crate::rpc::{Answer, field, protocol};

/// What becomes of a message when it is received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReceiveMode {
    /// It is locked, and stays until it is settled.
    #[default]
    PeekLock,
    /// It is deleted. It is lost when the client fails before it was processed.
    ReceiveAndDelete,
}

/// Receives deferred messages by their sequence numbers. `MessageNotFound` when one of them is not deferred.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReceiveDeferred {
    numbers: Vec<i64>,
    mode: ReceiveMode,
    session_id: Option<ByteString>,
}

impl ReceiveDeferred {
    /// The messages of these sequence numbers; at least one.
    pub fn new(numbers: impl IntoIterator<Item = i64>, mode: ReceiveMode) -> Self {
        Self {
            numbers: numbers.into_iter().collect(),
            mode,
            session_id: None,
        }
    }

    /// Messages of this session, which the client holds.
    #[must_use]
    pub fn session(mut self, session_id: impl Into<ByteString>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }

    fn read_entry(&self, entry: &Value) -> Result<ReceivedMessage> {
        let entry = entry
            .as_map()
            .ok_or_else(|| protocol("a message in an answer is not a map"))?;
        let encoded = field(entry, "message", Value::as_binary)?.clone();
        let origin = match self.mode {
            ReceiveMode::PeekLock => {
                Origin::Locked(LockToken::new(field(entry, "lock-token", Value::as_uuid)?))
            }
            ReceiveMode::ReceiveAndDelete => Origin::Deleted,
        };
        ReceivedMessage::decode(encoded, origin)
    }
}

impl Operation for ReceiveDeferred {
    const NAME: &'static str = operation::RECEIVE_BY_SEQUENCE_NUMBER;
    /// The messages; none when the service answers that there is none.
    type Output = Vec<ReceivedMessage>;

    fn arguments(&self) -> Map {
        let mode: u32 = match self.mode {
            ReceiveMode::ReceiveAndDelete => 0,
            ReceiveMode::PeekLock => 1,
        };
        let mut map = Map::new()
            .with("sequence-numbers", array(self.numbers.iter().copied()))
            .with("receiver-settle-mode", mode);
        if let Some(session_id) = &self.session_id {
            map.insert("session-id", session_id.clone());
        }
        map
    }

    fn read(&self, answer: Answer) -> Result<Self::Output> {
        if answer.status() == 204 {
            return Ok(Vec::new());
        }
        let map = answer.content()?;
        let entries = field(&map, "messages", Value::as_elements)?;
        entries.iter().map(|entry| self.read_entry(entry)).collect()
    }

    /// A message that was deleted with the lost answer is gone.
    fn effect(&self) -> Effect {
        match self.mode {
            ReceiveMode::PeekLock => Effect::None,
            ReceiveMode::ReceiveAndDelete => Effect::Once,
        }
    }
}
