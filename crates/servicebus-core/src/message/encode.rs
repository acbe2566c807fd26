use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use servicebus_amqp::types::{
    Body, Header, LazyMap, Map, Message as AmqpMessage, Properties, Symbol, Timestamp,
};

use super::{AmqpFields, Message};
use crate::error::{Error, ErrorKind, Result};
use crate::names::annotation;
use crate::time::{END_OF_TIME, millis_u32};

/// Room for the sections around a body, so that most messages are encoded without a second allocation.
const ENVELOPE: usize = 192;

impl Message {
    /// The message as bytes, sent at `now`.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); and [`ErrorKind::MessageTooLarge`] past the 4 GiB that AMQP can state.
    pub fn encode(&self, now: SystemTime) -> Result<Bytes> {
        let mut out = BytesMut::with_capacity(body_len(&self.body).saturating_add(ENVELOPE));
        self.encode_to(&mut out, now)?;
        Ok(out.freeze())
    }

    pub(crate) fn encode_to(&self, out: &mut BytesMut, now: SystemTime) -> Result<()> {
        self.check()?;
        self.to_amqp(now).encode(out).map_err(too_large)
    }

    /// The message as AMQP sections, sent at `now`.
    ///
    /// A life is stated in the header, in whole milliseconds and at most 49.7 days, and in full by creation and expiry
    /// time, as .NET and Python do.
    pub fn to_amqp(&self, now: SystemTime) -> AmqpMessage {
        let rare = self.amqp.as_deref();
        AmqpMessage {
            header: self.header(),
            delivery_annotations: rare.and_then(|rare| section(&rare.delivery_annotations)),
            message_annotations: self.annotations(),
            properties: self.properties(now),
            application_properties: section(&self.application_properties),
            body: self.body.clone(),
            footer: rare.and_then(|rare| section(&rare.footer)),
        }
    }

    fn header(&self) -> Option<Header> {
        let (durable, priority) = self
            .amqp
            .as_ref()
            .map_or((None, None), |rare| (rare.durable, rare.priority));
        let ttl = self.time_to_live.map(millis_u32);
        let something = ttl.is_some() || durable.is_some() || priority.is_some();
        something.then(|| Header {
            durable,
            priority,
            ttl,
            ..Header::default()
        })
    }

    fn properties(&self, now: SystemTime) -> Option<Properties> {
        let rare = self.amqp.as_deref();
        let (creation, expiry) = match self.time_to_live {
            Some(life) => {
                let now = Timestamp::from(now);
                (Some(now), Some(after(now, life)))
            }
            None => (None, None),
        };
        let properties = Properties {
            message_id: self.message_id.clone(),
            user_id: rare.and_then(|rare| rare.user_id.clone()),
            to: self.to.clone(),
            subject: self.subject.clone(),
            reply_to: self.reply_to.clone(),
            correlation_id: self.correlation_id.clone(),
            content_type: self.content_type.clone().map(Symbol::from),
            content_encoding: rare
                .and_then(|rare| rare.content_encoding.clone())
                .map(Symbol::from),
            absolute_expiry_time: expiry,
            creation_time: creation,
            group_id: self.session_id.clone(),
            group_sequence: rare.and_then(|rare| rare.group_sequence),
            reply_to_group_id: self.reply_to_session_id.clone(),
        };
        (properties != Properties::default()).then_some(properties)
    }

    fn annotations(&self) -> Option<LazyMap> {
        let more = self.amqp.as_deref().map(AmqpFields::message_annotations);
        let more = more.filter(|map| !map.is_empty());
        if self.scheduled_enqueue_time.is_none()
            && self.partition_key.is_none()
            && self.transaction_partition_key.is_none()
            && more.is_none()
        {
            return None;
        }
        let mut map = Map::new();
        if let Some(time) = self.scheduled_enqueue_time {
            let key = Symbol::from_static(annotation::SCHEDULED_ENQUEUE_TIME);
            map.insert(key, Timestamp::from(time));
        }
        let keys = [
            (annotation::PARTITION_KEY, &self.partition_key),
            (
                annotation::VIA_PARTITION_KEY,
                &self.transaction_partition_key,
            ),
        ];
        for (name, value) in keys {
            if let Some(value) = value {
                map.insert(Symbol::from_static(name), value.clone());
            }
        }
        for (key, value) in more.into_iter().flat_map(Map::iter) {
            map.insert(key.clone(), value.clone());
        }
        Some(LazyMap::from(&map))
    }
}

impl AmqpFields {
    fn message_annotations(&self) -> &Map {
        &self.message_annotations
    }
}

fn section(map: &Map) -> Option<LazyMap> {
    (!map.is_empty()).then(|| LazyMap::from(map))
}

fn after(now: Timestamp, life: Duration) -> Timestamp {
    let life = i64::try_from(life.as_millis()).unwrap_or(i64::MAX);
    let end = now.as_millis().saturating_add(life);
    Timestamp::from_millis(end).min(END_OF_TIME)
}

fn body_len(body: &Body) -> usize {
    match body {
        Body::Data(bytes) => bytes.len(),
        Body::DataSections(sections) => sections.iter().map(Bytes::len).sum(),
        _ => 0,
    }
}

pub(crate) fn too_large(error: servicebus_amqp::codec::EncodeError) -> Error {
    Error::new(ErrorKind::MessageTooLarge, "the message cannot be encoded").with_source(error)
}
