use std::time::Duration;

use servicebus_amqp::types::{
    ByteString, Map, Message, MessageId, Properties, Symbol, Timestamp, Value,
};

use super::{EvaluateError, Scalar};

/// What filters and actions see of a message.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Record {
    /// The standard properties.
    pub properties: Properties,
    /// The properties of the application.
    pub application: Map,
    /// `sys.PartitionKey`
    pub partition_key: Option<ByteString>,
    /// `sys.TimeToLive`
    pub time_to_live: Option<Duration>,
    /// `sys.ScheduledEnqueueTimeUtc`
    pub scheduled_at: Option<Timestamp>,
    /// `sys.EnqueuedTimeUtc`
    pub enqueued_at: Option<Timestamp>,
}

/// The text of an id, as the SDKs show it.
pub(crate) fn id_text(id: &MessageId) -> Option<ByteString> {
    match id {
        MessageId::String(text) => Some(text.clone()),
        MessageId::Ulong(number) => Some(number.to_string().into()),
        MessageId::Uuid(uuid) => Some(uuid.to_string().into()),
        MessageId::Binary(_) => None,
    }
}

impl Record {
    /// The record of a message.
    ///
    /// # Errors
    ///
    /// When the application properties are malformed.
    pub fn new(message: &Message) -> Result<Self, EvaluateError> {
        let application = match &message.application_properties {
            Some(map) => map
                .decode()
                .map_err(|error| EvaluateError(format!("application properties: {error}")))?,
            None => Map::new(),
        };
        Ok(Self {
            properties: message.properties.clone().unwrap_or_default(),
            application,
            ..Self::default()
        })
    }

    /// The application property of this name, in any case.
    pub(crate) fn user(&self, name: &str) -> Option<&Value> {
        self.application
            .iter()
            .find(|(key, _)| key.as_text().is_some_and(|key| same_name(key, name)))
            .map(|(_, value)| value)
    }

    /// Sets an application property; keeps the spelling of one that is there.
    pub(super) fn set_user(&mut self, name: &str, scalar: &Scalar) {
        for (key, value) in &mut self.application.0 {
            if key.as_text().is_some_and(|key| same_name(key, name)) {
                *value = scalar.to_value(Some(value));
                return;
            }
        }
        self.application.insert(name, scalar.to_value(None));
    }

    pub(super) fn remove_user(&mut self, name: &str) {
        self.application
            .0
            .retain(|(key, _)| key.as_text().is_none_or(|key| !same_name(key, name)));
    }

    /// The system property of this name, in any case; `None` if it is not set.
    pub(super) fn system(&self, name: &str) -> Result<Option<Scalar>, EvaluateError> {
        let p = &self.properties;
        let text = |text: &Option<ByteString>| text.clone().map(Scalar::Text);
        let id = |id: &Option<MessageId>| id.as_ref().and_then(id_text).map(Scalar::Text);
        Ok(match name.to_ascii_lowercase().as_str() {
            "contenttype" => p
                .content_type
                .clone()
                .map(|symbol| Scalar::Text(symbol.into_inner())),
            "correlationid" => id(&p.correlation_id),
            "label" | "subject" => text(&p.subject),
            "messageid" => id(&p.message_id),
            "replyto" => text(&p.reply_to),
            "replytosessionid" => text(&p.reply_to_group_id),
            "sessionid" => text(&p.group_id),
            "to" => text(&p.to),
            "partitionkey" => text(&self.partition_key),
            "timetolive" => self
                .time_to_live
                .map(|ttl| Scalar::Ticks(i64::try_from(ttl.as_nanos() / 100).unwrap_or(i64::MAX))),
            "scheduledenqueuetimeutc" => self.scheduled_at.map(Scalar::Timestamp),
            "enqueuedtimeutc" => self.enqueued_at.map(Scalar::Timestamp),
            "deliverycount" | "state" => Some(Scalar::Int(0)),
            // Known to the service, without a value when a message is on its way into a subscription.
            "deadlettersource"
            | "enqueuedsequencenumber"
            | "expiresatutc"
            | "lockeduntilutc"
            | "locktoken"
            | "sequencenumber"
            | "size"
            | "viapartitionkey" => None,
            _ => return Err(no_such(name)),
        })
    }

    /// Sets or removes a system property.
    pub(super) fn set_system(
        &mut self,
        name: &str,
        scalar: Option<Scalar>,
    ) -> Result<(), EvaluateError> {
        let text = match scalar {
            None => None,
            Some(Scalar::Text(text)) => Some(text),
            Some(Scalar::Uuid(uuid)) => Some(uuid.to_string().into()),
            Some(Scalar::Int(number)) => Some(number.to_string().into()),
            Some(other) => {
                return Err(EvaluateError(format!(
                    "sys.{name} is text and cannot be set to {}",
                    other.kind()
                )));
            }
        };
        let p = &mut self.properties;
        match name.to_ascii_lowercase().as_str() {
            "contenttype" => p.content_type = text.map(Symbol::from),
            "correlationid" => p.correlation_id = text.map(MessageId::String),
            "label" | "subject" => p.subject = text,
            "messageid" => p.message_id = text.map(MessageId::String),
            "replyto" => p.reply_to = text,
            "replytosessionid" => p.reply_to_group_id = text,
            "sessionid" => p.group_id = text,
            "to" => p.to = text,
            _ => {
                self.system(name)?;
                return Err(EvaluateError(format!("sys.{name} cannot be changed")));
            }
        }
        Ok(())
    }
}

fn no_such(name: &str) -> EvaluateError {
    EvaluateError(format!("there is no system property '{name}'"))
}

/// Names of properties are compared without regard to case.
fn same_name(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
        || (!(a.is_ascii() && b.is_ascii()) && a.to_lowercase() == b.to_lowercase())
}
