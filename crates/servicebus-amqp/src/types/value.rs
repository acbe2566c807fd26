use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use bytestring::ByteString;
use uuid::Uuid;

use super::Symbol;

/// Any AMQP value (AMQP 1.0 §1.6).
///
/// Equality is by type and value: `Uint(1)` and `Ulong(1)` differ, as they do on the wire.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// The absence of a value.
    #[default]
    Null,
    /// `boolean`
    Bool(bool),
    /// `ubyte`
    Ubyte(u8),
    /// `ushort`
    Ushort(u16),
    /// `uint`
    Uint(u32),
    /// `ulong`
    Ulong(u64),
    /// `byte`
    Byte(i8),
    /// `short`
    Short(i16),
    /// `int`
    Int(i32),
    /// `long`
    Long(i64),
    /// `float`
    Float(f32),
    /// `double`
    Double(f64),
    /// `decimal32`, IEEE 754-2008 in the bytes of the wire; not interpreted.
    Decimal32([u8; 4]),
    /// `decimal64`, IEEE 754-2008 in the bytes of the wire; not interpreted.
    Decimal64([u8; 8]),
    /// `decimal128`, IEEE 754-2008 in the bytes of the wire; not interpreted.
    Decimal128([u8; 16]),
    /// `char`
    Char(char),
    /// `timestamp`
    Timestamp(Timestamp),
    /// `uuid`
    Uuid(Uuid),
    /// `binary`
    Binary(Bytes),
    /// `string`
    String(ByteString),
    /// `symbol`
    Symbol(Symbol),
    /// `list`
    List(Vec<Self>),
    /// `map`
    Map(Map),
    /// `array`
    Array(Array),
    /// A described value: a descriptor and the value it annotates (§1.2).
    Described(Box<Described>),
}

/// A map in the order of the wire (AMQP 1.0 §1.6.23).
///
/// Maps on the wire are ordered and a peer may repeat a key, so this is a list of pairs: what was received is
/// re-sent unchanged. Look-ups are linear and return the first match; AMQP maps are short.
#[derive(Clone, Default, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "a map is its pairs, and nothing else"
)]
pub struct Map(pub Vec<(Value, Value)>);

/// An array: elements of one type (AMQP 1.0 §1.6.24).
///
/// The element type of an empty array is not kept; it is encoded as an array of null.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Array(Vec<Value>);

/// The elements of an array are not of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the elements of an array have to be of one type; the one at index {index} is of another")]
#[non_exhaustive]
pub struct MixedArray {
    /// The first element whose type differs from that of the first.
    pub index: usize,
}

/// A described value (AMQP 1.0 §1.2).
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "the specification fixes the two parts"
)]
pub struct Described {
    /// What the value means.
    pub descriptor: Descriptor,
    /// The value itself.
    pub value: Value,
}

/// The descriptor of a described value.
///
/// The specification reserves other types than these two; they are refused by the decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Descriptor {
    /// The numeric form: domain in the upper 32 bits, identifier in the lower.
    Code(u64),
    /// The symbolic form.
    Name(Symbol),
}

/// Milliseconds since the Unix epoch, in UTC (AMQP 1.0 §1.6.17).
///
/// The whole range of `i64` is legal on the wire; conversions to [`SystemTime`] are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The timestamp this many milliseconds after the Unix epoch; before it when negative.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The same instant as a [`SystemTime`], or `None` where the platform cannot represent it.
    pub fn to_system_time(self) -> Option<SystemTime> {
        let distance = Duration::from_millis(self.0.unsigned_abs());
        if self.0 >= 0 {
            UNIX_EPOCH.checked_add(distance)
        } else {
            UNIX_EPOCH.checked_sub(distance)
        }
    }
}

impl From<SystemTime> for Timestamp {
    /// Rounds towards the epoch to whole milliseconds; saturates at the ends of the range.
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(i64::try_from(after.as_millis()).unwrap_or(i64::MAX)),
            Err(before) => Self(
                i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis),
            ),
        }
    }
}

