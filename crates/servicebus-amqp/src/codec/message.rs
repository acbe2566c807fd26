use std::ops::Range;

use bytes::{Buf as _, Bytes, BytesMut};

use super::fields::Fields;
use super::read::{Reader, Result};
use super::{
    DecodeError, DecodeErrorKind, EncodeError, constructor as c, descriptor as d, lazy_map, value,
    write,
};
use crate::types::{Body, Descriptor, Header, LazyMap, Message, MessageId, Properties};

impl Message {
    /// Decodes the sections of a message, in whatever order they come. The body, binaries, text and maps are slices
    /// of `input`.
    ///
    /// # Errors
    ///
    /// When a section is malformed, unknown, or a second one of its kind. What a [`LazyMap`] holds is not looked at.
    pub fn decode(mut input: Bytes) -> std::result::Result<Self, DecodeError> {
        let mut message = Self::default();
        let mut reader = Reader::new(&input);
        let mut first_data = 0..0;
        while reader.remaining() > 0 {
            section(&mut reader, &mut message, &mut first_data)?;
        }
        if matches!(message.body, Body::Data(_)) {
            // The body takes the input over: one reference less to count.
            input.truncate(first_data.end);
            input.advance(first_data.start);
            message.body = Body::Data(input);
        }
        Ok(message)
    }

    /// Appends the message in the smallest form.
    ///
    /// # Errors
    ///
    /// When the encoding would exceed 4 GiB; `out` is as it was before.
    pub fn encode(&self, out: &mut BytesMut) -> std::result::Result<(), EncodeError> {
        value::bounded(out, |out| self.encode_sections(out))
    }

    /// Appends the message up to the bytes of its body where these come last, and gives those: the encoded message is what
    /// was appended and then them, and they are not copied. Empty when the message is appended in whole.
    ///
    /// # Errors
    ///
    /// When the encoding would exceed 4 GiB; `out` is as it was before.
    pub fn encode_head(&self, out: &mut BytesMut) -> std::result::Result<Bytes, EncodeError> {
        let (Body::Data(data), None) = (&self.body, &self.footer) else {
            return self.encode(out).map(|()| Bytes::new());
        };
        let start = out.len();
        self.encode_before_body(out);
        write::described(out, d::DATA);
        write::sized_head(out, c::BINARY_8, c::BINARY_32, data.len());
        if u32::try_from(out.len() - start + data.len()).is_err() {
            out.truncate(start);
            return Err(EncodeError::TooLarge);
        }
        Ok(data.clone())
    }

    fn encode_sections(&self, out: &mut BytesMut) {
        self.encode_before_body(out);
        encode_body(out, &self.body);
        encode_map(out, d::FOOTER, &self.footer);
    }

    fn encode_before_body(&self, out: &mut BytesMut) {
        if let Some(header) = &self.header {
            encode_header(out, header);
        }
        encode_map(out, d::DELIVERY_ANNOTATIONS, &self.delivery_annotations);
        encode_map(out, d::MESSAGE_ANNOTATIONS, &self.message_annotations);
        if let Some(properties) = &self.properties {
            encode_properties(out, properties);
        }
        encode_map(out, d::APPLICATION_PROPERTIES, &self.application_properties);
    }
}

/// Reads a section. A body of one data section is left empty, and its place noted.
fn section(
    reader: &mut Reader<'_>,
    message: &mut Message,
    first_data: &mut Range<usize>,
) -> Result<()> {
    let constructor = reader.u8()?;
    let start = reader.position();
    let expected = "a message section";
    let code = reader.known_descriptor(constructor, expected)?;
    match code {
        d::HEADER => once(reader, "header", &mut message.header, header),
        d::DELIVERY_ANNOTATIONS => once(
            reader,
            "delivery-annotations",
            &mut message.delivery_annotations,
            map,
        ),
        d::MESSAGE_ANNOTATIONS => once(
            reader,
            "message-annotations",
            &mut message.message_annotations,
            map,
        ),
        d::PROPERTIES => once(reader, "properties", &mut message.properties, properties),
        d::APPLICATION_PROPERTIES => once(
            reader,
            "application-properties",
            &mut message.application_properties,
            map,
        ),
        d::DATA => {
            data(reader, &mut message.body, first_data).map_err(|error| error.within("data"))
        }
        d::AMQP_SEQUENCE => {
            sequence(reader, &mut message.body).map_err(|error| error.within("amqp-sequence"))
        }
        d::AMQP_VALUE => {
            amqp_value(reader, &mut message.body).map_err(|error| error.within("amqp-value"))
        }
        d::FOOTER => once(reader, "footer", &mut message.footer, map),
        other => {
            let found = Descriptor::Code(other.into());
            Err(Reader::unexpected_descriptor(expected, &found, start))
        }
    }
}

