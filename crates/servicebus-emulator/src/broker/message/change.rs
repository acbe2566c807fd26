//! Messages with other properties and annotations than they came with.

use bytes::{BufMut, BytesMut};
use servicebus_amqp::types::{Map, Message, Properties, Symbol, Value};

use super::content::{Content, NOT_SCHEDULED, NewPairs};
use super::sections::{self, Section, code};
use crate::broker::Error;

impl Content {
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
            let bare = self.bare();
            let (mut at, count) = sections::elements(bare, &section.value)?;
            for _ in 0..count / 2 {
                let start = at;
                let key = start..sections::end_of_value(bare, start)?;
                at = sections::end_of_value(bare, key.end)?;
                let name = sections::text(bare, &key)?;
                if name.is_none_or(|name| changes.get(name).is_none()) {
                    pairs.put_slice(bare.get(start..at).unwrap_or_default());
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
        let (encoded, elements) = self.annotations();
        let mut pairs = BytesMut::from(encoded);
        encode(&Value::Symbol(Symbol::from(key)), &mut pairs)?;
        encode(&Value::from(value), &mut pairs)?;
        let annotations = NewPairs {
            encoded: pairs.into(),
            elements: elements + 2,
        };
        Ok(self.with_bytes(self.bare(), &annotations)?)
    }

    /// The same message, not scheduled.
    pub(in crate::broker) fn without_schedule(&self) -> Self {
        let mut changed = self.clone();
        changed.scheduled_at = NOT_SCHEDULED;
        changed
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
        let old = self.bare();
        let mut bare = Vec::with_capacity(old.len() + value.len() + 3);
        bare.extend_from_slice(old.get(..place.start).unwrap_or_default());
        bare.extend_from_slice(&[0x00, 0x53, code]);
        bare.extend_from_slice(value);
        bare.extend_from_slice(old.get(place.end..).unwrap_or_default());
        let (encoded, elements) = self.annotations();
        let annotations = NewPairs {
            encoded: encoded.into(),
            elements,
        };
        Ok(self.with_bytes(&bare, &annotations)?)
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
