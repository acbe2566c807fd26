use std::time::Duration;

use bytes::Bytes;
use servicebus_amqp::types::{ByteString, Message, Timestamp};

use super::sections::{self, Malformed, Section, code};
use crate::{
    broker::{Error, ErrorKind},
    names::annotation,
};

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
    pub(super) message_id: Span,
    /// Where in `bare` the text of group-id is.
    pub(super) session_id: Span,
    /// When the sender wants the message to become active.
    pub(super) scheduled_at: i64,
}

pub(super) const NOT_SCHEDULED: i64 = i64::MIN;

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
}
