//! The session filter in the source of a receiving link.

use std::time::Duration;

use servicebus_amqp::types::{Attach, ByteString, Map, Source, Symbol, Timestamp, Value};

use super::names::link;
use crate::broker::{Error, ErrorKind, SessionRequest};

/// Which session a client asks for.
pub(super) fn session_request(attach: &Attach) -> Result<SessionRequest, Error> {
    let filter = attach
        .source
        .as_ref()
        .and_then(|source| source.filter.as_ref())
        .and_then(|filter| filter.get(link::SESSION_FILTER));
    let value = match filter {
        None => return Ok(SessionRequest::None),
        Some(Value::Described(described)) => &described.value,
        Some(value) => value,
    };
    match value {
        Value::Null => Ok(SessionRequest::Next { wait: wait(attach) }),
        Value::String(id) => Ok(SessionRequest::Named(id.clone())),
        _ => Err(Error::new(
            ErrorKind::InvalidArgument,
            "The session filter of a receiver is a string, or null for the next session.",
        )),
    }
}

/// How long the client lets the service wait for a session.
fn wait(attach: &Attach) -> Option<Duration> {
    let properties = attach.properties.as_ref()?;
    let millis = properties.get(link::TIMEOUT)?.as_u64()?;
    Some(Duration::from_millis(millis))
}

/// The source with the session that was granted.
///
/// It is told in the form of the question: some clients look for a plain string, others for a described one.
pub(super) fn granted(source: &Source, session: &ByteString) -> Source {
    let mut source = source.clone();
    for (key, value) in source.filter.iter_mut().flat_map(|filter| &mut filter.0) {
        if key.as_text() == Some(link::SESSION_FILTER) {
            let id = Value::String(session.clone());
            match value {
                Value::Described(described) => described.value = id,
                other => *other = id,
            }
        }
    }
    source
}

/// The link properties that tell until when a session is locked.
pub(super) fn locked_until(until: Timestamp) -> Map {
    Map::new().with(
        Symbol::from_static(link::LOCKED_UNTIL_UTC),
        Value::Long(ticks(until)),
    )
}

/// Tenths of a microsecond since the beginning of the year 1, as .NET counts.
fn ticks(time: Timestamp) -> i64 {
    const UNIX_EPOCH: i64 = 621_355_968_000_000_000;
    time.as_millis()
        .saturating_mul(10_000)
        .saturating_add(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use servicebus_amqp::types::{Described, Descriptor};

    use super::*;

    fn source(value: Value) -> Source {
        Source {
            filter: Some(Map::new().with(Symbol::from_static(link::SESSION_FILTER), value)),
            ..Source::new("q1")
        }
    }

    fn described(value: Value) -> Value {
        Value::Described(Box::new(Described {
            descriptor: Descriptor::Code(0x13_7000_000c),
            value,
        }))
    }

    #[test]
    fn the_grant_has_the_form_of_the_question() {
        let id = || Value::from("a");
        for (asked, expected) in [
            (Value::Null, id()),
            (id(), id()),
            (described(Value::Null), described(id())),
            (described(id()), described(id())),
        ] {
            let granted = granted(&source(asked), &"a".into());
            assert_eq!(
                granted.filter.unwrap().get(link::SESSION_FILTER),
                Some(&expected)
            );
        }
    }

    #[test]
    fn ticks_are_those_of_dotnet() {
        let time = Timestamp::from_millis(1_700_000_000_000);
        assert_eq!(ticks(time), 638_355_968_000_000_000);
    }
}
