//! Several messages in one delivery.

use std::time::SystemTime;

use bytes::{BufMut, Bytes, BytesMut};
use bytestring::ByteString;
use servicebus_amqp::types::{LazyMap, Map, Message as AmqpMessage, MessageId, Properties, Symbol};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, too_large};
use crate::names::{annotation, link};

/// The most a batch may have where the service does not say: what Premium namespaces take.
const DEFAULT_LIMIT: u64 = 1024 * 1024;

/// The head of a data section: descriptor, constructor, length.
const SHORT_HEAD: usize = 5;
const LONG_HEAD: usize = 8;

/// Messages that are sent together: all of them are taken, or none is.
///
/// A batch has the size limit of the link it was made for. Its messages belong to one session, or share one partition
/// key, or have neither.
///
/// ```
/// use std::time::UNIX_EPOCH;
/// use servicebus_core::batch::MessageBatch;
/// use servicebus_core::message::Message;
///
/// let mut batch = MessageBatch::new(1024, UNIX_EPOCH);
/// let mut count = 0;
/// while batch.try_add(&Message::new("hello"))? {
///     count += 1;
/// }
/// assert_eq!(batch.len(), count);
/// assert!(batch.size() <= batch.max_size());
/// # Ok::<(), servicebus_core::error::Error>(())
/// ```
#[derive(Clone)]
pub struct MessageBatch {
    payload: BytesMut,
    scratch: BytesMut,
    group: Option<ByteString>,
    len: usize,
    max_size: usize,
    created: SystemTime,
}

impl MessageBatch {
    /// An empty batch of at most `max_size` bytes. The lives of its messages begin at `created`.
    pub fn new(max_size: usize, created: SystemTime) -> Self {
        Self {
            payload: BytesMut::new(),
            scratch: BytesMut::new(),
            group: None,
            len: 0,
            max_size,
            created,
        }
    }

    /// Adds a message if it fits; `false` leaves the batch as it was. One without an id is given one, so that a batch that is
    /// sent again is recognised where the entity detects duplicates.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::MessageTooLarge`] when not even an empty batch has room for it. Send it alone: the limit for
    ///   single messages may be higher.
    /// * [`ErrorKind::InvalidArgument`] when it belongs to another session or has another partition key than the
    ///   messages in the batch, or fails [`Message::check`].
    pub fn try_add(&mut self, message: &Message) -> Result<bool> {
        if !self.takes_group(message) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "the messages of a batch have to share their session and partition key",
            ));
        }
        self.scratch.clear();
        let body = message
            .clone()
            .encode_head(&mut self.scratch, self.created)?;
        let before = self.payload.len();
        if self.len == 0 {
            let envelope = envelope(message);
            envelope.encode(&mut self.payload).map_err(too_large)?;
        }
        let inner = self.scratch.len() + body.len();
        let size = self.payload.len().saturating_add(section_len(inner));
        if size > self.max_size {
            self.payload.truncate(before);
            if self.len > 0 {
                return Ok(false);
            }
            return Err(Error::new(
                ErrorKind::MessageTooLarge,
                format!(
                    "the message takes {size} bytes in a batch, {} are allowed",
                    self.max_size
                ),
            ));
        }
        self.payload.reserve(section_len(inner));
        self.payload.put_slice(&[0x00, 0x53, 0x75]);
        match u8::try_from(inner) {
            Ok(short) => self.payload.put_slice(&[0xa0, short]),
            Err(_) => {
                let length = u32::try_from(inner).map_err(|_| {
                    Error::new(
                        ErrorKind::MessageTooLarge,
                        "the message has more than 4 GiB",
                    )
                })?;
                self.payload.put_u8(0xb0);
                self.payload.put_u32(length);
            }
        }
        self.payload.put_slice(&self.scratch);
        self.payload.put_slice(&body);
        if self.len == 0 {
            self.group = message.group().cloned();
        }
        self.len += 1;
        Ok(true)
    }

    /// Whether the message belongs to the session, or has the partition key, of those in the batch.
    pub(crate) fn takes_group(&self, message: &Message) -> bool {
        self.len == 0 || message.group() == self.group.as_ref()
    }

    /// How many messages it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes it takes on the wire, exactly.
    pub fn size(&self) -> usize {
        self.payload.len()
    }

    /// How many bytes it may take.
    pub fn max_size(&self) -> usize {
        self.max_size
    }

    /// The payload of the delivery; its message format is [`BATCH_MESSAGE_FORMAT`](crate::names::BATCH_MESSAGE_FORMAT).
    pub fn into_payload(self) -> Bytes {
        self.payload.freeze()
    }
}

impl std::fmt::Debug for MessageBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageBatch")
            .field("len", &self.len)
            .field("size", &self.size())
            .field("max_size", &self.max_size)
            .finish_non_exhaustive()
    }
}

/// How many bytes a batch may have on a link that was attached with this max-message-size and these properties.
///
/// The property `com.microsoft:max-message-batch-size` decides when it is a positive integer. Without it, a link that
/// takes larger messages than 1 MiB takes batches of 1 MiB, as .NET assumes. A max-message-size of zero is no limit.
pub fn batch_limit(max_message_size: Option<u64>, properties: Option<&Map>) -> usize {
    let message = max_message_size
        .filter(|&size| size > 0)
        .unwrap_or(u64::MAX);
    let batch = properties
        .and_then(|properties| properties.get(link::MAX_MESSAGE_BATCH_SIZE))
        .and_then(|value| value.as_u64())
        .filter(|&size| size > 0)
        .unwrap_or(DEFAULT_LIMIT);
    usize::try_from(message.min(batch)).unwrap_or(usize::MAX)
}

/// What a message of this encoded size takes in a batch.
fn section_len(inner: usize) -> usize {
    let head = if inner <= usize::from(u8::MAX) {
        SHORT_HEAD
    } else {
        LONG_HEAD
    };
    inner.saturating_add(head)
}

/// The sections in front of the messages, copied from the first one: what the service needs to choose a partition, and
/// the id.
fn envelope(first: &Message) -> AmqpMessage {
    let mut annotations = Map::new();
    let keys = [
        (annotation::PARTITION_KEY, &first.partition_key),
        (
            annotation::VIA_PARTITION_KEY,
            &first.transaction_partition_key,
        ),
    ];
    for (name, key) in keys {
        if let Some(key) = key {
            annotations.insert(Symbol::from_static(name), key.clone());
        }
    }
    let message_id: Option<MessageId> = first.message_id.clone();
    let group_id = first.session_id.clone();
    let named = message_id.is_some() || group_id.is_some();
    AmqpMessage {
        message_annotations: (!annotations.is_empty()).then(|| LazyMap::from(&annotations)),
        properties: named.then(|| Properties {
            message_id,
            group_id,
            ..Properties::default()
        }),
        ..AmqpMessage::default()
    }
}

#[cfg(test)]
mod tests;
