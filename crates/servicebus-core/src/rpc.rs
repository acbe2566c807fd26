//! Requests and answers as messages: what `$cbs` and `$management` have in common.

use std::time::Duration;

use bytestring::ByteString;
use servicebus_amqp::types::{Body, LazyMap, Map, Message, MessageId, Properties, Symbol, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::names::rpc as names;
use crate::time::millis_u32;

/// A request before it has an id and a way back.
#[derive(Clone, PartialEq)]
pub struct Request {
    pub(crate) operation: &'static str,
    pub(crate) to: Option<ByteString>,
    pub(crate) properties: Map,
    pub(crate) body: Value,
}

impl std::fmt::Debug for Request {
    /// Leaves the body out: it may be a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("operation", &self.operation)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}

/// What a request carries beside its content.
#[derive(Clone, Debug)]
#[allow(
    clippy::exhaustive_structs,
    reason = "built by the one request client of this crate"
)]
pub struct Envelope {
    /// The id that the answer carries as its correlation id.
    pub message_id: MessageId,
    /// The address of the link that takes the answer.
    pub reply_to: ByteString,
    /// How long the service may take; whole milliseconds, at most 49.7 days.
    pub server_timeout: Option<Duration>,
    /// A name for the request in the logs of both sides.
    pub tracking_id: Option<ByteString>,
    /// The link that the request is made for. Keeps that link from being idle, and shows the service its session.
    pub associated_link: Option<ByteString>,
}

impl Request {
    /// The request as a message.
    pub fn message(&self, envelope: &Envelope) -> Message {
        let mut properties = Map::new().with(names::OPERATION, self.operation);
        if let Some(timeout) = envelope.server_timeout {
            properties.insert(names::SERVER_TIMEOUT, millis_u32(timeout));
        }
        if let Some(tracking_id) = &envelope.tracking_id {
            properties.insert(names::TRACKING_ID, tracking_id.clone());
        }
        if let Some(link) = &envelope.associated_link {
            properties.insert(names::ASSOCIATED_LINK_NAME, link.clone());
        }
        properties.0.extend(self.properties.0.iter().cloned());
        Message {
            properties: Some(Properties {
                message_id: Some(envelope.message_id.clone()),
                to: self.to.clone(),
                reply_to: Some(envelope.reply_to.clone()),
                ..Properties::default()
            }),
            application_properties: Some(LazyMap::from(&properties)),
            body: Body::Value(self.body.clone()),
            ..Message::default()
        }
    }

    /// The name of the operation.
    pub fn operation(&self) -> &'static str {
        self.operation
    }
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    status: i32,
    condition: Option<Symbol>,
    description: Option<ByteString>,
    tracking_id: Option<ByteString>,
    body: Body,
}

impl Answer {
    /// Reads an answer: either spelling of the keys, a status of any integer type.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] when there is no status or the properties cannot be read.
    pub fn read(message: Message) -> Result<Self> {
        let mut status = None;
        let mut condition = None;
        let mut description = None;
        let mut tracking_id = None;
        for pair in message
            .application_properties
            .iter()
            .flat_map(LazyMap::iter)
        {
            let (key, value) = pair.map_err(|error| {
                protocol("the properties of an answer cannot be read").with_source(error)
            })?;
            match key.as_text() {
                Some(names::STATUS_CODE | names::STATUS_CODE_CBS) => status = value.as_i64(),
                Some(names::ERROR_CONDITION | names::ERROR_CONDITION_CBS) => {
                    condition = value.as_text().map(Symbol::from);
                }
                Some(names::STATUS_DESCRIPTION | names::STATUS_DESCRIPTION_CBS) => {
                    description = value.as_text().map(ByteString::from);
                }
                Some(names::TRACKING_ID) => tracking_id = value.as_text().map(ByteString::from),
                _ => {}
            }
        }
        let status = status
            .and_then(|status| i32::try_from(status).ok())
            .ok_or_else(|| protocol("an answer has no status code"))?;
        Ok(Self {
            status,
            condition,
            description,
            tracking_id,
            body: message.body,
        })
    }

    /// The status code: 2xx is success.
    pub fn status(&self) -> i32 {
        self.status
    }

