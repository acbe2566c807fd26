use bytes::{Bytes, BytesMut};

use super::read::{Reader, Result};
use super::{DecodeError, DecodeErrorKind, EncodeError, array, constructor as c, write};
use crate::types::{Described, Map, Value};

impl Value {
    /// Decodes the one value that `input` holds. Binaries and text are slices of it.
    ///
    /// # Errors
    ///
    /// When the bytes are no value, or more than one.
    pub fn decode(input: &Bytes) -> std::result::Result<Self, DecodeError> {
        let mut reader = Reader::new(input);
        let value = decode(&mut reader)?;
        reader.finish()?;
        Ok(value)
    }

    /// Appends the value in its smallest form.
    ///
    /// # Errors
    ///
    /// When the encoding would exceed 4 GiB; `out` is as it was before.
    pub fn encode(&self, out: &mut BytesMut) -> std::result::Result<(), EncodeError> {
        bounded(out, |out| encode(out, self))
    }
}

/// Takes back what `write` appended when it is longer than AMQP can state.
pub(super) fn bounded(
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut),
) -> std::result::Result<(), EncodeError> {
    let start = out.len();
    write(out);
    if u32::try_from(out.len().saturating_sub(start)).is_err() {
        out.truncate(start);
        return Err(EncodeError::TooLarge);
    }
    Ok(())
}

/// Reads the value that comes next.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Value> {
    let constructor = reader.u8()?;
    decode_data(reader, constructor)
}

/// Reads the data of a value whose constructor was read.
pub(super) fn decode_data(reader: &mut Reader<'_>, constructor: u8) -> Result<Value> {
    Ok(match constructor {
        c::NULL => Value::Null,
        c::TRUE | c::FALSE | c::BOOLEAN => Value::Bool(reader.boolean(constructor)?),
        c::UBYTE => Value::Ubyte(reader.u8()?),
        c::USHORT => Value::Ushort(reader.ushort(constructor)?),
        c::UINT | c::SMALL_UINT | c::UINT_0 => Value::Uint(reader.uint(constructor)?),
        c::ULONG | c::SMALL_ULONG | c::ULONG_0 => Value::Ulong(reader.ulong(constructor)?),
        c::BYTE => Value::Byte(i8::from_be_bytes(reader.array()?)),
        c::SHORT => Value::Short(i16::from_be_bytes(reader.array()?)),
        c::INT => Value::Int(i32::from_be_bytes(reader.array()?)),
        c::SMALL_INT => Value::Int(i8::from_be_bytes(reader.array()?).into()),
        c::LONG => Value::Long(i64::from_be_bytes(reader.array()?)),
        c::SMALL_LONG => Value::Long(i8::from_be_bytes(reader.array()?).into()),
        c::FLOAT => Value::Float(f32::from_be_bytes(reader.array()?)),
        c::DOUBLE => Value::Double(f64::from_be_bytes(reader.array()?)),
        c::DECIMAL_32 => Value::Decimal32(reader.array()?),
        c::DECIMAL_64 => Value::Decimal64(reader.array()?),
        c::DECIMAL_128 => Value::Decimal128(reader.array()?),
        c::CHAR => {
            let scalar = u32::from_be_bytes(reader.array()?);
            let invalid = || reader.error(DecodeErrorKind::InvalidChar(scalar));
            Value::Char(char::from_u32(scalar).ok_or_else(invalid)?)
        }
        c::TIMESTAMP => Value::Timestamp(reader.timestamp(constructor)?),
        c::UUID => Value::Uuid(reader.uuid()?),
        c::BINARY_8 | c::BINARY_32 => Value::Binary(reader.binary(constructor)?),
        c::STRING_8 | c::STRING_32 => Value::String(reader.string(constructor)?),
        c::SYMBOL_8 | c::SYMBOL_32 => Value::Symbol(reader.symbol(constructor)?),
        c::LIST_0 | c::LIST_8 | c::LIST_32 => Value::List(list(reader, constructor)?),
        c::MAP_8 | c::MAP_32 => Value::Map(map(reader, constructor)?),
        c::ARRAY_8 | c::ARRAY_32 => Value::Array(array::decode(reader, constructor)?),
        c::DESCRIBED => {
            reader.descend(1)?;
            let descriptor = reader.descriptor()?;
            let value = decode(reader)?;
            reader.ascend(1);
            Value::Described(Box::new(Described { descriptor, value }))
        }
        other => return Err(reader.unexpected("a value", other)),
    })
}

