//! The operations of `$management`.

mod arguments;
mod rules;

use bytes::BytesMut;
use servicebus_amqp::types::{Array, Body, Bytes, Map, Message, Symbol, Timestamp, Value};

use self::arguments::Arguments;
use super::client::Client;
use super::names::{key, rpc};
use super::node::{Reply, Request};
use crate::access::{Policy, Rights};
use crate::broker::{
    AddRule, BatchDelete, CancelScheduled, EntityId, EnumerateRules, Error, ErrorKind,
    ListSessions, Peek, ReadSessionState, ReceiveDeferred, ReceiveMode, RemoveRule, RenewLocks,
    RenewSessionLock, Schedule, Settlement, UpdateDispositions, WriteSessionState,
};
use crate::names::condition;

/// From here on, the time of a session listing means "those with messages": the year 10,000.
const EVER: i64 = 253_402_300_800_000;

/// How many bytes of messages one reply brings at most, beyond its first message.
const MAX_REPLY: u64 = 1024 * 1024;

/// What each message and the envelope add to a reply, at most.
const OVERHEAD: u64 = 128;

type Answer = Result<Reply, Error>;

impl Client {
    pub(super) fn on_management(&mut self, entity: EntityId, request: &Request) -> Reply {
        if let Some(name) = request
            .properties
            .get(rpc::ASSOCIATED_LINK_NAME)
            .and_then(Value::as_text)
        {
            self.touch_named(name);
        }
        self.manage(entity, request).unwrap_or_else(Reply::from)
    }

    fn manage(&self, entity: EntityId, request: &Request) -> Answer {
        let body = Arguments::new(&request.body)?;
        let name = request
            .operation
            .strip_prefix("com.microsoft:")
            .unwrap_or_default();
        self.may_manage(entity, name)?;
        match name {
            "peek-message" => self.peek(entity, &body, request.room),
            "renew-lock" => self.renew_locks(entity, &body),
            "update-disposition" => self.update_dispositions(entity, &body, request),
            "schedule-message" => self.schedule(entity, &body, request),
            "cancel-scheduled-message" => self.cancel_scheduled(entity, &body),
            "receive-by-sequence-number" => self.receive_deferred(entity, &body),
            "renew-session-lock" => self.renew_session_lock(entity, &body),
            "set-session-state" => self.set_session_state(entity, &body),
            "get-session-state" => self.get_session_state(entity, &body),
            "get-message-sessions" => self.get_message_sessions(entity, &body),
            "batch-delete-messages" => self.batch_delete(entity, &body),
            "add-rule" => self.add_rule(entity, &body),
            "remove-rule" => self.remove_rule(entity, &body),
            "enumerate-rules" => self.enumerate_rules(entity, &body),
            _ => Ok(Reply {
                status: 501,
                description: format!("The operation '{}' is not known.", request.operation),
                condition: Some(servicebus_amqp::types::condition::NOT_IMPLEMENTED),
                body: Value::Null,
            }),
        }
    }

    /// Whether the client has the right that an operation takes. Any token opens the link; rules take all rights.
    fn may_manage(&self, entity: EntityId, name: &str) -> Result<(), Error> {
        if self.policy == Policy::Open {
            return Ok(());
        }
        let right = match name {
            "schedule-message" | "cancel-scheduled-message" => Rights::Send,
            "add-rule" | "remove-rule" | "enumerate-rules" => Rights::Manage,
            _ => Rights::Listen,
        };
        let path = self.hub.read(|core| core.broker.path(entity));
        let path = path.map(|path| path.to_lowercase()).unwrap_or_default();
        self.authorise(&path, Some(right))
    }

    fn peek(&self, entity: EntityId, body: &Arguments<'_>, room: u64) -> Answer {
        let command = Peek {
            entity,
            from: body.long(key::FROM_SEQUENCE_NUMBER)?,
            count: body.size(key::MESSAGE_COUNT)?,
            session: body.optional_text(key::SESSION_ID)?,
        };
        let omit_body = body.flag(key::OMIT_MESSAGE_BODY)?;
        let found = self.hub.run(self.mailbox(), command)?;
        let mut size = 2 * OVERHEAD;
        let mut messages = Vec::new();
        for message in found {
            let mut encoded = message.to_bytes();
            if omit_body {
                encoded = without_body(encoded);
            }
            size += encoded.len() as u64 + OVERHEAD;
            if !messages.is_empty() && size > MAX_REPLY.min(room) {
                break;
            }
            messages.push(Value::Map(Map::new().with(key::MESSAGE, encoded)));
        }
        if messages.is_empty() {
            return Ok(nothing(
                condition::MESSAGE_NOT_FOUND,
                "No messages were found.",
            ));
        }
        Ok(Reply::ok(Map::new().with(key::MESSAGES, messages)))
    }

