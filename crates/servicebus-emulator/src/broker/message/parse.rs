//! Encoded messages taken apart, as far as the broker has to know them.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;

use super::content::{Content, NOT_SCHEDULED, Span};
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
    pub(super) fn find_ids(&mut self) -> Result<(), Malformed> {
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