/// How many elements to make room for at first: the count is a claim, and the elements inside make claims again.
pub(super) fn first_capacity(count: usize) -> usize {
    count.min(16)
}

pub(super) fn list(reader: &mut Reader<'_>, constructor: u8) -> Result<Vec<Value>> {
    reader.descend(1)?;
    let list = reader.enter_list(constructor)?;
    let mut elements = Vec::with_capacity(first_capacity(list.count));
    for _ in 0..list.count {
        elements.push(decode(reader)?);
    }
    reader.leave(&list)?;
    reader.ascend(1);
    Ok(elements)
}

pub(super) fn map(reader: &mut Reader<'_>, constructor: u8) -> Result<Map> {
    reader.descend(1)?;
    let map = reader.enter_map(constructor)?;
    let count = map.count / 2;
    let mut pairs = Vec::with_capacity(first_capacity(count));
    for _ in 0..count {
        let key = decode(reader)?;
        pairs.push((key, decode(reader)?));
    }
    reader.leave(&map)?;
    reader.ascend(1);
    Ok(Map(pairs))
}

/// Appends a value.
pub(super) fn encode(out: &mut BytesMut, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(&[c::NULL]),
        Value::Bool(v) => write::boolean(out, *v),
        Value::Ubyte(v) => write::ubyte(out, *v),
        Value::Ushort(v) => write::ushort(out, *v),
        Value::Uint(v) => write::uint(out, *v),
        Value::Ulong(v) => write::ulong(out, *v),
        Value::Byte(v) => write::fixed(out, c::BYTE, v.to_be_bytes()),
        Value::Short(v) => write::fixed(out, c::SHORT, v.to_be_bytes()),
        Value::Int(v) => match i8::try_from(*v) {
            Ok(small) => write::fixed(out, c::SMALL_INT, small.to_be_bytes()),
            Err(_) => write::fixed(out, c::INT, v.to_be_bytes()),
        },
        Value::Long(v) => match i8::try_from(*v) {
            Ok(small) => write::fixed(out, c::SMALL_LONG, small.to_be_bytes()),
            Err(_) => write::fixed(out, c::LONG, v.to_be_bytes()),
        },
        Value::Float(v) => write::fixed(out, c::FLOAT, v.to_be_bytes()),
        Value::Double(v) => write::fixed(out, c::DOUBLE, v.to_be_bytes()),
        Value::Decimal32(v) => write::fixed(out, c::DECIMAL_32, *v),
        Value::Decimal64(v) => write::fixed(out, c::DECIMAL_64, *v),
        Value::Decimal128(v) => write::fixed(out, c::DECIMAL_128, *v),
        Value::Char(v) => write::fixed(out, c::CHAR, u32::from(*v).to_be_bytes()),
        Value::Timestamp(v) => write::timestamp(out, *v),
        Value::Uuid(v) => write::fixed(out, c::UUID, v.into_bytes()),
        Value::Binary(v) => write::binary(out, v),
        Value::String(v) => write::string(out, v),
        Value::Symbol(v) => write::symbol(out, v),
        Value::List(elements) => encode_list(out, elements),
        Value::Map(map) => encode_map(out, map),
        Value::Array(elements) => array::encode(out, elements),
        Value::Described(described) => encode_described(out, described),
    }
}

pub(super) fn encode_list(out: &mut BytesMut, elements: &[Value]) {
    if elements.is_empty() {
        out.extend_from_slice(&[c::LIST_0]);
        return;
    }
    let list = write::Compound::begin(out, c::LIST_8);
    for element in elements {
        encode(out, element);
    }
    list.end(out, elements.len());
}

pub(super) fn encode_map(out: &mut BytesMut, map: &Map) {
    let compound = write::Compound::begin(out, c::MAP_8);
    for (key, value) in map.iter() {
        encode(out, key);
        encode(out, value);
    }
    compound.end(out, map.len() * 2);
}

pub(super) fn encode_described(out: &mut BytesMut, described: &Described) {
    out.extend_from_slice(&[c::DESCRIBED]);
    write::descriptor(out, &described.descriptor);
    encode(out, &described.value);
}

#[cfg(test)]
mod tests {
    use bytestring::ByteString;

    use super::*;
    use crate::types::{Array, Descriptor, Symbol, Timestamp, Uuid};