    /// Whether the service says that there is nothing: 204, or "not found" of a message or a session.
    pub(crate) fn is_nothing(&self) -> bool {
        use crate::names::condition::{MESSAGE_NOT_FOUND, SESSION_NOT_FOUND};
        self.status == 204
            || self.condition.as_ref().is_some_and(|condition| {
                self.status == 404
                    && [MESSAGE_NOT_FOUND, SESSION_NOT_FOUND].contains(&condition.as_str())
            })
    }

    /// The body of a success: its map, which is empty when there is no body.
    ///
    /// # Errors
    ///
    /// What the status and the condition mean, when it is a failure; [`ErrorKind::Protocol`] when the body is not a
    /// map.
    pub fn content(self) -> Result<Map> {
        if !(200..300).contains(&self.status) {
            return Err(self.into_error());
        }
        match self.body {
            Body::Value(Value::Map(map)) => Ok(map),
            Body::Empty | Body::Value(Value::Null) => Ok(Map::new()),
            _ => Err(protocol("the body of an answer is not a map")),
        }
    }

    /// Whether it is a success, whatever the body is.
    ///
    /// # Errors
    ///
    /// What the status and the condition mean.
    pub fn success(self) -> Result<()> {
        if (200..300).contains(&self.status) {
            Ok(())
        } else {
            Err(self.into_error())
        }
    }

    fn into_error(self) -> Error {
        let error = Error::from_status(
            self.status,
            self.condition.as_ref(),
            self.description.as_deref(),
        );
        match self.tracking_id {
            Some(id) if error.tracking_id().is_none() => error.with_tracking_id(&*id),
            _ => error,
        }
    }
}

/// An error about an answer that makes no sense.
pub(crate) fn protocol(text: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Protocol, text)
}

/// A field of an answer that has to be there.
pub(crate) fn field<'a, T>(
    map: &'a Map,
    key: &str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<T> {
    let value = map
        .get(key)
        .ok_or_else(|| protocol(format!("the answer has no field '{key}'")))?;
    read(value).ok_or_else(|| protocol(format!("the answer's field '{key}' is of a wrong type")))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An answer as the service sends it to a management request.
    pub(crate) fn answer(status: i32, body: Body) -> Answer {
        answer_with(status, None, body)
    }

    pub(crate) fn answer_with(status: i32, condition: Option<&str>, body: Body) -> Answer {
        let mut properties = Map::new().with(names::STATUS_CODE, status);
        if let Some(condition) = condition {
            properties.insert(names::ERROR_CONDITION, Symbol::from(condition));
        }
        read(properties, body).unwrap()
    }

    fn read(properties: Map, body: Body) -> Result<Answer> {
        Answer::read(Message {
            application_properties: Some(LazyMap::from(&properties)),
            body,
            ..Message::default()
        })
    }

    #[test]
    fn b50_the_status_may_be_of_any_integer_type_and_spelling() {
        for key in ["status-code", "statusCode"] {
            for value in [
                Value::Int(202),
                Value::Uint(202),
                Value::Long(202),
                Value::Ulong(202),
                Value::Ushort(202),
            ] {
                let answer = read(Map::new().with(key, value), Body::Empty).unwrap();
                assert_eq!(answer.status(), 202);
                assert!(answer.success().is_ok());
            }
        }
    }

    #[test]
    fn b50_an_answer_without_a_status_breaks_the_protocol() {
        let rows = [
            Map::new(),
            Map::new().with("statusCode", Value::Null),
            Map::new().with("statusCode", "200"),
            Map::new().with("statusCode", i64::MAX),
        ];
        for properties in rows {
            let error = read(properties, Body::Empty).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Protocol);
        }
    }

    #[test]
    fn a_failure_keeps_what_the_service_said() {
        let properties = Map::new()
            .with("statusCode", 410)
            .with(
                "errorCondition",
                Symbol::from("com.microsoft:message-lock-lost"),
            )
            .with("statusDescription", "the lock is gone")
            .with("com.microsoft:tracking-id", "t-1");
        let error = read(properties, Body::Empty)
            .unwrap()
            .content()
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MessageLockLost);
        assert_eq!(error.status(), Some(410));
        assert_eq!(error.tracking_id(), Some("t-1"));
        assert!(error.to_string().starts_with("the lock is gone"));
    }

    #[test]
    fn b67_success_without_a_body_is_an_empty_map() {
        for body in [
            Body::Empty,
            Body::Value(Value::Null),
            Body::Value(Map::new().into()),
        ] {
            assert_eq!(answer(200, body).content().unwrap(), Map::new());
        }
    }
}
