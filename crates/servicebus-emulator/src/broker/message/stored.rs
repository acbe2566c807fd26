use std::{fmt, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};
use servicebus_amqp::types::{ByteString, Timestamp};

use super::{
    content::Content,
    sections::{self, code},
};
use crate::{
    broker::{Error, LockToken},
    names::annotation,
};

/// Where a message stands in its entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "the service has these three")]
pub enum MessageState {
    /// To be received, or locked by a receiver; 0 on the wire.
    Active,
    /// Only to be received by its number; 1 on the wire.
    Deferred,
    /// To become active later; 2 on the wire.
    Scheduled,
}

/// A message as the broker hands it out: what was sent, and what the broker knows about it.
#[derive(Clone)]
pub struct StoredMessage {
    pub(in crate::broker) content: Arc<Content>,
    pub(in crate::broker) sequence_number: i64,
    pub(in crate::broker) enqueued_sequence_number: i64,
    pub(in crate::broker) enqueued_at: Timestamp,
    pub(in crate::broker) expires_at: Option<Timestamp>,
    pub(in crate::broker) locked_until: Option<Timestamp>,
    pub(in crate::broker) delivery_count: u32,
    pub(in crate::broker) state: MessageState,
}

impl StoredMessage {
    /// The number of the message in its entity.
    pub fn sequence_number(&self) -> i64 {
        self.sequence_number
    }

    /// The number of the message in the entity where it first entered; 0 when that is this one.
    pub fn enqueued_sequence_number(&self) -> i64 {
        self.enqueued_sequence_number
    }

    /// When the message was stored. For a scheduled one: when it was sent.
    pub fn enqueued_at(&self) -> Timestamp {
        self.enqueued_at
    }

