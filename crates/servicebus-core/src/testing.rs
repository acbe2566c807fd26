use bytes::{Bytes, BytesMut};
use servicebus_amqp::codec::{Frame, decode_frame};
use servicebus_amqp::types::{DeliveryState, Map, Performative, Value};

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

/// The state that a captured disposition or transfer carries.
pub(crate) fn state_in(frame: &str) -> DeliveryState {
    let mut bytes = BytesMut::from(&hex(frame)[..]);
    let state = match decode_frame(&mut bytes, u32::MAX).unwrap() {
        Some(Frame::Amqp { performative, .. }) => match performative {
            Performative::Disposition(disposition) => disposition.state,
            Performative::Transfer(transfer) => transfer.state,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    state.unwrap()
}
