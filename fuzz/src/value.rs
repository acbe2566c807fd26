use bytes::{Bytes, BytesMut};
use serde_amqp::Value as Theirs;
use servicebus_amqp::types::{Array, Described, Descriptor, Map, Symbol, Timestamp, Uuid, Value};

/// One value: the same after a round trip, and equal to what `serde_amqp` makes of the bytes where both accept them.
///
/// Known differences, for which the comparison is left out:
/// * `serde_amqp` keeps one pair of a repeated key; the wire has both, and so have we.
/// * `serde_amqp` leaves the constructor of an empty array in the input, and takes it for the next value.
/// * `serde_amqp` reads elements of arrays without bytes of their own, described elements, and elements that are
///   compound in its own way; arrays are compared when their elements are plain.
///
/// Only what we accept is given to `serde_amqp`: it recurses and allocates without limits.
pub fn value(data: &[u8]) {
    let input = Bytes::copy_from_slice(data);
    let ours = match Value::decode(&input) {
        Ok(value) => value,
        Err(error) => {
            let _ = format!("{error} {error:?}");
            return;
        }
    };
    let first = encode(&ours);
    let again = Value::decode(&first).expect("what was encoded decodes");
    // Floats that are no number are not equal to themselves, so encodings are compared.
    assert_eq!(first, encode(&again));

    if is_comparable(&ours)
        && let Ok(theirs) = serde_amqp::from_slice::<Theirs>(data)
    {
        let theirs = encode(&convert(theirs));
        assert_eq!(first, theirs, "serde_amqp reads another value");
    }
}

fn encode(value: &Value) -> Bytes {
    let mut out = BytesMut::new();
    value.encode(&mut out).expect("below 4 GiB");
    out.freeze()
}

fn is_comparable(value: &Value) -> bool {
    match value {
        Value::List(elements) => elements.iter().all(is_comparable),
        Value::Map(map) => {
            let keys: Vec<_> = map.iter().map(|(key, _)| encode(key)).collect();
            let is_repeated = |i: usize| keys[..i].contains(&keys[i]);
            !(0..keys.len()).any(is_repeated)
                && map
                    .iter()
                    .all(|(k, v)| is_comparable(k) && is_comparable(v))
        }
        Value::Array(array) => {
            !array.elements().is_empty() && array.elements().iter().all(is_plain)
        }
        Value::Described(described) => is_comparable(&described.value),
        _ => true,
    }
}

fn is_plain(element: &Value) -> bool {
    !matches!(
        element,
        Value::Null
            | Value::Bool(_)
            | Value::Uint(0)
            | Value::Ulong(0)
            | Value::List(_)
            | Value::Map(_)
            | Value::Array(_)
            | Value::Described(_)
    )
}

fn convert(theirs: Theirs) -> Value {
    match theirs {
        Theirs::Described(described) => Value::Described(Box::new(Described {
            descriptor: match described.descriptor {
                serde_amqp::descriptor::Descriptor::Name(name) => {
                    Descriptor::Name(Symbol::from(name.into_inner()))
                }
                serde_amqp::descriptor::Descriptor::Code(code) => Descriptor::Code(code),
            },
            value: convert(described.value),
        })),
        Theirs::Null => Value::Null,
        Theirs::Bool(v) => Value::Bool(v),
        Theirs::Ubyte(v) => Value::Ubyte(v),
        Theirs::Ushort(v) => Value::Ushort(v),
        Theirs::Uint(v) => Value::Uint(v),
        Theirs::Ulong(v) => Value::Ulong(v),
        Theirs::Byte(v) => Value::Byte(v),
        Theirs::Short(v) => Value::Short(v),
        Theirs::Int(v) => Value::Int(v),
        Theirs::Long(v) => Value::Long(v),
        Theirs::Float(v) => Value::Float(v.0),
        Theirs::Double(v) => Value::Double(v.0),
        Theirs::Decimal32(v) => Value::Decimal32(v.into_inner()),
        Theirs::Decimal64(v) => Value::Decimal64(v.into_inner()),
        Theirs::Decimal128(v) => Value::Decimal128(v.into_inner()),
        Theirs::Char(v) => Value::Char(v),
        Theirs::Timestamp(v) => Value::Timestamp(Timestamp::from_millis(v.milliseconds())),
        Theirs::Uuid(v) => Value::Uuid(Uuid::from_bytes(v.into_inner())),
        Theirs::Binary(v) => Value::Binary(v.into_vec().into()),
        Theirs::String(v) => Value::String(v.into()),
        Theirs::Symbol(v) => Value::Symbol(Symbol::from(v.into_inner())),
        Theirs::List(elements) => Value::List(elements.into_iter().map(convert).collect()),
        Theirs::Map(map) => {
            let pairs = map.into_iter().map(|(k, v)| (convert(k), convert(v)));
            Value::Map(pairs.collect::<Map>())
        }
        Theirs::Array(array) => {
            let elements = array.into_inner().into_iter().map(convert).collect();
            Value::Array(Array::new(elements).expect("elements of one type"))
        }
    }
}
