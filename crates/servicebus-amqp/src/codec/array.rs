//! Arrays: one constructor for all elements (AMQP 1.0 §1.6.24).

use bytes::{BufMut, BytesMut};

use super::constructor::{self as c, Layout};
use super::read::{Reader, Result, Width};
use super::{DecodeErrorKind, value, write};
use crate::types::{Array, Described, Descriptor, Symbol, Value};

/// The constructor that the elements of an array share: descriptors, the outermost first, and a primitive one.
#[derive(Debug)]
struct ElementConstructor {
    descriptors: Vec<Descriptor>,
    primitive: u8,
    layout: Layout,
}

pub(super) fn decode(reader: &mut Reader<'_>, constructor: u8) -> Result<Array> {
    reader.descend(1)?;
    let array = reader.enter(match constructor {
        c::ARRAY_8 => Width::One,
        c::ARRAY_32 => Width::Four,
        other => return Err(reader.unexpected("array", other)),
    })?;
    let mut elements = Vec::new();
    if array.count > 0 {
        let constructor = element_constructor(reader)?;
        let levels = constructor.descriptors.len();
        check_count(reader, array.count, &constructor)?;
        reader.descend(levels)?;
        elements.reserve(value::first_capacity(array.count));
        for _ in 0..array.count {
            let element = value::decode_data(reader, constructor.primitive)?;
            elements.push(describe(element, &constructor.descriptors));
        }
        reader.ascend(levels);
    } else if reader.remaining() > 0 {
        // The constructor of an empty array says nothing, and some peers leave it out.
        element_constructor(reader)?;
    }
    reader.leave(&array)?;
    reader.ascend(1);
    Ok(Array::of_one_type(elements))
}

/// Reads the elements of an array of symbols whose constructor was read, for fields declared `multiple`.
pub(super) fn symbols(reader: &mut Reader<'_>, width: Width) -> Result<Vec<Symbol>> {
    let array = reader.enter(width)?;
    let mut symbols = Vec::new();
    if array.count > 0 {
        let constructor = element_constructor(reader)?;
        check_count(reader, array.count, &constructor)?;
        if !constructor.descriptors.is_empty() {
            return Err(reader.unexpected("symbol", c::DESCRIBED));
        }
        symbols.reserve(value::first_capacity(array.count));
        for _ in 0..array.count {
            symbols.push(reader.symbol(constructor.primitive)?);
        }
    } else if reader.remaining() > 0 {
        element_constructor(reader)?;
    }
    reader.leave(&array)?;
    Ok(symbols)
}

fn element_constructor(reader: &mut Reader<'_>) -> Result<ElementConstructor> {
    let mut descriptors = Vec::new();
    loop {
        let primitive = reader.u8()?;
        if primitive == c::DESCRIBED {
            reader.descend(descriptors.len() + 1)?;
            reader.ascend(descriptors.len() + 1);
            descriptors.push(reader.descriptor()?);
            continue;
        }
        let Some(layout) = c::layout(primitive) else {
            return Err(reader.unexpected("the constructor of elements", primitive));
        };
        return Ok(ElementConstructor {
            descriptors,
            primitive,
            layout,
        });
    }
}

/// Checks the count against the bytes that are there, before any element is made.
fn check_count(
    reader: &mut Reader<'_>,
    count: usize,
    constructor: &ElementConstructor,
) -> Result<()> {
    let present = reader.remaining();
    let (least, exact) = match constructor.layout {
        Layout::Fixed(width) => (width, true),
        Layout::Sized8 => (1, false),
        Layout::Sized32 => (4, false),
    };
    let needed = count.checked_mul(least);
    let possible = if exact {
        needed == Some(present)
    } else {
        needed.is_some_and(|needed| needed <= present)
    };
    if !possible {
        return Err(reader.error(DecodeErrorKind::InvalidCount { count, present }));
    }
    // Each element is its data, and one value more for each descriptor. Data with bytes pays for two.
    let paid = if least > 0 { 2 } else { 0 };
    let values = constructor.descriptors.len() + 1;
    reader.charge_zero_width(count.saturating_mul(values.saturating_sub(paid)))
}

fn describe(element: Value, descriptors: &[Descriptor]) -> Value {
    descriptors.iter().rev().fold(element, |value, descriptor| {
        let descriptor = descriptor.clone();
        Value::Described(Box::new(Described { descriptor, value }))
    })
}