/// Reads a section that a message has once. A null in its place is as good as no section.
fn once<'a, T>(
    reader: &mut Reader<'a>,
    name: &'static str,
    section: &mut Option<T>,
    read: impl FnOnce(&mut Reader<'a>, u8, &mut Option<T>) -> Result<()>,
) -> Result<()> {
    if section.is_some() {
        return Err(unexpected_section(reader).within(name));
    }
    let read_section = || match reader.u8()? {
        c::NULL => Ok(()),
        constructor => read(reader, constructor, section),
    };
    read_section().map_err(|error| error.within(name))
}

fn map(reader: &mut Reader<'_>, constructor: u8, section: &mut Option<LazyMap>) -> Result<()> {
    *section = Some(lazy_map::decode(reader, constructor)?);
    Ok(())
}

fn unexpected_section(reader: &Reader<'_>) -> DecodeError {
    reader.error(DecodeErrorKind::UnexpectedSection)
}

fn header(reader: &mut Reader<'_>, constructor: u8, section: &mut Option<Header>) -> Result<()> {
    let mut fields = Fields::enter(reader, constructor)?;
    let header = Header {
        durable: fields.optional("durable", Reader::boolean)?,
        priority: fields.optional("priority", Reader::ubyte)?,
        ttl: fields.optional("ttl", Reader::uint)?,
        first_acquirer: fields.optional("first-acquirer", Reader::boolean)?,
        delivery_count: fields.optional("delivery-count", Reader::uint)?,
    };
    *section = Some(header);
    fields.finish()
}

fn properties(
    reader: &mut Reader<'_>,
    constructor: u8,
    section: &mut Option<Properties>,
) -> Result<()> {
    let mut fields = Fields::enter(reader, constructor)?;
    let properties = Properties {
        message_id: fields.optional("message-id", message_id)?,
        user_id: fields.optional("user-id", Reader::binary)?,
        to: fields.optional("to", Reader::string)?,
        subject: fields.optional("subject", Reader::string)?,
        reply_to: fields.optional("reply-to", Reader::string)?,
        correlation_id: fields.optional("correlation-id", message_id)?,
        content_type: fields.optional("content-type", Reader::symbol)?,
        content_encoding: fields.optional("content-encoding", Reader::symbol)?,
        absolute_expiry_time: fields.optional("absolute-expiry-time", Reader::timestamp)?,
        creation_time: fields.optional("creation-time", Reader::timestamp)?,
        group_id: fields.optional("group-id", Reader::string)?,
        group_sequence: fields.optional("group-sequence", Reader::uint)?,
        reply_to_group_id: fields.optional("reply-to-group-id", Reader::string)?,
    };
    *section = Some(properties);
    fields.finish()
}

/// Always inlined: an id that is made elsewhere is moved, in parts that the processor has to wait for.
#[inline(always)]
fn message_id(reader: &mut Reader<'_>, constructor: u8) -> Result<MessageId> {
    Ok(match constructor {
        c::STRING_8 | c::STRING_32 => MessageId::String(reader.string(constructor)?),
        c::UUID => MessageId::Uuid(reader.uuid()?),
        c::ULONG | c::SMALL_ULONG | c::ULONG_0 => MessageId::Ulong(reader.ulong(constructor)?),
        c::BINARY_8 | c::BINARY_32 => MessageId::Binary(reader.binary(constructor)?),
        other => return Err(reader.unexpected("ulong, uuid, binary or string", other)),
    })
}

fn data(reader: &mut Reader<'_>, body: &mut Body, first_data: &mut Range<usize>) -> Result<()> {
    let constructor = reader.u8()?;
    let place = reader.binary_place(constructor)?;
    match body {
        Body::Empty => {
            *body = Body::Data(Bytes::new());
            *first_data = place;
        }
        Body::Data(_) => {
            let sections = [first_data.clone(), place].map(|place| reader.slice(place));
            *body = Body::DataSections(sections.into());
        }
        Body::DataSections(sections) => sections.push(reader.slice(place)),
        Body::Sequence(_) | Body::Value(_) => return Err(unexpected_section(reader)),
    }
    Ok(())
}

fn sequence(reader: &mut Reader<'_>, body: &mut Body) -> Result<()> {
    let constructor = reader.u8()?;
    let sequence = value::list(reader, constructor)?;
    match body {
        Body::Empty => *body = Body::Sequence(vec![sequence]),
        Body::Sequence(sections) => sections.push(sequence),
        Body::Data(_) | Body::DataSections(_) | Body::Value(_) => {
            return Err(unexpected_section(reader));
        }
    }
    Ok(())
}

