use std::{fmt, ops::Range};

use bytes::{BufMut, Bytes, BytesMut};
use servicebus_amqp::types::{ByteString, Timestamp};

use super::{
    content::Content,
    sections::{self, Malformed, code},
};
use crate::{broker::LockToken, names::annotation};

/// Messages up to this size are copied as a whole on their way to a receiver: that is less work than sharing them.
const COPY_LIMIT: u64 = 4 * 1024;

/// Constructors of values.
const LONG: u8 = 0x81;
const TIMESTAMP: u8 = 0x83;

/// The key of an annotation, with the constructor of its value behind it.
macro_rules! key {
    ($name:expr, $constructor:expr) => {{
        const KEY: [u8; $name.len() + 3] = key($name, $constructor);
        KEY
    }};
}

#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated by the compiler, for names of fewer than 256 bytes"
)]
const fn key<const N: usize>(name: &str, constructor: u8) -> [u8; N] {
    let mut key = [0; N];
    key[0] = 0xa3;
    key[1] = name.len() as u8;
    let mut at = 0;
    while at < name.len() {
        key[at + 2] = name.as_bytes()[at];
        at += 1;
    }
    key[N - 1] = constructor;
    key
}

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
    pub(in crate::broker) content: Content,
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
    pub fn bare(&self) -> &[u8] {
        self.content.bare()
    }

    /// How many bytes [`encode`](Self::encode) appends at most.
    pub fn encoded_len(&self) -> usize {
        // Header 20, nine annotations of up to 46, a properties section that gains an expiry time 30.
        usize::try_from(self.content.size()).unwrap_or(usize::MAX - 384) + 384
    }

    /// The message as it goes over the wire: header and annotations by the broker, the rest as it was sent.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.encoded_len());
        self.encode(&mut out);
        out.freeze()
    }

    /// Appends what [`to_bytes`](Self::to_bytes) answers.
    pub fn encode(&self, out: &mut BytesMut) {
        self.encode_header(out);
        self.encode_annotations(out);
        let rest = self.encode_expiry(out);
        out.put_slice(self.bare().get(rest).unwrap_or_default());
    }

    /// Encodes the message as it is delivered on a link: with its delivery annotations, and the lock among them. Appends
    /// all of it, or the sections of the broker's only: then it answers those that follow them as they were sent, which
    /// are too large to be copied.
    pub fn encode_delivery(&self, token: Option<LockToken>, out: &mut BytesMut) -> Bytes {
        self.encode_header(out);
        self.encode_delivery_annotations(token, out);
        self.encode_annotations(out);
        let rest = self.encode_expiry(out);
        if self.is_large() {
            return self.content.share(rest);
        }
        out.put_slice(self.bare().get(rest).unwrap_or_default());
        Bytes::new()
    }

    /// How many bytes [`encode_delivery`](Self::encode_delivery) appends, or a few more.
    pub(crate) fn appended_len(&self) -> usize {
        if self.is_large() {
            1024
        } else {
            self.encoded_len()
        }
    }

    fn is_large(&self) -> bool {
        self.content.size() > COPY_LIMIT
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
        let (pairs, mut elements) = self.content.delivery_annotations();
        out.put_slice(pairs);
        if let Some(LockToken(token)) = token {
            out.put_slice(&key!(annotation::LOCK_TOKEN, 0x98));
            out.put_slice(token.as_bytes());
            elements += 2;
        }
        end_compound(start, elements, out);
    }

    fn encode_annotations(&self, out: &mut BytesMut) {
        let start = begin_map(code::MESSAGE_ANNOTATIONS, out);
        let (pairs, mut elements) = self.content.annotations();
        out.put_slice(pairs);
        let mut pair = |key: &[u8], value: i64| {
            out.put_slice(key);
            out.put_i64(value);
            elements += 2;
        };
        pair(
            &key!(annotation::SEQUENCE_NUMBER, LONG),
            self.sequence_number,
        );
        pair(
            &key!(annotation::ENQUEUED_TIME, TIMESTAMP),
            self.enqueued_at.as_millis(),
        );
        if self.enqueued_sequence_number != 0 {
            pair(
                &key!(annotation::ENQUEUE_SEQUENCE_NUMBER, LONG),
                self.enqueued_sequence_number,
            );
        }
        if let Some(until) = self.locked_until {
            pair(
                &key!(annotation::LOCKED_UNTIL, TIMESTAMP),
                until.as_millis(),
            );
        }
        if let Some(at) = self.content.scheduled_at() {
            pair(
                &key!(annotation::SCHEDULED_ENQUEUE_TIME, TIMESTAMP),
                at.as_millis(),
            );
        }
        // Clients take a message without it for an active one; the sizes that their tests expect leave it out.
        if self.state != MessageState::Active {
            out.put_slice(&key!(annotation::MESSAGE_STATE, 0x54));
            out.put_u8(self.state as u8);
            elements += 2;
        }
        end_compound(start, elements, out);
    }

    /// Appends the bare message as far as it changes with the time at which it expires; answers where the rest of it is.
    fn encode_expiry(&self, out: &mut BytesMut) -> Range<usize> {
        let start = out.len();
        let rest = self.expires_at.map(|at| self.encode_properties(at, out));
        match rest {
            Some(Ok(rest)) => rest,
            // It does not expire, or its properties are malformed: then they are passed on as they came.
            _ => {
                out.truncate(start);
                0..self.bare().len()
            }
        }
    }

    /// Appends properties with the absolute-expiry-time as the broker reckons it; what a sender says there does not count.
    fn encode_properties(
        &self,
        expires_at: Timestamp,
        out: &mut BytesMut,
    ) -> Result<Range<usize>, Malformed> {
        const EXPIRY_FIELD: usize = 8;
        let bare = self.bare();
        let section = self.content.find_section(code::PROPERTIES)?;
        let (whole, first, count) = match section {
            Some(section) => {
                let (first, count) = sections::elements(bare, &section.value)?;
                (section.whole, first, count)
            }
            None => (0..0, 0, 0),
        };
        // The fields before and after it go as they are.
        let mut at = first;
        for _ in 0..count.min(EXPIRY_FIELD) {
            at = sections::end_of_value(bare, at)?;
        }
        let before = first..at;
        let after = if count > EXPIRY_FIELD {
            sections::end_of_value(bare, at)?..whole.end
        } else {
            0..0
        };
        out.put_slice(bare.get(..whole.start).unwrap_or_default());
        out.put_slice(&[0x00, 0x53, code::PROPERTIES, 0xd0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let start = out.len() - 8;
        out.put_slice(bare.get(before).unwrap_or_default());
        out.put_bytes(0x40, EXPIRY_FIELD.saturating_sub(count));
        out.put_u8(0x83);
        out.put_i64(expires_at.as_millis());
        out.put_slice(bare.get(after).unwrap_or_default());
        let fields = count.max(EXPIRY_FIELD + 1);
        end_compound(start, u32::try_from(fields).unwrap_or(u32::MAX), out);
        Ok(whole.end..bare.len())
    }
}

/// Begins a section that is a map; answers where its size goes.
fn begin_map(code: u8, out: &mut BytesMut) -> usize {
    out.put_slice(&[0x00, 0x53, code, 0xd1, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.len() - 8
}

/// Fills in the size of a map or list and the number of its elements.
fn end_compound(start: usize, elements: u32, out: &mut BytesMut) {
    let size = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&size.to_be_bytes());
    }
    if let Some(place) = out.get_mut(start + 4..start + 8) {
        place.copy_from_slice(&elements.to_be_bytes());
    }
}

impl fmt::Debug for StoredMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredMessage")
            .field("sequence_number", &self.sequence_number)
            .field("state", &self.state)
            .field("delivery_count", &self.delivery_count)
            .field("message_id", &self.message_id())
            .field("session_id", &self.session_id())
            .field("bytes", &self.bare().len())
            .finish_non_exhaustive()
    }
}
