use std::{borrow::Cow, ops::Range, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use servicebus_amqp::types::{ByteString, Map, Message, Properties, Timestamp, Value};

use super::decimal;
use super::sections::{self, Malformed, Section, code};
use crate::{
    broker::{Error, ErrorKind},
    names::annotation,
};

/// The message-format of a batch: a message whose data sections are messages.
pub(crate) const BATCH_FORMAT: u32 = 0x8001_3700;

/// What a sender sent, apart from the state that the broker gives it. Shared by the copies in several subscriptions.
///
/// The bare message is kept as it came, in bytes of its own, so that no receive buffer is held alive by it.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Content {
    /// The bare message and the footer, byte for byte but for decimals among the application properties.
    pub(super) bare: Bytes,
    /// Encoded pairs of the message annotations that are the sender's own.
    pub(super) annotations: Box<[u8]>,
    /// How many keys and values that is.
    pub(super) annotation_elements: u32,
    /// Encoded pairs of the delivery annotations. AMQP means them for one hop; the service passes them on.
    pub(super) delivery_annotations: Box<[u8]>,
    /// How many keys and values that is.
    pub(super) delivery_annotation_elements: u32,
    pub(super) durable: Option<bool>,
    pub(super) priority: Option<u8>,
    /// The sender's time to live in milliseconds.
    pub(super) ttl: Option<u32>,
    /// Where in `bare` the value of message-id is.
    message_id: Span,
    /// Where in `bare` the text of group-id is.
    session_id: Span,
    /// When the sender wants the message to become active.
    scheduled_at: i64,
}

const NOT_SCHEDULED: i64 = i64::MIN;

/// A range of the bare message; absent when its start is `u32::MAX`.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    len: u32,
}

impl Span {
    const ABSENT: Self = Self {
        start: u32::MAX,
        len: 0,
    };

    fn new(start: usize, end: usize) -> Self {
        match (u32::try_from(start), u32::try_from(end - start)) {
            (Ok(start), Ok(len)) => Self { start, len },
            _ => Self::ABSENT,
        }
    }

    fn of(self, bytes: &[u8]) -> Option<&[u8]> {
        let start = self.start as usize;
        (self.start != u32::MAX)
            .then(|| bytes.get(start..start + self.len as usize))
            .flatten()
    }
}

/// Annotations that only the broker sets; what senders say there is not kept.
const BROKER_ANNOTATIONS: [&str; 8] = [
    annotation::ENQUEUED_TIME,
    annotation::SEQUENCE_NUMBER,
    annotation::ENQUEUE_SEQUENCE_NUMBER,
    annotation::LOCKED_UNTIL,
    annotation::SCHEDULED_ENQUEUE_TIME,
    annotation::DEAD_LETTER_SOURCE,
    annotation::MESSAGE_STATE,
    annotation::LOCK_TOKEN,
];

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        Self::new(
            ErrorKind::InvalidMessage,
            format!(
                "The message could not be decoded: {} (at byte {}).",
                malformed.what, malformed.at
            ),
        )
    }
}

