use std::time::SystemTime;

use bytes::Bytes;
use servicebus_amqp::types::{Map, MessageId, Value};

use super::{Effect, Operation, elements, same_count};
use crate::error::Result;
use crate::message::Message;
use crate::names::operation;
use crate::rpc::Answer;

/// Sends messages that become active at a later time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Schedule {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    message: Bytes,
    message_id: Option<MessageId>,
    session_id: Value,
    partition_key: Value,
    via_partition_key: Value,
}

impl Schedule {
    /// Sends these messages now, to become active at `at`. A message without an id is given one, so that a repeated
    /// request is recognised where the entity detects duplicates.
    ///
    /// # Errors
    ///
    /// As [`Message::encode`].
    pub fn new(
        messages: impl IntoIterator<Item = Message>,
        at: SystemTime,
        now: SystemTime,
    ) -> Result<Self> {
        let entry = |mut message: Message| {
            message.assign_message_id();
            message.scheduled_enqueue_time = Some(at);
            Ok(Entry {
                message: message.encode(now)?,
                message_id: message.message_id,
                session_id: message.session_id.into(),
                partition_key: message.partition_key.into(),
                via_partition_key: message.transaction_partition_key.into(),
            })
        };
        let entries = messages.into_iter().map(entry).collect::<Result<_>>()?;
        Ok(Self { entries })
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Operation for Schedule {
    const NAME: &'static str = operation::SCHEDULE_MESSAGE;
    /// The numbers that cancel the messages, in their order. A message gets another one when it becomes active.
    type Output = Vec<i64>;

    fn arguments(&self) -> Map {
        let entry = |entry: &Entry| {
            let mut map = Map::new();
            if let Some(id) = &entry.message_id {
                map.insert("message-id", id.to_string());
            }
            map.insert("message", entry.message.clone());
            let optional = [
                ("session-id", &entry.session_id),
                ("partition-key", &entry.partition_key),
                ("via-partition-key", &entry.via_partition_key),
            ];
            for (key, value) in optional {
                if !value.is_null() {
                    map.insert(key, value.clone());
                }
            }
            Value::Map(map)
        };
        let entries: Vec<Value> = self.entries.iter().map(entry).collect();
        Map::new().with("messages", entries)
    }

    fn read(&self, answer: Answer) -> Result<Self::Output> {
        let numbers = elements(&answer.content()?, "sequence-numbers", Value::as_i64)?;
        same_count("sequence numbers", self.entries.len(), numbers.len())?;
        Ok(numbers)
    }

    fn effect(&self) -> Effect {
        Effect::Lasting
    }
}
