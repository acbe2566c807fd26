//! Sessions of messages: how one is asked for when a link is attached, and what the service grants.

use std::time::{Duration, SystemTime};

use bytestring::ByteString;
use servicebus_amqp::types::{Map, Symbol, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::names::link;
use crate::time;

/// The longest id of a session, in characters.
pub const MAX_SESSION_ID: usize = 128;

/// The filter of a source that asks for a session: the one of this id, or with `None` the next one that has messages
/// and no holder.
///
/// The value is a bare string or null. The specification wants it described; the official SDKs send it bare.
pub fn session_filter(session_id: Option<&str>) -> Map {
    Map::new().with(Symbol::from_static(link::SESSION_FILTER), session_id)
}

/// The id of the session that the service granted, from the filter of the source it answered with.
///
/// # Errors
///
/// [`ErrorKind::Protocol`] when the answer names no session.
pub fn granted_session(filter: Option<&Map>) -> Result<ByteString> {
    let value = filter.and_then(|filter| filter.get(link::SESSION_FILTER));
    let text = match value {
        Some(Value::Described(described)) => &described.value,
        Some(value) => value,
        None => &Value::Null,
    };
    match text {
        Value::String(id) => Ok(id.clone()),
        _ => Err(Error::new(
            ErrorKind::Protocol,
            "the service granted a session without naming it",
        )),
    }
}

/// When the granted session's lock ends, from the properties of the service's attach; `None` when it does not say.
pub fn granted_until(properties: Option<&Map>) -> Option<SystemTime> {
    match properties?.get(link::LOCKED_UNTIL)? {
        Value::Long(ticks) => time::system_time_from_ticks(*ticks),
        _ => None,
    }
}

/// How long the service is told to look for the next session when the caller waits for `wait`: the value of the link
/// property `com.microsoft:timeout` in milliseconds.
///
/// A little less than the wait, so that the service's answer arrives within it: up to the smaller of 1 % and 100 ms by
/// `random` in `0.0..1.0`, and at one second or more another 20 ms.
pub fn accept_timeout_millis(wait: Duration, random: f64) -> u32 {
    let wait_millis = time::millis_u32(wait);
    let spread = (wait / 100).min(Duration::from_millis(100));
    let ahead = time::fraction(spread, random);
    let fixed = if wait >= Duration::from_secs(1) {
        20
    } else {
        0
    };
    wait_millis.saturating_sub(time::millis_u32(ahead).saturating_add(fixed))
}

/// Checks the id of a session: at most 128 characters. The empty text is an id.
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] when it is longer.
pub fn check_session_id(id: &str) -> Result<()> {
    crate::message::check_length("session id", id, MAX_SESSION_ID)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use servicebus_amqp::types::{Described, Descriptor};

    use super::*;

    fn filter(value: impl Into<Value>) -> Map {
        Map::new().with(Symbol::from("com.microsoft:session-filter"), value)
    }

    #[test]
    fn the_filter_is_a_bare_string_or_null() {
        assert_eq!(session_filter(Some("s1")), filter("s1"));
        assert_eq!(session_filter(Some("")), filter(""));
        assert_eq!(session_filter(None), filter(Value::Null));
    }

    #[test]
    fn the_granted_session_may_be_described() {
        let described = |value: Value| Described {
            descriptor: Descriptor::Code(0x0000_0013_7000_000C),
            value,
        };
        for value in [Value::from("A"), described("A".into()).into()] {
            assert_eq!(granted_session(Some(&filter(value))).unwrap(), "A");
        }
        assert_eq!(granted_session(Some(&filter(""))).unwrap(), "");
        let nothing = [
            Some(filter(Value::Null)),
            Some(filter(described(Value::Null))),
            Some(filter(7)),
            Some(Map::new()),
            None,
        ];
        for answer in nothing {
            let error = granted_session(answer.as_ref()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Protocol);
        }
    }

    #[test]
    fn b78_the_lock_ends_at_ticks_and_not_at_milliseconds() {
        let properties =
            |value: Value| Map::new().with(Symbol::from("com.microsoft:locked-until-utc"), value);
        let at = |value: i64| granted_until(Some(&properties(value.into())));
        assert_eq!(
            at(0x08e2_c4d7_c27c_c000),
            Some(UNIX_EPOCH + Duration::from_secs(1_893_456_000)),
            "2030-01-01T00:00:00Z"
        );
        assert!(at(0x2bca_2875_f437_3fff).is_some());
        let _ = (at(i64::MAX), at(i64::MIN));
        assert_eq!(granted_until(Some(&properties("soon".into()))), None);
        assert_eq!(granted_until(Some(&Map::new())), None);
        assert_eq!(granted_until(None), None);
    }

    #[test]
    fn b74_the_service_is_told_a_little_less_than_the_wait() {
        let millis =
            |seconds: u64, random| accept_timeout_millis(Duration::from_secs(seconds), random);
        assert_eq!(millis(4, 0.0), 3980);
        assert_eq!(millis(4, 1.0), 3940);
        // The official SDKs were seen to send 4958 and 4949 for five seconds.
        assert!((millis(5, 1.0)..=millis(5, 0.0)).contains(&4958));
        assert!((millis(5, 1.0)..=millis(5, 0.0)).contains(&4949));
        assert_eq!(millis(300, 1.0), 299_880);
        assert_eq!(accept_timeout_millis(Duration::from_millis(500), 0.0), 500);
        assert_eq!(accept_timeout_millis(Duration::ZERO, 0.5), 0);
        assert!(accept_timeout_millis(Duration::MAX, 0.0) > u32::MAX - 200);
    }

    #[test]
    fn b18_ids_of_sessions() {
        for length in [0, 1, 2, 3, 127, 128] {
            assert!(check_session_id(&"ö".repeat(length)).is_ok());
        }
        assert!(check_session_id(&"s".repeat(129)).is_err());
    }
}