fn amqp_value(reader: &mut Reader<'_>, body: &mut Body) -> Result<()> {
    if *body != Body::Empty {
        return Err(unexpected_section(reader));
    }
    *body = Body::Value(value::decode(reader)?);
    Ok(())
}

fn encode_map(out: &mut BytesMut, descriptor: u8, map: &Option<LazyMap>) {
    if let Some(map) = map {
        write::described(out, descriptor);
        lazy_map::encode(out, map);
    }
}

fn encode_header(out: &mut BytesMut, header: &Header) {
    let mut fields = write::Fields::new(out, d::HEADER);
    fields.field(header.durable, write::boolean);
    fields.field(header.priority, write::ubyte);
    fields.field(header.ttl, write::uint);
    fields.field(header.first_acquirer, write::boolean);
    fields.field(header.delivery_count, write::uint);
    fields.finish();
}

fn encode_properties(out: &mut BytesMut, properties: &Properties) {
    let mut fields = write::Fields::new(out, d::PROPERTIES);
    fields.field(properties.message_id.as_ref(), encode_message_id);
    fields.field(properties.user_id.as_ref(), write::binary);
    fields.text(properties.to.as_ref());
    fields.text(properties.subject.as_ref());
    fields.text(properties.reply_to.as_ref());
    fields.field(properties.correlation_id.as_ref(), encode_message_id);
    fields.field(properties.content_type.as_ref(), write::symbol);
    fields.field(properties.content_encoding.as_ref(), write::symbol);
    fields.field(properties.absolute_expiry_time, write::timestamp);
    fields.field(properties.creation_time, write::timestamp);
    fields.text(properties.group_id.as_ref());
    fields.field(properties.group_sequence, write::uint);
    fields.text(properties.reply_to_group_id.as_ref());
    fields.finish();
}

fn encode_message_id(out: &mut BytesMut, id: &MessageId) {
    match id {
        MessageId::Ulong(id) => write::ulong(out, *id),
        MessageId::Uuid(id) => write::fixed(out, c::UUID, id.into_bytes()),
        MessageId::Binary(id) => write::binary(out, id),
        MessageId::String(id) => write::string(out, id),
    }
}

fn encode_body(out: &mut BytesMut, body: &Body) {
    match body {
        Body::Empty => {}
        Body::Data(data) => encode_data(out, data),
        Body::DataSections(sections) => {
            for data in sections {
                encode_data(out, data);
            }
        }
        Body::Sequence(sections) => {
            for sequence in sections {
                write::described(out, d::AMQP_SEQUENCE);
                value::encode_list(out, sequence);
            }
        }
        Body::Value(body) => {
            write::described(out, d::AMQP_VALUE);
            value::encode(out, body);
        }
    }
}