    fn decode(bytes: &[u8]) -> Result<Value> {
        Value::decode(&Bytes::copy_from_slice(bytes))
    }

    /// Every encoding of AMQP 1.0 §1.6, the smallest one of each value first.
    #[test]
    fn every_constructor() {
        let uuid = Uuid::from_bytes(*b"0123456789abcdef");
        let text = |v: &'static str| ByteString::from_static(v);
        let cases: Vec<(Value, Vec<&[u8]>)> = vec![
            (Value::Null, vec![b"\x40"]),
            (Value::Bool(true), vec![b"\x41", b"\x56\x01"]),
            (Value::Bool(false), vec![b"\x42", b"\x56\x00"]),
            (Value::Ubyte(0xfe), vec![b"\x50\xfe"]),
            (Value::Ushort(0xfedc), vec![b"\x60\xfe\xdc"]),
            (
                Value::Uint(0),
                vec![b"\x43", b"\x52\x00", b"\x70\x00\x00\x00\x00"],
            ),
            (Value::Uint(255), vec![b"\x52\xff", b"\x70\x00\x00\x00\xff"]),
            (Value::Uint(256), vec![b"\x70\x00\x00\x01\x00"]),
            (
                Value::Ulong(0),
                vec![b"\x44", b"\x53\x00", b"\x80\0\0\0\0\0\0\0\0"],
            ),
            (
                Value::Ulong(255),
                vec![b"\x53\xff", b"\x80\0\0\0\0\0\0\0\xff"],
            ),
            (Value::Ulong(256), vec![b"\x80\0\0\0\0\0\0\x01\0"]),
            (Value::Byte(-2), vec![b"\x51\xfe"]),
            (Value::Short(-2), vec![b"\x61\xff\xfe"]),
            (Value::Int(-128), vec![b"\x54\x80", b"\x71\xff\xff\xff\x80"]),
            (Value::Int(128), vec![b"\x71\x00\x00\x00\x80"]),
            (
                Value::Long(-128),
                vec![b"\x55\x80", b"\x81\xff\xff\xff\xff\xff\xff\xff\x80"],
            ),
            (Value::Long(128), vec![b"\x81\0\0\0\0\0\0\0\x80"]),
            (Value::Float(1.5), vec![b"\x72\x3f\xc0\x00\x00"]),
            (Value::Double(1.5), vec![b"\x82\x3f\xf8\0\0\0\0\0\0"]),
            (Value::Decimal32(*b"abcd"), vec![b"\x74abcd"]),
            (Value::Decimal64(*b"abcdefgh"), vec![b"\x84abcdefgh"]),
            (
                Value::Decimal128(*b"0123456789abcdef"),
                vec![b"\x940123456789abcdef"],
            ),
            (Value::Char('€'), vec![b"\x73\x00\x00\x20\xac"]),
            (
                Value::Timestamp(Timestamp::from_millis(-1)),
                vec![b"\x83\xff\xff\xff\xff\xff\xff\xff\xff"],
            ),
            (Value::Uuid(uuid), vec![b"\x980123456789abcdef"]),
            (
                Value::Binary(Bytes::from_static(b"\x00\xff")),
                vec![b"\xa0\x02\x00\xff", b"\xb0\0\0\0\x02\x00\xff"],
            ),
            (
                Value::String(text("é")),
                vec![b"\xa1\x02\xc3\xa9", b"\xb1\0\0\0\x02\xc3\xa9"],
            ),
            (
                Value::Symbol(Symbol::from_static("s")),
                vec![b"\xa3\x01s", b"\xb3\0\0\0\x01s"],
            ),
            (
                Value::List(vec![]),
                vec![b"\x45", b"\xc0\x01\x00", b"\xd0\0\0\0\x04\0\0\0\0"],
            ),
            (
                Value::List(vec![Value::Null]),
                vec![b"\xc0\x02\x01\x40", b"\xd0\0\0\0\x05\0\0\0\x01\x40"],
            ),
            (
                Value::Map(Map::new().with(true, Value::Null)),
                vec![b"\xc1\x03\x02\x41\x40", b"\xd1\0\0\0\x06\0\0\0\x02\x41\x40"],
            ),
            (
                Value::Array(Array::new(vec![Value::Ubyte(7), Value::Ubyte(8)]).unwrap()),
                vec![
                    b"\xe0\x04\x02\x50\x07\x08",
                    b"\xf0\0\0\0\x07\0\0\0\x02\x50\x07\x08",
                ],
            ),
            (
                Value::from(Described {
                    descriptor: Descriptor::Code(0x77),
                    value: Value::Null,
                }),
                vec![b"\x00\x53\x77\x40", b"\x00\x80\0\0\0\0\0\0\0\x77\x40"],
            ),
            (
                Value::from(Described {
                    descriptor: Descriptor::Name(Symbol::from_static("d")),
                    value: Value::Bool(true),
                }),
                vec![b"\x00\xa3\x01d\x41", b"\x00\xb3\0\0\0\x01d\x41"],
            ),
        ];
        for (value, encodings) in cases {
            for bytes in &encodings {
                assert_eq!(decode(bytes).unwrap(), value, "{bytes:x?}");
            }
            let mut out = BytesMut::new();
            value.encode(&mut out).unwrap();
            assert_eq!(out, encodings[0]);
        }
    }

