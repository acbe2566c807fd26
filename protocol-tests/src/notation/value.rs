use bytes::Bytes;
use servicebus_amqp::types::{Described, Descriptor, Map, Value};

use super::{binary, string, symbol, uint};

/// A value.
#[must_use]
pub fn value(any: &Value) -> String {
    match any {
        Value::Null => "null".to_owned(),
        Value::Bool(v) => v.to_string(),
        Value::Ubyte(v) => format!("ubyte:{v}"),
        Value::Ushort(v) => format!("ushort:{v}"),
        Value::Uint(v) => uint(v),
        Value::Ulong(v) => format!("ulong:{v}"),
        Value::Byte(v) => format!("byte:{v}"),
        Value::Short(v) => format!("short:{v}"),
        Value::Int(v) => format!("int:{v}"),
        Value::Long(v) => format!("long:{v}"),
        Value::Float(v) => format!("float:{v:?}"),
        Value::Double(v) => format!("double:{v:?}"),
        Value::Decimal32(v) => format!("decimal32:{:x}", Bytes::copy_from_slice(v)),
        Value::Decimal64(v) => format!("decimal64:{:x}", Bytes::copy_from_slice(v)),
        Value::Decimal128(v) => format!("decimal128:{:x}", Bytes::copy_from_slice(v)),
        Value::Char(v) => format!("char:{v}"),
        Value::Timestamp(v) => format!("ts:{}", v.as_millis()),
        Value::Uuid(v) => format!("uuid:{v}"),
        Value::Binary(v) => binary(v),
        Value::String(v) => string(v),
        Value::Symbol(v) => symbol(v),
        Value::List(elements) => list(elements),
        Value::Map(pairs) => map(pairs),
        Value::Array(array) => format!("array{}", list(array.elements())),
        Value::Described(any) => described(any),
        _ => unreachable!("a value that the specification does not have"),
    }
}

pub(super) fn map(map: &Map) -> String {
    let pairs: Vec<_> = map
        .iter()
        .map(|(key, item)| format!("{}={}", value(key), value(item)))
        .collect();
    format!("{{{}}}", pairs.join(", "))
}

pub(super) fn list(elements: &[Value]) -> String {
    let elements: Vec<_> = elements.iter().map(value).collect();
    format!("[{}]", elements.join(", "))
}

pub(super) fn described(any: &Described) -> String {
    format!("{} {}", descriptor(&any.descriptor), value(&any.value))
}

fn descriptor(descriptor: &Descriptor) -> String {
    match descriptor {
        Descriptor::Code(code) => format!("@{code:#x}"),
        Descriptor::Name(name) => format!("@:{name}"),
        _ => unreachable!("a descriptor that the specification does not have"),
    }
}