fn encode_data(out: &mut BytesMut, data: &Bytes) {
    out.reserve(data.len().saturating_add(8));
    write::described(out, d::DATA);
    write::binary(out, data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Map, Value};

    const HEADER: &[u8] = b"\x00\x53\x70\xc0\x02\x01\x41";
    const DELIVERY_ANNOTATIONS: &[u8] = b"\x00\x53\x71\xc1\x05\x02\xa3\x01d\x43";
    const DATA: &[u8] = b"\x00\x53\x75\xa0\x02ab";
    const VALUE: &[u8] = b"\x00\x53\x77\xa1\x01v";
    const SEQUENCE: &[u8] = b"\x00\x53\x76\xc0\x02\x01\x41";

    fn decode(sections: &[&[u8]]) -> Result<Message> {
        Message::decode(sections.concat().into())
    }

    fn encode(message: &Message) -> BytesMut {
        let mut out = BytesMut::new();
        message.encode(&mut out).unwrap();
        out
    }

    /// Two clients of the field put delivery annotations last.
    #[test]
    fn sections_come_in_any_order_and_leave_in_that_of_the_specification() {
        let message = decode(&[DATA, DELIVERY_ANNOTATIONS, HEADER]).unwrap();
        assert_eq!(message.body, Body::Data("ab".into()));
        assert_eq!(message.header.as_ref().unwrap().durable, Some(true));
        let annotations = message.delivery_annotations.as_ref().unwrap();
        assert_eq!(annotations.get("d").unwrap(), Some(Value::Uint(0)));
        assert_eq!(
            encode(&message),
            [HEADER, DELIVERY_ANNOTATIONS, DATA].concat()[..]
        );
    }

    #[test]
    fn sections_that_others_exclude() {
        let excluded: [&[&[u8]]; 6] = [
            &[HEADER, HEADER],
            &[DELIVERY_ANNOTATIONS, DATA, DELIVERY_ANNOTATIONS],
            &[DATA, VALUE],
            &[VALUE, VALUE],
            &[VALUE, SEQUENCE],
            &[SEQUENCE, DATA],
        ];
        for sections in excluded {
            let error = decode(sections).unwrap_err();
            assert_eq!(
                error.kind(),
                &DecodeErrorKind::UnexpectedSection,
                "{sections:x?}"
            );
        }
    }

    #[test]
    fn what_is_no_section() {
        let error = decode(&[HEADER, b"\x00\x53\x10\x45"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected a message section, found the descriptor 0x00000000:0x00000010 (at byte 8)"
        );
        let error = decode(&[b"\x41"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected a message section, found the constructor 0x41 (at byte 0)"
        );
        let error = decode(&[b"\x00\x53\x75\xa1\x01a"]).unwrap_err();
        assert_eq!(error.path(), "data");
    }

    #[test]
    fn null_stands_for_no_section() {
        let message = decode(&[b"\x00\x53\x70\x40", b"\x00\x53\x72\x40"]).unwrap();
        assert_eq!(message, Message::default());
    }

    /// A malformed pair is an error of whoever reads the map; the message can be had, settled and sent on.
    #[test]
    fn maps_are_looked_into_on_demand() {
        let damaged = b"\x00\x53\x74\xc1\x0d\x06\xa1\x01a\x41\xa1\x01b\xff\xa1\x01c\x41";
        let mut damaged = damaged.to_vec();
        damaged[4] = u8::try_from(damaged.len() - 5).unwrap();
        let message = decode(&[&damaged, DATA]).unwrap();
        let map = message.application_properties.as_ref().unwrap();
        assert_eq!(map.get("a").unwrap(), Some(Value::Bool(true)));
        assert_eq!(map.len(), 3);
        for error in [
            map.get("b").map(drop),
            map.get("c").map(drop),
            map.decode().map(drop),
        ] {
            assert_eq!(
                error.unwrap_err().kind(),
                &DecodeErrorKind::UnknownConstructor(0xff)
            );
        }
        assert_eq!(map.iter().filter(std::result::Result::is_ok).count(), 1);
        assert_eq!(map.iter().count(), 2);
        assert_eq!(encode(&message), [&damaged[..], DATA].concat()[..]);
        // The outer size and count are looked at.
        for map in [
            &b"\x00\x53\x74\xc1\x01\x02"[..],
            b"\x00\x53\x74\xc1\x03\x01\x41\x40",
        ] {
            assert_eq!(decode(&[map]).unwrap_err().path(), "application-properties");
        }
    }

    #[test]
    fn maps_of_our_own() {
        let map = Map::new().with("k", 1_i32).with(7_u64, "v");
        let lazy = LazyMap::from(&map);
        assert_eq!(lazy.decode().unwrap(), map);
        assert_eq!(lazy.get("k").unwrap(), Some(Value::Int(1)));
        assert_eq!(lazy.get("other").unwrap(), None);
        assert!(LazyMap::from(&Map::new()).is_empty());
    }

    #[test]
    fn the_body_is_a_slice_of_the_input() {
        let input = Bytes::from_static(DATA);
        let message = Message::decode(input.clone()).unwrap();
        let Body::Data(data) = message.body else {
            unreachable!("data");
        };
        assert_eq!(data.as_ptr(), input[5..].as_ptr());
    }

    #[test]
    fn a_body_that_comes_last_is_not_copied() {
        let body = Bytes::from(vec![7; 300]);
        let mut message = Message {
            header: Some(Header::default()),
            body: Body::Data(body.clone()),
            ..Message::default()
        };
        let mut head = BytesMut::new();
        let tail = message.encode_head(&mut head).unwrap();
        // An empty header, then a data section whose binary has a size of four bytes.
        assert_eq!(
            head,
            &[0, 0x53, 0x70, 0x45, 0, 0x53, 0x75, 0xb0, 0, 0, 1, 0x2c][..]
        );
        assert_eq!(tail.as_ptr(), body.as_ptr());
        assert_eq!(tail.len(), 300);

        // A footer comes after the body.
        message.footer = Some(LazyMap::from(Map::new()));
        let (mut head, mut whole) = (BytesMut::new(), BytesMut::new());
        assert_eq!(message.encode_head(&mut head), Ok(Bytes::new()));
        message.encode(&mut whole).unwrap();
        assert_eq!(head, whole);
    }
}
