//! The described types that .NET has for application properties.

use std::time::{Duration, SystemTime};

use bytestring::ByteString;
use servicebus_amqp::types::{Described, Descriptor, Symbol, Value};

use crate::names::property;
use crate::time;

/// A length of time as an application property, as .NET's `TimeSpan`: units of 100 ns, which may be negative.
///
/// ```
/// use std::time::Duration;
/// use servicebus_core::message::{Message, TimeSpan};
///
/// let message = Message::new("").property("elapsed", TimeSpan::from(Duration::from_millis(5)));
/// let read = TimeSpan::from_value(message.application_properties.get("elapsed").unwrap());
/// assert_eq!(read.and_then(TimeSpan::to_duration), Some(Duration::from_millis(5)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpan(i64);

impl TimeSpan {
    /// A length of this many units of 100 ns.
    pub const fn from_ticks(ticks: i64) -> Self {
        Self(ticks)
    }

    /// How many units of 100 ns.
    pub const fn ticks(self) -> i64 {
        self.0
    }

    /// The length; `None` when it is negative.
    pub fn to_duration(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(time::duration_from_ticks)
    }

    /// The length, if the value is one.
    pub fn from_value(value: &Value) -> Option<Self> {
        match described(value, property::TIME_SPAN)? {
            Value::Long(ticks) => Some(Self(*ticks)),
            _ => None,
        }
    }
}

impl From<Duration> for TimeSpan {
    /// Rounds down to 100 ns; saturates at 29,000 years.
    fn from(duration: Duration) -> Self {
        Self(time::ticks_from_duration(duration))
    }
}

impl From<TimeSpan> for Value {
    fn from(span: TimeSpan) -> Self {
        describe(property::TIME_SPAN, span.0)
    }
}

/// A point in time as an application property, as .NET's `DateTimeOffset`. It travels in UTC, without its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTimeOffset(i64);

impl DateTimeOffset {
    /// The point in time this many units of 100 ns after 0001-01-01 UTC.
    pub const fn from_ticks(ticks: i64) -> Self {
        Self(ticks)
    }

    /// Units of 100 ns since 0001-01-01 UTC.
    pub const fn ticks(self) -> i64 {
        self.0
    }

    /// The point in time; `None` where the platform cannot represent it.
    pub fn to_system_time(self) -> Option<SystemTime> {
        time::system_time_from_ticks(self.0)
    }

    /// The point in time, if the value is one.
    pub fn from_value(value: &Value) -> Option<Self> {
        match described(value, property::DATE_TIME_OFFSET)? {
            Value::Long(ticks) => Some(Self(*ticks)),
            _ => None,
        }
    }
}

impl From<SystemTime> for DateTimeOffset {
    /// Rounds towards 1970 to 100 ns.
    fn from(time: SystemTime) -> Self {
        Self(time::ticks_from_system_time(time))
    }
}

impl From<DateTimeOffset> for Value {
    fn from(time: DateTimeOffset) -> Self {
        describe(property::DATE_TIME_OFFSET, time.0)
    }
}

/// An address as an application property, as .NET's `Uri`. Absolute or relative; it is not looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uri(ByteString);

impl Uri {
    /// The address of this text.
    pub fn new(text: impl Into<ByteString>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address, if the value is one.
    pub fn from_value(value: &Value) -> Option<Self> {
        match described(value, property::URI)? {
            Value::String(text) => Some(Self(text.clone())),
            _ => None,
        }
    }
}

impl From<Uri> for Value {
    fn from(uri: Uri) -> Self {
        describe(property::URI, uri.0)
    }
}

fn describe(name: &'static str, value: impl Into<Value>) -> Value {
    Value::from(Described {
        descriptor: Descriptor::Name(Symbol::from_static(name)),
        value: value.into(),
    })
}

fn described<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Described(described) => match &described.descriptor {
            Descriptor::Name(found) if found == name => Some(&described.value),
            _ => None,
        },
        _ => None,
    }
}
