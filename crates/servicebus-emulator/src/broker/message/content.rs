use std::{ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use servicebus_amqp::types::{ByteString, Message, Timestamp};

use super::sections::{self, Malformed, Section, code};
use crate::{
    broker::{Error, ErrorKind},
    names::annotation,
};

/// What a sender sent, apart from the state that the broker gives it.
///
/// Copies, as those in several subscriptions, share the bytes. These are one piece of memory of exactly their size: the
/// bare message with its footer, then the pairs of the annotations.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Content {
    bytes: Arc<[u8]>,
    /// How many bytes the bare message has.
    bare: u32,
    /// The message annotations that are the sender's own.
    annotations: Pairs,
    /// The delivery annotations. AMQP means them for one hop; the service passes them on.
    delivery_annotations: Pairs,
    pub(super) durable: Option<bool>,
    pub(super) priority: Option<u8>,
    /// The sender's time to live in milliseconds.
    pub(super) ttl: Option<u32>,
    /// Where in `bare` the value of message-id is.
    pub(super) message_id: Span,
    /// Where in `bare` the text of group-id is.
    pub(super) session_id: Span,
    /// When the sender wants the message to become active.
    pub(super) scheduled_at: i64,
}

pub(super) const NOT_SCHEDULED: i64 = i64::MIN;

/// Encoded pairs of keys and values.
#[derive(Clone, Copy, Debug, Default)]
struct Pairs {
    /// How many bytes they have.
    len: u32,
    /// How many keys and values that is.
    elements: u32,
}

/// Encoded pairs on their way into a message.
#[derive(Debug, Default)]
pub(super) struct NewPairs {
    pub(super) encoded: Vec<u8>,
    pub(super) elements: u32,
}

/// A part of a message in memory that the message shares.
struct Part {
    bytes: Arc<[u8]>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(self.range.clone()).unwrap_or_default()
    }
}

/// A range of the bare message; absent when its start is `u32::MAX`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    start: u32,
    len: u32,
}

impl Span {
    pub(super) const ABSENT: Self = Self {
        start: u32::MAX,
        len: 0,
    };

    pub(super) fn new(start: usize, end: usize) -> Self {
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

impl Content {
    /// A message of these bytes about which nothing is known yet.
    pub(super) fn new(
        bare: &[u8],
        annotations: &NewPairs,
        delivery_annotations: &NewPairs,
    ) -> Self {
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let (pairs, more) = (&annotations.encoded, &delivery_annotations.encoded);
        let bytes = if pairs.is_empty() && more.is_empty() {
            bare.into()
        } else {
            [bare, pairs, more].concat().into()
        };
        Self {
            bytes,
            bare: len(bare),
            annotations: Pairs {
                len: len(pairs),
                elements: annotations.elements,
            },
            delivery_annotations: Pairs {
                len: len(more),
                elements: delivery_annotations.elements,
            },
            durable: None,
            priority: None,
            ttl: None,
            message_id: Span::ABSENT,
            session_id: Span::ABSENT,
            scheduled_at: NOT_SCHEDULED,
        }
    }

    /// The same message with other bytes and annotations.
    pub(super) fn with_bytes(
        &self,
        bare: &[u8],
        annotations: &NewPairs,
    ) -> Result<Self, Malformed> {
        let (encoded, elements) = self.delivery_annotations();
        let delivery_annotations = NewPairs {
            encoded: encoded.into(),
            elements,
        };
        let new = Self::new(bare, annotations, &delivery_annotations);
        let mut changed = Self {
            durable: self.durable,
            priority: self.priority,
            ttl: self.ttl,
            scheduled_at: self.scheduled_at,
            ..new
        };
        changed.find_ids()?;
        Ok(changed)
    }

    /// The bare message and the footer, as they came but for decimals among the application properties.
    pub(super) fn bare(&self) -> &[u8] {
        self.bytes.get(..self.bare as usize).unwrap_or_default()
    }

    /// A part of the bare message, without a copy of it.
    pub(super) fn share(&self, range: Range<usize>) -> Bytes {
        Bytes::from_owner(Part {
            bytes: Arc::clone(&self.bytes),
            range,
        })
    }

    /// The pairs of the message annotations, and how many keys and values that is.
    pub(super) fn annotations(&self) -> (&[u8], u32) {
        self.pairs(self.bare, self.annotations)
    }

    /// The pairs of the delivery annotations, and how many keys and values that is.
    pub(super) fn delivery_annotations(&self) -> (&[u8], u32) {
        let start = self.bare.saturating_add(self.annotations.len);
        self.pairs(start, self.delivery_annotations)
    }

    fn pairs(&self, start: u32, pairs: Pairs) -> (&[u8], u32) {
        let start = start as usize;
        let encoded = self.bytes.get(start..start + pairs.len as usize);
        (encoded.unwrap_or_default(), pairs.elements)
    }

    /// How many bytes the message counts for.
    pub(in crate::broker) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The session id, if there is one.
    pub(in crate::broker) fn session_id(&self) -> Option<&str> {
        // Checked to be UTF-8 when it was found.
        self.session_id
            .of(&self.bytes)
            .and_then(|bytes| str::from_utf8(bytes).ok())
    }

    /// The bytes by which message ids are compared: equal exactly for equal ids of the same type.
    pub(in crate::broker) fn message_id_key(&self) -> Option<Box<[u8]>> {
        let encoded = self.message_id.of(&self.bytes)?;
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
        match self.message_id.of(&self.bytes)? {
            [0xa1, _, text @ ..] | [0xb1, _, _, _, _, text @ ..] => {
                str::from_utf8(text).ok().map(ByteString::from)
            }
            _ => None,
        }
    }

    /// The partition key, if there is one.
    pub(in crate::broker) fn partition_key(&self) -> Option<&str> {
        let mut at = 0;
        let (pairs, _) = self.annotations();
        while at < pairs.len() {
            let key = at..sections::end_of_value(pairs, at).ok()?;
            let value = key.end..sections::end_of_value(pairs, key.end).ok()?;
            at = value.end;
            if sections::text(pairs, &key) == Ok(Some(annotation::PARTITION_KEY)) {
                return sections::text(pairs, &value).ok().flatten();
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
        while let Ok(section) = sections::section(self.bare(), at) {
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
        Message::decode(self.share(0..self.bare as usize)).map_err(|error| {
            Error::new(
                ErrorKind::InvalidMessage,
                format!("The message could not be decoded: {error}."),
            )
        })
    }

    /// The section of this kind in the bare message.
    pub(super) fn find_section(&self, wanted: u8) -> Result<Option<Section>, Malformed> {
        let mut at = 0;
        while at < self.bare().len() {
            let section = sections::section(self.bare(), at)?;
            if section.code == wanted {
                return Ok(Some(section));
            }
            at = section.whole.end;
        }
        Ok(None)
    }
}