    /// When the message expires; `None` if it does not.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.expires_at
    }

    /// When the lock ends, for a message that is locked.
    pub fn locked_until(&self) -> Option<Timestamp> {
        self.locked_until
    }

    /// How many deliveries failed before this one.
    pub fn delivery_count(&self) -> u32 {
        self.delivery_count
    }

    /// Where the message stands.
    pub fn state(&self) -> MessageState {
        self.state
    }

    /// The session, if the message belongs to one.
    pub fn session_id(&self) -> Option<ByteString> {
        self.content.session_id().map(ByteString::from)
    }

    /// The message id, when it is text.
    pub fn message_id(&self) -> Option<ByteString> {
        self.content.message_id_text()
    }

    /// When the sender wanted the message to become active.
    pub fn scheduled_at(&self) -> Option<Timestamp> {
        self.content.scheduled_at()
    }

    /// The bare message as it was sent, but for properties that were modified since.
    pub fn bare(&self) -> &Bytes {
        &self.content.bare
    }

    /// How many bytes [`encode`](Self::encode) appends at most.
    pub fn encoded_len(&self) -> usize {
        // Header 20, nine annotations of up to 46, a properties section that gains an expiry time 30.
        self.content.bare.len() + self.content.annotations.len() + 384
    }

    /// The message as it goes over the wire: header and annotations by the broker, the rest as it was sent.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.encoded_len());
        self.encode(&mut out);
        out.freeze()
    }

    /// The message as it is delivered on a link: with its delivery annotations, and the lock among them.
    pub fn to_delivery(&self, token: Option<LockToken>) -> Bytes {
        let annotations = self.content.delivery_annotations.len() + 64;
        let mut out = BytesMut::with_capacity(self.encoded_len() + annotations);
        self.encode_header(&mut out);
        self.encode_delivery_annotations(token, &mut out);
        self.encode_rest(&mut out);
        out.freeze()
    }

    /// Appends what [`to_bytes`](Self::to_bytes) answers.
    pub fn encode(&self, out: &mut BytesMut) {
        self.encode_header(out);
        self.encode_rest(out);
    }

    fn encode_rest(&self, out: &mut BytesMut) {
        self.encode_annotations(out);
        match self.expires_at {
            Some(expires_at) if self.encode_with_expiry(expires_at, out).is_ok() => {}
            _ => out.put_slice(&self.content.bare),
        }
    }

    fn encode_header(&self, out: &mut BytesMut) {
        out.put_slice(&[0x00, 0x53, code::HEADER, 0xc0, 0, 5]);
        let start = out.len() - 1;
        out.put_u8(match self.content.durable {
            None => 0x40,
            Some(true) => 0x41,
            Some(false) => 0x42,
        });
        match self.content.priority {
            None => out.put_u8(0x40),
            Some(priority) => out.put_slice(&[0x50, priority]),
        }
        match self.time_to_live() {
            None => out.put_u8(0x40),
            Some(ttl) => {
                out.put_u8(0x70);
                out.put_u32(ttl);
            }
        }
        out.put_u8(0x40);
        match u8::try_from(self.delivery_count) {
            Ok(0) => out.put_u8(0x43),
            Ok(count) => out.put_slice(&[0x52, count]),
            Err(_) => {
                out.put_u8(0x70);
                out.put_u32(self.delivery_count);
            }
        }
        let size = u8::try_from(out.len() - start).unwrap_or(u8::MAX);
        if let Some(place) = out.get_mut(start - 1) {
            *place = size;
        }
    }

    /// The time to live that is in force: what the sender asked for, bounded by the entity.
    fn time_to_live(&self) -> Option<u32> {
        match self.expires_at {
            Some(at) => {
                let ttl = at.as_millis().saturating_sub(self.enqueued_at.as_millis());
                Some(u32::try_from(ttl).unwrap_or(u32::MAX))
            }
            None => self.content.ttl,
        }
    }

    /// The service has this section in each delivery, if with nothing in it.
    fn encode_delivery_annotations(&self, token: Option<LockToken>, out: &mut BytesMut) {
        let start = begin_map(code::DELIVERY_ANNOTATIONS, out);
        out.put_slice(&self.content.delivery_annotations);
        let mut elements = self.content.delivery_annotation_elements;
        if let Some(LockToken(token)) = token {
            put_key(out, annotation::LOCK_TOKEN);
            out.put_u8(0x98);
            out.put_slice(token.as_bytes());
            elements += 2;
        }
        end_map(start, elements, out);
    }

    fn encode_annotations(&self, out: &mut BytesMut) {
        let start = begin_map(code::MESSAGE_ANNOTATIONS, out);
        out.put_slice(&self.content.annotations);
        let mut elements = self.content.annotation_elements;
        let mut pair = |key: &str, constructor: u8, value: i64| {
            put_key(out, key);
            out.put_u8(constructor);
            out.put_i64(value);
            elements += 2;
        };
        let (timestamp, long) = (0x83, 0x81);
        pair(annotation::SEQUENCE_NUMBER, long, self.sequence_number);
        pair(
            annotation::ENQUEUED_TIME,
            timestamp,
            self.enqueued_at.as_millis(),
        );
        if self.enqueued_sequence_number != 0 {
            pair(
                annotation::ENQUEUE_SEQUENCE_NUMBER,
                long,
                self.enqueued_sequence_number,
            );
        }
        if let Some(until) = self.locked_until {
            pair(annotation::LOCKED_UNTIL, timestamp, until.as_millis());
        }
        if let Some(at) = self.content.scheduled_at() {
            pair(
                annotation::SCHEDULED_ENQUEUE_TIME,
                timestamp,
                at.as_millis(),
            );
        }
        // Clients take a message without it for an active one; the sizes that their tests expect leave it out.
        if self.state != MessageState::Active {
            put_key(out, annotation::MESSAGE_STATE);
            out.put_slice(&[0x54, self.state as u8]);
            elements += 2;
        }

        end_map(start, elements, out);
    }

    /// Appends the bare message with its absolute-expiry-time as the broker reckons it; what a sender says there does
    /// not count.
    fn encode_with_expiry(&self, expires_at: Timestamp, out: &mut BytesMut) -> Result<(), Error> {
        const EXPIRY_FIELD: usize = 8;
        let bare = &self.content.bare;
        let section = self.content.find_section(code::PROPERTIES)?;
        let (whole, value) = match &section {
            Some(section) => (section.whole.clone(), Some(&section.value)),
            None => (0..0, None),
        };
        let mut fields = BytesMut::new();
        let (mut at, count) = match value {
            Some(value) => sections::elements(bare, value)?,
            None => (0, 0),
        };
        for index in 0..count.max(EXPIRY_FIELD + 1) {
            let field = if index < count {
                at..sections::end_of_value(bare, at)?
            } else {
                0..0
            };
            at = field.end.max(at);
            match bare.get(field) {
                _ if index == EXPIRY_FIELD => {
                    fields.put_u8(0x83);
                    fields.put_i64(expires_at.as_millis());
                }
                Some([]) | None => fields.put_u8(0x40),
                Some(field) => fields.put_slice(field),
            }
        }
        out.put_slice(bare.get(..whole.start).unwrap_or_default());
        out.put_slice(&[0x00, 0x53, code::PROPERTIES, 0xd0]);
        out.put_u32(u32::try_from(fields.len() + 4).unwrap_or(u32::MAX));
        out.put_u32(u32::try_from(count.max(EXPIRY_FIELD + 1)).unwrap_or(u32::MAX));
        out.put_slice(&fields);
        out.put_slice(bare.get(whole.end..).unwrap_or_default());
        Ok(())
    }
}

/// Begins a section that is a map; answers where its size goes.
fn begin_map(code: u8, out: &mut BytesMut) -> usize {
    out.put_slice(&[0x00, 0x53, code, 0xd1]);
    let start = out.len();
    out.put_u64(0);
    start
}

/// Fills in the size and the number of keys and values.
fn end_map(start: usize, elements: u32, out: &mut BytesMut) {
    let size = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&size.to_be_bytes());
    }
    if let Some(place) = out.get_mut(start + 4..start + 8) {
        place.copy_from_slice(&elements.to_be_bytes());
    }
}

/// A symbol; the keys are constants of fewer than 256 bytes.
fn put_key(out: &mut BytesMut, key: &str) {
    out.put_u8(0xa3);
    out.put_u8(u8::try_from(key.len()).unwrap_or(u8::MAX));
    out.put_slice(key.as_bytes());
}

impl fmt::Debug for StoredMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredMessage")
            .field("sequence_number", &self.sequence_number)
            .field("state", &self.state)
            .field("delivery_count", &self.delivery_count)
            .field("message_id", &self.message_id())
            .field("session_id", &self.session_id())
            .field("bytes", &self.content.bare.len())
            .finish_non_exhaustive()
    }
}