/// The part of an element that is encoded once per element: what its descriptors describe.
fn data(mut element: &Value) -> &Value {
    while let Value::Described(described) = element {
        element = &described.value;
    }
    element
}

pub(super) fn encode(out: &mut BytesMut, array: &Array) {
    let compound = write::Compound::begin(out, c::ARRAY_8);
    encode_elements(out, array.elements());
    compound.end(out, array.elements().len());
}

/// Appends the constructor of the elements, and their data.
fn encode_elements(out: &mut BytesMut, elements: &[Value]) {
    let mut first = elements.first().unwrap_or(&Value::Null);
    while let Value::Described(described) = first {
        out.put_u8(c::DESCRIBED);
        write::descriptor(out, &described.descriptor);
        first = &described.value;
    }
    // Within a type, the constructor with the larger code has the wider data.
    let constructor = elements
        .iter()
        .map(|element| smallest_constructor(data(element)))
        .max()
        .unwrap_or(c::NULL);
    out.put_u8(constructor);
    for element in elements {
        encode_data(out, data(element), constructor);
    }
}

/// The smallest constructor that holds this value as an element.
///
/// Forms without bytes are not used except for null, as decoders limit their number. Compound elements take the large
/// form, as their size is known only once they are written.
fn smallest_constructor(element: &Value) -> u8 {
    let sized = |len: usize, small: u8, large: u8| if len <= 0xff { small } else { large };
    match element {
        // No array element is described here; its data is looked at.
        Value::Null | Value::Described(_) => c::NULL,
        Value::Bool(_) => c::BOOLEAN,
        Value::Ubyte(_) => c::UBYTE,
        Value::Ushort(_) => c::USHORT,
        Value::Uint(v) => u8::try_from(*v).map_or(c::UINT, |_| c::SMALL_UINT),
        Value::Ulong(v) => u8::try_from(*v).map_or(c::ULONG, |_| c::SMALL_ULONG),
        Value::Byte(_) => c::BYTE,
        Value::Short(_) => c::SHORT,
        Value::Int(v) => i8::try_from(*v).map_or(c::INT, |_| c::SMALL_INT),
        Value::Long(v) => i8::try_from(*v).map_or(c::LONG, |_| c::SMALL_LONG),
        Value::Float(_) => c::FLOAT,
        Value::Double(_) => c::DOUBLE,
        Value::Decimal32(_) => c::DECIMAL_32,
        Value::Decimal64(_) => c::DECIMAL_64,
        Value::Decimal128(_) => c::DECIMAL_128,
        Value::Char(_) => c::CHAR,
        Value::Timestamp(_) => c::TIMESTAMP,
        Value::Uuid(_) => c::UUID,
        Value::Binary(v) => sized(v.len(), c::BINARY_8, c::BINARY_32),
        Value::String(v) => sized(v.len(), c::STRING_8, c::STRING_32),
        Value::Symbol(v) => sized(v.as_str().len(), c::SYMBOL_8, c::SYMBOL_32),
        Value::List(_) => c::LIST_32,
        Value::Map(_) => c::MAP_32,
        Value::Array(_) => c::ARRAY_32,
    }
}

