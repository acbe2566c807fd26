//! Encoded messages taken apart, as far as the broker has to know them.

use std::{borrow::Cow, ops::Range};

use super::content::{Content, NOT_SCHEDULED, NewPairs, Span};
use super::decimal;
use super::sections::{self, Malformed, Section, code};
use crate::{
    broker::{Error, ErrorKind},
    names::annotation,
};

/// The message-format of a batch: a message whose data sections are messages.
pub(crate) const BATCH_FORMAT: u32 = 0x8001_3700;

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
        let mut header = Header::default();
        let mut annotations = NewPairs::default();
        let mut delivery_annotations = NewPairs::default();
        let mut scheduled_at = None;
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
                code::HEADER => header = Header::read(payload, &section)?,
                code::DELIVERY_ANNOTATIONS => {
                    delivery_annotations = read_pairs(payload, &section, &mut scheduled_at)?;
                }
                code::MESSAGE_ANNOTATIONS => {
                    annotations = read_pairs(payload, &section, &mut scheduled_at)?;
                }
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
        let mut content = Self::new(&bare, &annotations, &delivery_annotations);
        content.durable = header.durable;
        content.priority = header.priority;
        content.ttl = header.ttl;
        content.scheduled_at = scheduled_at.unwrap_or(NOT_SCHEDULED);
        content.find_ids()?;
        Ok(content)
    }

    /// Finds the message id and the session id in the bare message.
    pub(super) fn find_ids(&mut self) -> Result<(), Malformed> {
        let mut at = 0;
        let (mut message_id, mut session_id) = (Span::ABSENT, Span::ABSENT);
        let bare = self.bare();
        while at < bare.len() {
            let section = sections::section(bare, at)?;
            at = section.whole.end;
            if section.code == code::PROPERTIES {
                let (mut at, count) = sections::elements(bare, &section.value)?;
                for index in 0..count.min(11) {
                    let value = at..sections::end_of_value(bare, at)?;
                    if index == 0 && bare.get(at) != Some(&0x40) {
                        message_id = Span::new(value.start, value.end);
                    } else if index == 10
                        && let Some(text) = sections::text(bare, &value)?
                    {
                        session_id = Span::new(value.end - text.len(), value.end);
                    }
                    at = value.end;
                }
            }
            if matches!(section.code, code::PROPERTIES | code::DATA..) {
                // Properties come before the body, which may be long.
                break;
            }
        }
        (self.message_id, self.session_id) = (message_id, session_id);
        Ok(())
    }
}

/// The fields of a header that the broker reads.
#[derive(Default)]
struct Header {
    durable: Option<bool>,
    priority: Option<u8>,
    ttl: Option<u32>,
}

impl Header {
    fn read(payload: &[u8], section: &Section) -> Result<Self, Malformed> {
        let mut header = Self::default();
        let (mut at, count) = sections::elements(payload, &section.value)?;
        for index in 0..count.min(3) {
            let value = at..sections::end_of_value(payload, at)?;
            match index {
                0 => header.durable = sections::boolean(payload, &value)?,
                1 => {
                    header.priority =
                        sections::uint(payload, &value)?.and_then(|n| u8::try_from(n).ok());
                }
                // Zero would mean that nobody may ever have the message; clients send it for "not set".
                _ => header.ttl = sections::uint(payload, &value)?.filter(|ttl| *ttl != 0),
            }
            at = value.end;
        }
        Ok(header)
    }
}

/// The annotations that are the sender's own; notes when the message is to become active.
fn read_pairs(
    payload: &[u8],
    section: &Section,
    scheduled_at: &mut Option<i64>,
) -> Result<NewPairs, Malformed> {
    let (mut at, count) = sections::elements(payload, &section.value)?;
    let mut kept = NewPairs::default();
    for _ in 0..count / 2 {
        let start = at;
        let key_end = sections::end_of_value(payload, at)?;
        let value = key_end..sections::end_of_value(payload, key_end)?;
        at = value.end;
        // Keys of other types are reserved by AMQP; they are passed on like the unknown ones.
        let key = sections::text(payload, &(start..key_end)).ok().flatten();
        if key == Some(annotation::SCHEDULED_ENQUEUE_TIME) {
            *scheduled_at = sections::timestamp(payload, &value)?;
        }
        if key.is_some_and(|key| BROKER_ANNOTATIONS.contains(&key)) {
            continue;
        }
        kept.encoded
            .extend_from_slice(payload.get(start..at).unwrap_or_default());
        kept.elements += 2;
    }
    Ok(kept)
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
