use bytes::Bytes;
use servicebus_amqp::types::{Map, Value};

/// The bytes that these hexadecimal digits are; blanks are left out.
pub(crate) fn hex(digits: &str) -> Bytes {
    let digits: String = digits.split_whitespace().collect();
    let bytes = data_encoding::HEXLOWER.decode(digits.as_bytes());
    bytes.unwrap_or_else(|error| panic!("{error}")).into()
}

/// The pairs in the order of their keys, maps within them too: peers order maps as they like.
pub(crate) fn sorted(map: &Map) -> Map {
    let mut pairs: Vec<_> = map
        .iter()
        .map(|(key, value)| (key.clone(), sorted_value(value)))
        .collect();
    pairs.sort_by(|(a, _), (b, _)| a.as_text().cmp(&b.as_text()));
    Map(pairs)
}

fn sorted_value(value: &Value) -> Value {
    match value {
        Value::Map(map) => Value::Map(sorted(map)),
        Value::List(elements) => Value::List(elements.iter().map(sorted_value).collect()),
        other => other.clone(),
    }
}
