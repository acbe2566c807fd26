use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use servicebus_amqp::types::{
    Body, Header, LazyMap, Map, Message as AmqpMessage, Properties, Symbol, Timestamp,
};

use super::Message;
use crate::error::{Error, ErrorKind, Result};
use crate::names::annotation;
use crate::time::{END_OF_TIME, millis_u32};

/// Room for the sections around a body, so that most messages are encoded without a second allocation.
const ENVELOPE: usize = 192;

/// Bytes that the sections before the bodies of many messages are taken from. Small, because one message that waits for
/// long keeps all of them.
const HEADS: usize = 4 * 1024;

thread_local! {
    static ROOM: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// An encoded message: the body apart from what is before it, so that it need not be copied.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    pub(crate) head: Bytes,
    pub(crate) body: Bytes,
}

impl From<Bytes> for Encoded {
    fn from(whole: Bytes) -> Self {
        Self {
            head: whole,
            body: Bytes::new(),
        }
    }
}

impl Message {
    /// The message as it is sent at `now`.
    pub(crate) fn into_parts(self, now: SystemTime) -> Result<Encoded> {
        ROOM.with_borrow_mut(|room| {
            if room.capacity() < ENVELOPE {
                *room = BytesMut::with_capacity(HEADS);
            }
            let body = self.encode_head(room, now)?;
            let head = room.split().freeze();
            Ok(Encoded { head, body })
        })
    }

    /// The message as bytes, sent at `now`.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); and [`ErrorKind::MessageTooLarge`] past the 4 GiB that AMQP can state.
    pub fn encode(&self, now: SystemTime) -> Result<Bytes> {
        self.clone().into_encoded(now)
    }

    /// As [`encode`](Self::encode), of a message that is not needed any more; the cheaper of the two.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn into_encoded(self, now: SystemTime) -> Result<Bytes> {
        let mut out = BytesMut::with_capacity(body_len(&self.body).saturating_add(ENVELOPE));
        self.check()?;
        self.into_amqp(now).encode(&mut out).map_err(too_large)?;
        Ok(out.freeze())
    }

    /// Appends what is before the body, and gives the body.
    pub(crate) fn encode_head(self, out: &mut BytesMut, now: SystemTime) -> Result<Bytes> {
        self.check()?;
        self.into_amqp(now).encode_head(out).map_err(too_large)
    }

    /// The message as AMQP sections, sent at `now`.
    ///
    /// A life is stated in the header, in whole milliseconds and at most 49.7 days, and in full by creation and expiry
    /// time, as .NET and Python do.
    pub fn into_amqp(self, now: SystemTime) -> AmqpMessage {
        let rare = self.amqp.map(|rare| *rare);
        let annotations = [
            (annotation::PARTITION_KEY, self.partition_key),
            (
                annotation::VIA_PARTITION_KEY,
                self.transaction_partition_key,
            ),
        ];
        let more = rare.as_ref().map(|rare| &rare.message_annotations);
        let message_annotations =
            message_annotations(self.scheduled_enqueue_time, annotations, more);
        let rare = rare.unwrap_or_default();

        let (creation_time, absolute_expiry_time) = match self.time_to_live {
            Some(life) => {
                let now = Timestamp::from(now);
                (Some(now), Some(after(now, life)))
            }
            None => (None, None),
        };
        let properties = Properties {
            message_id: self.message_id,
            user_id: rare.user_id,
            to: self.to,
            subject: self.subject,
            reply_to: self.reply_to,
            correlation_id: self.correlation_id,
            content_type: self.content_type.map(Symbol::from),
            content_encoding: rare.content_encoding.map(Symbol::from),
            absolute_expiry_time,
            creation_time,
            group_id: self.session_id,
            group_sequence: rare.group_sequence,
            reply_to_group_id: self.reply_to_session_id,
        };
        let header = Header {
            durable: rare.durable,
            priority: rare.priority,
            ttl: self.time_to_live.map(millis_u32),
            ..Header::default()
        };
        AmqpMessage {
            header: (header != Header::default()).then_some(header),
            delivery_annotations: section(&rare.delivery_annotations),
            message_annotations,
            properties: (properties != Properties::default()).then_some(properties),
            application_properties: section(&self.application_properties),
            body: self.body,
            footer: section(&rare.footer),
        }
    }
}

fn message_annotations(
    scheduled: Option<SystemTime>,
    keys: [(&'static str, Option<ByteString>); 2],
    more: Option<&Map>,
) -> Option<LazyMap> {
    let mut map = Map::new();
    if let Some(time) = scheduled {
        let key = Symbol::from_static(annotation::SCHEDULED_ENQUEUE_TIME);
        map.insert(key, Timestamp::from(time));
    }
    for (name, value) in keys {
        if let Some(value) = value {
            map.insert(Symbol::from_static(name), value);
        }
    }
    for (key, value) in more.into_iter().flat_map(Map::iter) {
        map.insert(key.clone(), value.clone());
    }
    section(&map)
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