impl Content {
    /// The messages of one transfer: one, or those of a batch.
    pub(in crate::broker) fn parse_transfer(
        payload: &[u8],
        format: u32,
    ) -> Result<Vec<Self>, Error> {
        if format != BATCH_FORMAT {
            return Ok(vec![Self::parse(payload)?]);
        }
        let mut messages = Vec::new();
        let mut at = 0;
        while at < payload.len() {
            let section = sections::section(payload, at)?;
            if section.code == code::DATA {
                let inner = sections::binary(payload, &section.value)?;
                messages.push(Self::parse(payload.get(inner).unwrap_or_default())?);
            }
            at = section.whole.end;
        }
        if messages.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidMessage,
                "The batch holds no message.",
            ));
        }
        Ok(messages)
    }

    /// One message.
    pub(in crate::broker) fn parse(payload: &[u8]) -> Result<Self, Error> {
        let mut content = Self {
            bare: Bytes::new(),
            annotations: Box::default(),
            annotation_elements: 0,
            delivery_annotations: Box::default(),
            delivery_annotation_elements: 0,
            durable: None,
            priority: None,
            ttl: None,
            message_id: Span::ABSENT,
            session_id: Span::ABSENT,
            scheduled_at: NOT_SCHEDULED,
        };
        if payload.is_empty() {
            return Err(Malformed {
                at: 0,
                what: "no section",
            }
            .into());
        }
        // Almost always one run; more only where a client puts annotations behind the body.
        let mut bare = Cow::Borrowed(&[][..]);
        let mut run = 0..0;
        let mut seen = 0u16;
        let mut decimals = false;
        let mut at = 0;
        while at < payload.len() {
            let section = sections::section(payload, at)?;
            at = section.whole.end;
            if section.code == code::APPLICATION_PROPERTIES {
                let properties = payload.get(section.value.clone()).unwrap_or_default();
                decimals = decimal::is_possible(properties);
            }
            let bit = 1 << (section.code - code::HEADER);
            if seen & bit != 0 && section.code != code::DATA && section.code != 0x76 {
                return Err(Malformed {
                    at: section.whole.start,
                    what: "a second section of this kind",
                }
                .into());
            }
            seen |= bit;
            match section.code {
                code::HEADER => content.read_header(payload, &section)?,
                code::DELIVERY_ANNOTATIONS => {
                    content.read_delivery_annotations(payload, &section)?;
                }
                code::MESSAGE_ANNOTATIONS => content.read_annotations(payload, &section)?,
                _ if run.end == section.whole.start => run.end = section.whole.end,
                _ => {
                    join(&mut bare, payload, &run);
                    run = section.whole;
                }
            }
        }
        join(&mut bare, payload, &run);
        if decimals {
            decimal::rewrite(bare.to_mut())?;
        }
        content.bare = Bytes::copy_from_slice(&bare);
        content.find_ids()?;
        Ok(content)
    }

    fn read_header(&mut self, payload: &[u8], section: &Section) -> Result<(), Malformed> {
        let (mut at, count) = sections::elements(payload, &section.value)?;
        for index in 0..count.min(3) {
            let value = at..sections::end_of_value(payload, at)?;
            match index {
                0 => self.durable = sections::boolean(payload, &value)?,
                1 => {
                    self.priority =
                        sections::uint(payload, &value)?.and_then(|n| u8::try_from(n).ok());
                }
                // Zero would mean that nobody may ever have the message; clients send it for "not set".
                _ => self.ttl = sections::uint(payload, &value)?.filter(|ttl| *ttl != 0),
            }
            at = value.end;
        }
        Ok(())
    }

    fn read_annotations(&mut self, payload: &[u8], section: &Section) -> Result<(), Malformed> {
        let (kept, elements) = self.read_pairs(payload, section)?;
        (self.annotations, self.annotation_elements) = (kept, elements);
        Ok(())
    }

    fn read_delivery_annotations(
        &mut self,
        payload: &[u8],
        section: &Section,
    ) -> Result<(), Malformed> {
        let (kept, elements) = self.read_pairs(payload, section)?;
        (self.delivery_annotations, self.delivery_annotation_elements) = (kept, elements);
        Ok(())
    }

    /// The encoded pairs of annotations that are the sender's own, and how many keys and values that is.
    fn read_pairs(
        &mut self,
        payload: &[u8],
        section: &Section,
    ) -> Result<(Box<[u8]>, u32), Malformed> {
        let (mut at, count) = sections::elements(payload, &section.value)?;
        let (mut kept, mut elements) = (Vec::new(), 0);
        for _ in 0..count / 2 {
            let start = at;
            let key_end = sections::end_of_value(payload, at)?;
            let value = key_end..sections::end_of_value(payload, key_end)?;
            at = value.end;
            // Keys of other types are reserved by AMQP; they are passed on like the unknown ones.
            let key = sections::text(payload, &(start..key_end)).ok().flatten();
            if key == Some(annotation::SCHEDULED_ENQUEUE_TIME) {
                self.scheduled_at = sections::timestamp(payload, &value)?.unwrap_or(NOT_SCHEDULED);
            }
            if key.is_some_and(|key| BROKER_ANNOTATIONS.contains(&key)) {
                continue;
            }
            kept.extend_from_slice(payload.get(start..at).unwrap_or_default());
            elements += 2;
        }
        Ok((kept.into(), elements))
    }

    /// Finds the message id and the session id in the bare message.
    fn find_ids(&mut self) -> Result<(), Malformed> {
        let mut at = 0;
        while at < self.bare.len() {
            let section = sections::section(&self.bare, at)?;
            at = section.whole.end;
            if section.code == code::PROPERTIES {
                let (mut at, count) = sections::elements(&self.bare, &section.value)?;
                for index in 0..count.min(11) {
                    let value = at..sections::end_of_value(&self.bare, at)?;
                    if index == 0 && self.bare.get(at) != Some(&0x40) {
                        self.message_id = Span::new(value.start, value.end);
                    } else if index == 10
                        && let Some(text) = sections::text(&self.bare, &value)?
                    {
                        self.session_id = Span::new(value.end - text.len(), value.end);
                    }
                    at = value.end;
                }
            }
            if matches!(section.code, code::PROPERTIES | code::DATA..) {
                // Properties come before the body, which may be long.
                return Ok(());
            }
        }
        Ok(())
    }

    /// How many bytes the message counts for.
    pub(in crate::broker) fn size(&self) -> u64 {
        (self.bare.len() + self.annotations.len() + self.delivery_annotations.len()) as u64
    }

    /// The session id, if there is one.
    pub(in crate::broker) fn session_id(&self) -> Option<&str> {
        // Checked to be UTF-8 when it was found.
        self.session_id
            .of(&self.bare)
            .and_then(|bytes| str::from_utf8(bytes).ok())
    }

    /// The bytes by which message ids are compared: equal exactly for equal ids of the same type.
    pub(in crate::broker) fn message_id_key(&self) -> Option<Box<[u8]>> {
        let encoded = self.message_id.of(&self.bare)?;
        let (tag, bytes): (u8, &[u8]) = match *encoded {
            [0xa1, _, ref text @ ..] | [0xb1, _, _, _, _, ref text @ ..] => (0xa1, text),
            [0xa0, _, ref bytes @ ..] | [0xb0, _, _, _, _, ref bytes @ ..] => (0xa0, bytes),
            [0x44] => (0x80, &[]),
            [0x53, ref n @ ..] => (0x80, n),
            [0x80, ref n @ ..] => {
                let zeros = n.iter().take_while(|b| **b == 0).count();
                (0x80, n.get(zeros..).unwrap_or_default())
            }
            [tag, ref bytes @ ..] => (tag, bytes),
            [] => return None,
        };
        if bytes.is_empty() && tag != 0x80 {
            return None;
        }
        let mut key = Vec::with_capacity(bytes.len() + 1);
        key.push(tag);
        key.extend_from_slice(bytes);
        Some(key.into())
    }

    /// The message id, when it is text.
    pub(in crate::broker) fn message_id_text(&self) -> Option<ByteString> {
        match self.message_id.of(&self.bare)? {
            [0xa1, _, text @ ..] | [0xb1, _, _, _, _, text @ ..] => {
                str::from_utf8(text).ok().map(ByteString::from)
            }
            _ => None,
        }
    }

    /// The partition key, if there is one.
    pub(in crate::broker) fn partition_key(&self) -> Option<&str> {
        let mut at = 0;
        while at < self.annotations.len() {
            let key = at..sections::end_of_value(&self.annotations, at).ok()?;
            let value = key.end..sections::end_of_value(&self.annotations, key.end).ok()?;
            at = value.end;
            if sections::text(&self.annotations, &key) == Ok(Some(annotation::PARTITION_KEY)) {
                return sections::text(&self.annotations, &value).ok().flatten();
            }
        }
        None
    }

    /// When the sender wants the message to become active.
    pub(in crate::broker) fn scheduled_at(&self) -> Option<Timestamp> {
        (self.scheduled_at != NOT_SCHEDULED).then(|| Timestamp::from_millis(self.scheduled_at))
    }

    /// The sender's time to live.
    pub(in crate::broker) fn time_to_live(&self) -> Option<Duration> {
        self.ttl.map(|millis| Duration::from_millis(millis.into()))
    }

    /// The bytes of properties and application properties.
    pub(in crate::broker) fn header_size(&self) -> usize {
        let mut size = 0;
        let mut at = 0;
        while let Ok(section) = sections::section(&self.bare, at) {
            if matches!(
                section.code,
                code::PROPERTIES | code::APPLICATION_PROPERTIES
            ) {
                size += section.whole.len();
            }
            at = section.whole.end;
        }
        size
    }

    /// The bare message, decoded.
    pub(in crate::broker) fn decode(&self) -> Result<Message, Error> {
        Message::decode(self.bare.clone()).map_err(|error| {
            Error::new(
                ErrorKind::InvalidMessage,
                format!("The message could not be decoded: {error}."),
            )
        })
    }

    /// The same message with application properties set; values of the same names are replaced.
    pub(in crate::broker) fn with_application_properties(
        &self,
        changes: &Map,
    ) -> Result<Self, Error> {
        if changes.is_empty() {
            return Ok(self.clone());
        }
        let section = self.find_section(code::APPLICATION_PROPERTIES)?;
        let mut pairs = BytesMut::new();
        let mut elements = 0u32;
        if let Some(section) = &section {
            let (mut at, count) = sections::elements(&self.bare, &section.value)?;
            for _ in 0..count / 2 {
                let start = at;
                let key = start..sections::end_of_value(&self.bare, start)?;
                at = sections::end_of_value(&self.bare, key.end)?;
                let name = sections::text(&self.bare, &key)?;
                if name.is_none_or(|name| changes.get(name).is_none()) {
                    pairs.put_slice(self.bare.get(start..at).unwrap_or_default());
                    elements += 2;
                }
            }
        }
        for (key, value) in changes.iter() {
            let Some(name) = key.as_text() else {
                return Err(Error::invalid("The name of a property must be text."));
            };
            encode(&Value::from(name), &mut pairs)?;
            encode(value, &mut pairs)?;
            elements += 2;
        }
        self.with_section(
            section,
            code::APPLICATION_PROPERTIES,
            &map(&pairs, elements),
        )
    }

    /// The same message with other properties and application properties.
    pub(in crate::broker) fn with_all_properties(
        &self,
        properties: Properties,
        application_properties: &Map,
    ) -> Result<Self, Error> {
        let mut pairs = BytesMut::new();
        for (key, value) in application_properties.iter() {
            encode(key, &mut pairs)?;
            encode(value, &mut pairs)?;
        }
        let elements = u32::try_from(application_properties.len() * 2).unwrap_or(u32::MAX);
        let section = self.find_section(code::APPLICATION_PROPERTIES)?;
        let changed = self.with_section(
            section,
            code::APPLICATION_PROPERTIES,
            &map(&pairs, elements),
        )?;

        let mut encoded = BytesMut::new();
        let message = Message {
            properties: Some(properties),
            ..Message::default()
        };
        message
            .encode(&mut encoded)
            .map_err(|error| Error::invalid(error.to_string()))?;
        let value = sections::section(&encoded, 0)?.value;
        let section = changed.find_section(code::PROPERTIES)?;
        changed.with_section(
            section,
            code::PROPERTIES,
            encoded.get(value).unwrap_or_default(),
        )
    }

    /// The same message with an annotation of the broker's.
    pub(in crate::broker) fn with_annotation(&self, key: &str, value: &str) -> Result<Self, Error> {
        let mut pairs = BytesMut::from(&*self.annotations);
        encode(
            &Value::Symbol(servicebus_amqp::types::Symbol::from(key)),
            &mut pairs,
        )?;
        encode(&Value::from(value), &mut pairs)?;
        Ok(Self {
            annotations: Box::from(&*pairs),
            annotation_elements: self.annotation_elements + 2,
            ..self.clone()
        })
    }

    /// The same message, not scheduled.
    pub(in crate::broker) fn without_schedule(&self) -> Self {
        Self {
            scheduled_at: NOT_SCHEDULED,
            ..self.clone()
        }
    }

    /// The section of this kind in the bare message.
    pub(super) fn find_section(&self, wanted: u8) -> Result<Option<Section>, Malformed> {
        let mut at = 0;
        while at < self.bare.len() {
            let section = sections::section(&self.bare, at)?;
            if section.code == wanted {
                return Ok(Some(section));
            }
            at = section.whole.end;
        }
        Ok(None)
    }

    /// The same message with `value` as the value of a section, in the place of `old` or where AMQP puts it.
    fn with_section(&self, old: Option<Section>, code: u8, value: &[u8]) -> Result<Self, Error> {
        let place = match old {
            Some(section) => section.whole,
            None if code == code::APPLICATION_PROPERTIES => {
                let after = self
                    .find_section(code::PROPERTIES)?
                    .map_or(0, |section| section.whole.end);
                after..after
            }
            None => 0..0,
        };
        let mut bare = Vec::with_capacity(self.bare.len() + value.len() + 3);
        bare.extend_from_slice(self.bare.get(..place.start).unwrap_or_default());
        bare.extend_from_slice(&[0x00, 0x53, code]);
        bare.extend_from_slice(value);
        bare.extend_from_slice(self.bare.get(place.end..).unwrap_or_default());
        bare.shrink_to_fit();
        let mut changed = Self {
            bare: bare.into(),
            message_id: Span::ABSENT,
            session_id: Span::ABSENT,
            ..self.clone()
        };
        changed.find_ids()?;
        Ok(changed)
    }
}

/// Appends a run of the payload; copies only from the second run on.
fn join<'a>(bare: &mut Cow<'a, [u8]>, payload: &'a [u8], run: &Range<usize>) {
    let run = payload.get(run.clone()).unwrap_or_default();
    if bare.is_empty() {
        *bare = Cow::Borrowed(run);
    } else if !run.is_empty() {
        bare.to_mut().extend_from_slice(run);
    }
}

fn encode(value: &Value, out: &mut BytesMut) -> Result<(), Error> {
    value
        .encode(out)
        .map_err(|error| Error::invalid(error.to_string()))
}

/// A map32 of encoded pairs.
fn map(pairs: &[u8], elements: u32) -> Vec<u8> {
    let mut map = Vec::with_capacity(pairs.len() + 9);
    map.push(0xd1);
    map.extend_from_slice(
        &u32::try_from(pairs.len() + 4)
            .unwrap_or(u32::MAX)
            .to_be_bytes(),
    );
    map.extend_from_slice(&elements.to_be_bytes());
    map.extend_from_slice(pairs);
    map
}
