use std::cmp::Ordering;

use bytes::Bytes;
use servicebus_amqp::types::{ByteString, Described, Descriptor, Symbol, Timestamp, Uuid, Value};

use super::EvaluateError;

/// Milliseconds of .NET's year 1 before the Unix epoch.
const DOTNET_EPOCH_MILLIS: i64 = -62_135_596_800_000;

/// A value that filters reckon with. Null and unknown are `None` in front of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Scalar {
    /// True or false.
    Bool(bool),
    /// An integer of any type; wide enough for every sum and product of two of 64 bits.
    Int(i128),
    /// A floating-point number.
    Float(f64),
    /// Text.
    Text(ByteString),
    /// Bytes.
    Binary(Bytes),
    /// A uuid.
    Uuid(Uuid),
    /// A moment.
    Timestamp(Timestamp),
    /// A length of time in ticks of 100 ns.
    Ticks(i64),
}

impl Scalar {
    /// What a property value is to a filter; `None` for null, and for types that filters do not know.
    pub fn from_value(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Bool(v) => Self::Bool(*v),
            Value::Ulong(v) => Self::Int((*v).into()),
            Value::Float(v) => Self::Float((*v).into()),
            Value::Double(v) => Self::Float(*v),
            Value::Char(v) => Self::Text(v.to_string().into()),
            Value::Timestamp(v) => Self::Timestamp(*v),
            Value::Uuid(v) => Self::Uuid(*v),
            Value::Binary(v) => Self::Binary(v.clone()),
            Value::String(v) => Self::Text(v.clone()),
            Value::Symbol(v) => Self::Text(v.clone().into_inner()),
            Value::Described(described) => Self::from_described(described)?,
            other => Self::Int(other.as_i64()?.into()),
        })
    }

    /// The three types of .NET that travel as described values.
    fn from_described(described: &Described) -> Option<Self> {
        let Descriptor::Name(name) = &described.descriptor else {
            return None;
        };
        match name.as_str() {
            "com.microsoft:timespan" => described.value.as_i64().map(Self::Ticks),
            "com.microsoft:datetime-offset" => {
                let millis = described.value.as_i64()?.div_euclid(10_000);
                let millis = millis.checked_add(DOTNET_EPOCH_MILLIS)?;
                Some(Self::Timestamp(Timestamp::from_millis(millis)))
            }
            "com.microsoft:uri" => Some(Self::Text(described.value.as_text()?.into())),
            _ => None,
        }
    }

    /// The property value for this, of the type of the value that it replaces if it fits there.
    pub(super) fn to_value(&self, old: Option<&Value>) -> Value {
        match (self, old) {
            (Self::Int(v), Some(old)) if old.as_i64().is_some() || old.as_u64().is_some() => {
                integer_like(*v, old).unwrap_or_else(|| integer(*v))
            }
            #[allow(clippy::cast_precision_loss, reason = "as a conversion to double does")]
            (Self::Int(v), Some(Value::Double(_) | Value::Float(_))) => Value::Double(*v as f64),
            (Self::Int(v), _) => integer(*v),
            (Self::Bool(v), _) => Value::Bool(*v),
            (Self::Float(v), _) => Value::Double(*v),
            (Self::Text(v), _) => Value::String(v.clone()),
            (Self::Binary(v), _) => Value::Binary(v.clone()),
            (Self::Uuid(v), _) => Value::Uuid(*v),
            (Self::Timestamp(v), _) => Value::Timestamp(*v),
            (Self::Ticks(v), _) => Value::Described(Box::new(Described {
                descriptor: Descriptor::Name(Symbol::from_static("com.microsoft:timespan")),
                value: Value::Long(*v),
            })),
        }
    }

    /// What kind of value it is, for error texts.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::Binary(_) => "binary",
            Self::Uuid(_) => "a uuid",
            Self::Timestamp(_) => "a time",
            Self::Ticks(_) => "a duration",
        }
    }

    /// Whether the two are equal: numbers by value, everything else by type and value.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        matches!(self.compare(other), Ok(Some(Ordering::Equal)))
    }

    /// The order of the two; `None` if one is not a number in the sense of IEEE 754.
    pub(super) fn compare(&self, other: &Self) -> Result<Option<Ordering>, EvaluateError> {
        Ok(match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Int(_) | Self::Float(_), Self::Int(_) | Self::Float(_)) => {
                self.as_float().partial_cmp(&other.as_float())
            }
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Text(a), Self::Text(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
            (Self::Binary(a), Self::Binary(b)) => Some(a.cmp(b)),
            (Self::Uuid(a), Self::Uuid(b)) => Some(a.cmp(b)),
            // A uuid is written as text in a filter.
            (Self::Uuid(a), Self::Text(b)) => Some(equal_or_less(*a == uuid(b)?)),
            (Self::Text(a), Self::Uuid(b)) => Some(equal_or_less(uuid(a)? == *b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            (Self::Ticks(a), Self::Ticks(b)) => Some(a.cmp(b)),
            _ => {
                return Err(EvaluateError(format!(
                    "{} cannot be compared with {}",
                    self.kind(),
                    other.kind()
                )));
            }
        })
    }

    /// The number as a double; not a number for everything else.
    pub(super) fn as_float(&self) -> f64 {
        match self {
            #[allow(clippy::cast_precision_loss, reason = "as a promotion to double does")]
            Self::Int(v) => *v as f64,
            Self::Float(v) => *v,
            _ => f64::NAN,
        }
    }
}

fn uuid(text: &str) -> Result<Uuid, EvaluateError> {
    Uuid::parse_str(text)
        .map_err(|_| EvaluateError(format!("a uuid cannot be compared with '{text}'")))
}

fn equal_or_less(equal: bool) -> Ordering {
    if equal {
        Ordering::Equal
    } else {
        Ordering::Less
    }
}

fn integer(v: i128) -> Value {
    match (i64::try_from(v), u64::try_from(v)) {
        (Ok(v), _) => Value::Long(v),
        (_, Ok(v)) => Value::Ulong(v),
        #[allow(clippy::cast_precision_loss, reason = "the only type left for it")]
        _ => Value::Double(v as f64),
    }
}

/// The integer in the type of another one.
fn integer_like(v: i128, old: &Value) -> Option<Value> {
    Some(match old {
        Value::Ubyte(_) => Value::Ubyte(v.try_into().ok()?),
        Value::Ushort(_) => Value::Ushort(v.try_into().ok()?),
        Value::Uint(_) => Value::Uint(v.try_into().ok()?),
        Value::Ulong(_) => Value::Ulong(v.try_into().ok()?),
        Value::Byte(_) => Value::Byte(v.try_into().ok()?),
        Value::Short(_) => Value::Short(v.try_into().ok()?),
        Value::Int(_) => Value::Int(v.try_into().ok()?),
        _ => Value::Long(v.try_into().ok()?),
    })
}