    fn renew_locks(&self, entity: EntityId, body: &Arguments<'_>) -> Answer {
        let tokens = body.lock_tokens()?;
        let until = self
            .hub
            .run(self.mailbox(), RenewLocks { entity, tokens })?;
        let expirations = array(until.into_iter().map(Value::Timestamp));
        Ok(Reply::ok(Map::new().with(key::EXPIRATIONS, expirations)))
    }

    fn update_dispositions(
        &self,
        entity: EntityId,
        body: &Arguments<'_>,
        request: &Request,
    ) -> Answer {
        let properties = body.optional_map(key::PROPERTIES_TO_MODIFY)?;
        let settlement = match &*body.text(key::DISPOSITION_STATUS)? {
            "completed" => Settlement::Complete,
            "abandoned" => Settlement::Abandon { properties },
            "defered" => Settlement::Defer { properties },
            "suspended" => Settlement::DeadLetter {
                reason: body.optional_text(key::DEADLETTER_REASON)?,
                description: body.optional_text(key::DEADLETTER_DESCRIPTION)?,
                properties,
            },
            other => {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!(
                        "'{}' is '{other}'; it can be completed, abandoned, defered or suspended.",
                        key::DISPOSITION_STATUS
                    ),
                ));
            }
        };
        let command = UpdateDispositions {
            entity,
            tokens: body.lock_tokens()?,
            settlement,
            transaction: request.transaction,
        };
        self.hub.run(self.mailbox(), command)?;
        Ok(Reply::ok(Map::new()))
    }

    fn schedule(&self, entity: EntityId, body: &Arguments<'_>, request: &Request) -> Answer {
        let messages = body
            .maps(key::MESSAGES)?
            .iter()
            .map(|message| message.binary(key::MESSAGE))
            .collect::<Result<Vec<Bytes>, Error>>()?;
        let command = Schedule {
            entity,
            messages,
            transaction: request.transaction,
        };
        let numbers = self.hub.run(self.mailbox(), command)?;
        let numbers = array(numbers.into_iter().map(Value::Long));
        Ok(Reply::ok(Map::new().with(key::SEQUENCE_NUMBERS, numbers)))
    }

    fn cancel_scheduled(&self, entity: EntityId, body: &Arguments<'_>) -> Answer {
        let command = CancelScheduled {
            entity,
            sequence_numbers: body.longs(key::SEQUENCE_NUMBERS)?,
        };
        self.hub.run(self.mailbox(), command)?;
        Ok(Reply::ok(Map::new()))
    }

    fn receive_deferred(&self, entity: EntityId, body: &Arguments<'_>) -> Answer {
        let mode = match body.long(key::RECEIVER_SETTLE_MODE)? {
            0 => ReceiveMode::ReceiveAndDelete,
            1 => ReceiveMode::PeekLock,
            other => {
                return Err(Error::new(
                    ErrorKind::ArgumentOutOfRange,
                    format!(
                        "'{}' is {other}; it can be 0 or 1.",
                        key::RECEIVER_SETTLE_MODE
                    ),
                ));
            }
        };
        let command = ReceiveDeferred {
            entity,
            sequence_numbers: body.longs(key::SEQUENCE_NUMBERS)?,
            mode,
            session: body.optional_text(key::SESSION_ID)?,
        };
        let messages: Vec<Value> = self
            .hub
            .run(self.mailbox(), command)?
            .into_iter()
            .map(|delivery| {
                let mut map = Map::new().with(key::MESSAGE, delivery.message.to_bytes());
                if let Some(token) = delivery.token {
                    map.insert(key::LOCK_TOKEN, token.0);
                }
                Value::Map(map)
            })
            .collect();
        Ok(Reply::ok(Map::new().with(key::MESSAGES, messages)))
    }

    fn renew_session_lock(&self, entity: EntityId, body: &Arguments<'_>) -> Answer {
        let session = body.text(key::SESSION_ID)?;
        let until = self
            .hub
            .run(self.mailbox(), RenewSessionLock { entity, session })?;
        Ok(Reply::ok(Map::new().with(key::EXPIRATION, until)))
    }

    fn set_session_state(&self, entity: EntityId, body: &Arguments<'_>) -> Answer {
        let command = WriteSessionState {
            entity,
            session: body.text(key::SESSION_ID)?,
            state: body.optional_binary(key::SESSION_STATE)?,
        };
        self.hub.run(self.mailbox(), command)?;
        Ok(Reply::ok(Map::new()))
    }

    fn get_session_state(&self, entity: EntityId, body: &Arguments<'_>) -> Answer {
        let session = body.text(key::SESSION_ID)?;
        let state = self
            .hub
            .run(self.mailbox(), ReadSessionState { entity, session })?;
        Ok(Reply::ok(Map::new().with(key::SESSION_STATE, state)))
    }

    fn get_message_sessions(&self, entity: EntityId, body: &Arguments<'_>) -> Answer {
        let updated_after = body
            .optional_timestamp(key::LAST_UPDATED_TIME)?
            .filter(|time| *time < Timestamp::from_millis(EVER));
        let skip = body.size(key::SKIP)?;
        let command = ListSessions {
            entity,
            updated_after,
            skip,
            top: body.size(key::TOP)?,
        };
        let ids = self.hub.run(self.mailbox(), command)?;
        if ids.is_empty() {
            return Ok(nothing(
                condition::SESSION_NOT_FOUND,
                "There are no such sessions.",
            ));
        }
        let next = i32::try_from(skip.saturating_add(ids.len())).unwrap_or(i32::MAX);
        let ids = array(ids.into_iter().map(Value::String));
        Ok(Reply::ok(
            Map::new()
                .with(key::SKIP, next)
                .with(key::SESSIONS_IDS, ids),
        ))
    }

    fn batch_delete(&self, entity: EntityId, body: &Arguments<'_>) -> Answer {
        let command = BatchDelete {
            entity,
            count: u32::try_from(body.size(key::MESSAGE_COUNT)?).unwrap_or(u32::MAX),
            before: body.optional_timestamp(key::ENQUEUED_TIME_UTC)?,
            session: body.optional_text(key::SESSION_ID)?,
        };
        let deleted = self.hub.run(self.mailbox(), command)?;
        if deleted == 0 {
            return Ok(nothing(
                condition::MESSAGE_NOT_FOUND,
                "No messages were found.",
            ));
        }
        let deleted = i32::try_from(deleted).unwrap_or(i32::MAX);
        Ok(Reply::ok(Map::new().with(key::MESSAGE_COUNT, deleted)))
    }

    fn add_rule(&self, subscription: EntityId, body: &Arguments<'_>) -> Answer {
        let name = body.text(key::RULE_NAME)?;
        let rule = rules::decode(name, &body.map(key::RULE_DESCRIPTION)?)?;
        self.hub
            .run(self.mailbox(), AddRule { subscription, rule })?;
        Ok(Reply::ok(Map::new()))
    }

    fn remove_rule(&self, subscription: EntityId, body: &Arguments<'_>) -> Answer {
        let command = RemoveRule {
            subscription,
            name: body.text(key::RULE_NAME)?.to_string(),
        };
        self.hub.run(self.mailbox(), command)?;
        Ok(Reply::ok(Map::new()))
    }

    fn enumerate_rules(&self, subscription: EntityId, body: &Arguments<'_>) -> Answer {
        let command = EnumerateRules {
            subscription,
            skip: body.size(key::SKIP)?,
            top: body.size(key::TOP)?,
        };
        let rules: Vec<Value> = self
            .hub
            .run(self.mailbox(), command)?
            .iter()
            .map(|rule| Value::Map(Map::new().with(key::RULE_DESCRIPTION, rules::encode(rule))))
            .collect();
        if rules.is_empty() {
            return Ok(Reply {
                status: 204,
                ..Reply::ok(Map::new())
            });
        }
        Ok(Reply::ok(Map::new().with(key::RULES, rules)))
    }
}

/// There is nothing, and that is no failure: 204.
fn nothing(condition: Symbol, description: &str) -> Reply {
    Reply {
        status: 204,
        description: description.into(),
        condition: Some(condition),
        body: Value::Null,
    }
}

/// A message with all sections but its body.
fn without_body(encoded: Bytes) -> Bytes {
    let Ok(mut message) = Message::decode(encoded.clone()) else {
        return encoded;
    };
    message.body = Body::Empty;
    let mut out = BytesMut::new();
    match message.encode(&mut out) {
        Ok(()) => out.freeze(),
        Err(_) => encoded,
    }
}

/// An array of values of one type.
fn array(values: impl Iterator<Item = Value>) -> Value {
    Value::Array(Array::new(values.collect()).unwrap_or_default())
}