impl Map {
    /// An empty map.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of the first pair whose key is this text, as a string or as a symbol.
    ///
    /// Peers disagree on which of the two a well-known key is, so both match.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0
            .iter()
            .find(|(name, _)| name.as_text() == Some(key))
            .map(|(_, value)| value)
    }

    /// Adds a pair at the end; with a builder's return so that literals read well.
    #[must_use]
    pub fn with(mut self, key: impl Into<Value>, value: impl Into<Value>) -> Self {
        self.insert(key, value);
        self
    }

    /// Adds a pair at the end. An equal key that is already there stays, and stays the one [`get`](Self::get) finds.
    pub fn insert(&mut self, key: impl Into<Value>, value: impl Into<Value>) {
        self.0.push((key.into(), value.into()));
    }

    /// The pairs, in the order of the wire.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Value, &Value)> {
        self.0.iter().map(|(key, value)| (key, value))
    }
}

impl Array {
    /// An array of these elements.
    ///
    /// # Errors
    ///
    /// When they are not all of one type. Described elements also share their descriptor.
    pub fn new(elements: Vec<Value>) -> Result<Self, MixedArray> {
        let differs = |first: &Value| elements.iter().position(|other| !first.has_type_of(other));
        match elements.first().and_then(differs) {
            Some(index) => Err(MixedArray { index }),
            None => Ok(Self(elements)),
        }
    }

    /// An array of elements that the decoder read with one constructor.
    pub(crate) const fn of_one_type(elements: Vec<Value>) -> Self {
        Self(elements)
    }

    /// The elements.
    pub fn elements(&self) -> &[Value] {
        &self.0
    }

    /// The elements.
    pub fn into_elements(self) -> Vec<Value> {
        self.0
    }
}

impl FromIterator<Symbol> for Array {
    fn from_iter<I: IntoIterator<Item = Symbol>>(symbols: I) -> Self {
        Self(symbols.into_iter().map(Value::Symbol).collect())
    }
}

impl FromIterator<(Value, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (Value, Value)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Value {
    /// Whether both can be elements of one array.
    fn has_type_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Described(a), Self::Described(b)) => {
                a.descriptor == b.descriptor && a.value.has_type_of(&b.value)
            }
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// The text of a string or a symbol.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Symbol(symbol) => Some(symbol.as_str()),
            _ => None,
        }
    }

    /// The value of any integer type, when it fits.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::Ubyte(v) => Some(v.into()),
            Self::Ushort(v) => Some(v.into()),
            Self::Uint(v) => Some(v.into()),
            Self::Ulong(v) => v.try_into().ok(),
            Self::Byte(v) => Some(v.into()),
            Self::Short(v) => Some(v.into()),
            Self::Int(v) => Some(v.into()),
            Self::Long(v) => Some(v),
            _ => None,
        }
    }

    /// The value of any integer type, when it fits and is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Ulong(v) => Some(v),
            _ => self.as_i64()?.try_into().ok(),
        }
    }

    /// The bytes of a binary.
    pub fn as_binary(&self) -> Option<&Bytes> {
        if let Self::Binary(bytes) = self {
            Some(bytes)
        } else {
            None
        }
    }

    /// The map, if it is one.
    pub fn as_map(&self) -> Option<&Map> {
        if let Self::Map(map) = self {
            Some(map)
        } else {
            None
        }
    }

    /// The elements of a list or an array.
    pub fn as_elements(&self) -> Option<&[Self]> {
        match self {
            Self::List(elements) | Self::Array(Array(elements)) => Some(elements),
            _ => None,
        }
    }

    /// The uuid, if it is one.
    pub fn as_uuid(&self) -> Option<Uuid> {
        if let Self::Uuid(uuid) = self {
            Some(*uuid)
        } else {
            None
        }
    }

    /// The timestamp, if it is one.
    pub fn as_timestamp(&self) -> Option<Timestamp> {
        if let Self::Timestamp(timestamp) = self {
            Some(*timestamp)
        } else {
            None
        }
    }

    /// Whether this is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

macro_rules! value_from {
    ($($type:ty => $variant:ident),* $(,)?) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

value_from! {
    bool => Bool, u8 => Ubyte, u16 => Ushort, u32 => Uint, u64 => Ulong, i8 => Byte, i16 => Short, i32 => Int,
    i64 => Long, f32 => Float, f64 => Double, char => Char, Timestamp => Timestamp, SystemTime => Timestamp,
    Uuid => Uuid, Bytes => Binary, ByteString => String, String => String, &str => String, Symbol => Symbol,
    Map => Map, Array => Array, Vec<Value> => List, Described => Described,
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