    #[test]
    fn every_other_byte_is_no_constructor() {
        let known = (0..=255).filter(|&byte| c::layout(byte).is_some()).count();
        // The encodings of §1.6.1 to §1.6.24, counted.
        assert_eq!(known, 39);
        for byte in (1..=255_u8).filter(|&byte| c::layout(byte).is_none()) {
            let error = decode(&[byte, 0, 0, 0, 0]).unwrap_err();
            assert_eq!(error.kind(), &DecodeErrorKind::UnknownConstructor(byte));
            assert_eq!(error.offset(), 0);
        }
    }

    #[test]
    fn errors_say_where_and_why() {
        let cases: [(&[u8], DecodeErrorKind, usize); 10] = [
            (
                b"",
                DecodeErrorKind::Truncated {
                    needed: 1,
                    present: 0,
                },
                0,
            ),
            (
                b"\x70\x00\x00",
                DecodeErrorKind::Truncated {
                    needed: 4,
                    present: 2,
                },
                1,
            ),
            (b"\x40\x40", DecodeErrorKind::TrailingBytes(1), 1),
            (
                b"\xc0\x03\x01\x40\x40",
                DecodeErrorKind::TrailingBytes(1),
                4,
            ),
            (b"\xc1\x02\x01\x40", DecodeErrorKind::OddMap(1), 3),
            (b"\xa1\x02\xc3\x28", DecodeErrorKind::InvalidUtf8, 2),
            (b"\xa3\x01\xff", DecodeErrorKind::InvalidUtf8, 2),
            (
                b"\x73\x00\x00\xd8\x00",
                DecodeErrorKind::InvalidChar(0xd800),
                5,
            ),
            (
                b"\xe0\x04\x02\x60\x00\x01",
                DecodeErrorKind::InvalidCount {
                    count: 2,
                    present: 2,
                },
                4,
            ),
            (
                b"\x00\x41\x40",
                DecodeErrorKind::UnexpectedType {
                    expected: "a descriptor (ulong or symbol)",
                    found: 0x41,
                },
                1,
            ),
        ];
        for (bytes, kind, offset) in cases {
            let error = decode(bytes).unwrap_err();
            assert_eq!(
                (error.kind(), error.offset()),
                (&kind, offset),
                "{bytes:x?}"
            );
        }
        assert!(matches!(
            decode(b"\x56\x02").unwrap_err().kind(),
            DecodeErrorKind::InvalidChoice {
                expected: "boolean",
                ..
            }
        ));
    }

    #[test]
    fn binaries_and_text_are_slices_of_the_input() {
        let input = Bytes::from_static(b"\xc0\x08\x02\xa0\x02ab\xa1\x01c");
        let Value::List(elements) = Value::decode(&input).unwrap() else {
            unreachable!("a list");
        };
        assert_eq!(
            elements[0].as_binary().unwrap().as_ptr(),
            input[5..].as_ptr()
        );
        assert_eq!(elements[1].as_text().unwrap().as_ptr(), input[9..].as_ptr());
    }

    /// A symbol should be ASCII; refusing other text would cost a message that somebody else accepted.
    #[test]
    fn symbols_beyond_ascii_are_kept() {
        let value = decode(b"\xa3\x02\xc3\xa9").unwrap();
        assert_eq!(value, Value::Symbol(Symbol::from_static("é")));
    }
}
