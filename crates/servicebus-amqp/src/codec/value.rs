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