/// Appends the data of an element in the form that the array's constructor states.
fn encode_data(out: &mut BytesMut, element: &Value, constructor: u8) {
    let low = |bytes: &[u8]| bytes.last().copied().unwrap_or_default();
    match element {
        Value::Null | Value::Described(_) => {}
        Value::Bool(v) => out.put_u8(u8::from(*v)),
        Value::Ubyte(v) => out.put_u8(*v),
        Value::Ushort(v) => out.put_u16(*v),
        Value::Uint(v) if constructor == c::SMALL_UINT => out.put_u8(low(&v.to_be_bytes())),
        Value::Uint(v) => out.put_u32(*v),
        Value::Ulong(v) if constructor == c::SMALL_ULONG => out.put_u8(low(&v.to_be_bytes())),
        Value::Ulong(v) => out.put_u64(*v),
        Value::Byte(v) => out.put_i8(*v),
        Value::Short(v) => out.put_i16(*v),
        Value::Int(v) if constructor == c::SMALL_INT => out.put_u8(low(&v.to_be_bytes())),
        Value::Int(v) => out.put_i32(*v),
        Value::Long(v) if constructor == c::SMALL_LONG => out.put_u8(low(&v.to_be_bytes())),
        Value::Long(v) => out.put_i64(*v),
        Value::Float(v) => out.put_f32(*v),
        Value::Double(v) => out.put_f64(*v),
        Value::Decimal32(v) => out.put_slice(v),
        Value::Decimal64(v) => out.put_slice(v),
        Value::Decimal128(v) => out.put_slice(v),
        Value::Char(v) => out.put_u32(u32::from(*v)),
        Value::Timestamp(v) => out.put_i64(v.as_millis()),
        Value::Uuid(v) => out.put_slice(v.as_bytes()),
        Value::Binary(v) => write::sized_data(out, v, constructor == c::BINARY_8),
        Value::String(v) => write::sized_data(out, v.as_bytes(), constructor == c::STRING_8),
        Value::Symbol(v) => {
            write::sized_data(out, v.as_str().as_bytes(), constructor == c::SYMBOL_8);
        }
        Value::List(elements) => write::large_data(out, elements.len(), |out| {
            for element in elements {
                value::encode(out, element);
            }
        }),
        Value::Map(map) => write::large_data(out, map.len() * 2, |out| {
            for (key, value) in map.iter() {
                value::encode(out, key);
                value::encode(out, value);
            }
        }),
        Value::Array(array) => write::large_data(out, array.elements().len(), |out| {
            encode_elements(out, array.elements());
        }),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::types::{Map, MixedArray};

    fn array(elements: Vec<Value>) -> Value {
        Value::Array(Array::new(elements).unwrap())
    }

    fn encode(value: &Value) -> Bytes {
        let mut out = BytesMut::new();
        value.encode(&mut out).unwrap();
        out.freeze()
    }

    fn described(code: u64, value: impl Into<Value>) -> Value {
        Value::from(Described {
            descriptor: Descriptor::Code(code),
            value: value.into(),
        })
    }

    #[test]
    fn one_constructor_is_wide_enough_for_all() {
        let long = "x".repeat(256);
        let cases = [
            (array(vec![1_u32.into(), 0_u32.into()]), 0x52),
            (array(vec![1_u32.into(), 256_u32.into()]), 0x70),
            (array(vec![0_u64.into(), 255_u64.into()]), 0x53),
            (array(vec![0_u64.into(), 256_u64.into()]), 0x80),
            (array(vec![(-128_i32).into(), 127_i32.into()]), 0x54),
            (array(vec![(-129_i32).into(), 1_i32.into()]), 0x71),
            (array(vec![true.into(), false.into()]), 0x56),
            (array(vec!["a".into(), "".into()]), 0xa1),
        ];
        for (value, constructor) in cases {
            let encoded = encode(&value);
            assert_eq!(encoded[3], constructor, "{value:?}");
            assert_eq!(Value::decode(&encoded).unwrap(), value);
        }
        let wide = array(vec!["a".into(), long.into()]);
        let encoded = encode(&wide);
        assert_eq!(encoded[9], 0xb1);
        assert_eq!(Value::decode(&encoded).unwrap(), wide);
    }

    #[test]
    fn elements_may_be_compound_or_described() {
        let cases = [
            array(vec![
                Value::List(vec![]),
                Value::List(vec![true.into(), 1_u8.into()]),
            ]),
            array(vec![Map::new().into(), Map::new().with("k", 1_i32).into()]),
            array(vec![
                array(vec![]),
                array(vec![1_u8.into()]),
                array(vec!["a".into()]),
            ]),
            array(vec![described(1, 0_u32), described(1, 5_u32)]),
            array(vec![
                described(1, described(2, "a")),
                described(1, described(2, "b")),
            ]),
            array(vec![described(1, Value::Null), described(1, Value::Null)]),
        ];
        for value in cases {
            assert_eq!(Value::decode(&encode(&value)).unwrap(), value);
        }
        // The descriptors stand once.
        let encoded = encode(&array(vec![described(1, 5_u8), described(1, 6_u8)]));
        assert_eq!(encoded, b"\xe0\x07\x02\x00\x53\x01\x50\x05\x06"[..]);
    }

    #[test]
    fn elements_of_several_types_are_refused() {
        let mixed = Array::new(vec![1_u32.into(), 2_u32.into(), 3_u64.into()]);
        assert!(matches!(mixed, Err(MixedArray { index: 2 })));
        assert!(Array::new(vec![described(1, 1_u8), described(2, 1_u8)]).is_err());
        assert!(Array::new(vec![described(1, 1_u8), described(1, 1_i8)]).is_err());
        assert!(Array::new(vec![1_u8.into(), Value::Null]).is_err());
    }
}
