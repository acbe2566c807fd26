use servicebus_amqp::types::{ByteString, Bytes, Map, Timestamp, Value};

use crate::broker::{Error, ErrorKind, LockToken};
use crate::gateway::names::key;

/// The body of a request: a map with text keys. A null is as good as no value.
pub(super) struct Arguments<'a>(Option<&'a Map>);

impl<'a> Arguments<'a> {
    pub(super) fn new(body: &'a Value) -> Result<Self, Error> {
        match body {
            Value::Map(map) => Ok(Self(Some(map))),
            Value::Null => Ok(Self(None)),
            _ => Err(invalid("The body of a request is a map.".into())),
        }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.0?.get(key).filter(|value| !value.is_null())
    }

    /// A value that must be there and be readable.
    fn read<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, Error> {
        self.read_optional(key, expected, read)?
            .ok_or_else(|| invalid(format!("The request lacks '{key}', {expected}.")))
    }

    fn read_optional<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(invalid(format!(
                "'{key}' in the request is not {expected}."
            ))),
        }
    }

    pub(super) fn long(&self, key: &str) -> Result<i64, Error> {
        self.read(key, "a whole number", Value::as_i64)
    }

    /// A number of things.
    pub(super) fn size(&self, key: &str) -> Result<usize, Error> {
        let size = self.long(key)?;
        usize::try_from(size).map_err(|_| {
            Error::new(
                ErrorKind::ArgumentOutOfRange,
                format!("'{key}' in the request is {size}; it must not be negative."),
            )
        })
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, Error> {
        let flag = self.read_optional(key, "true or false", |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })?;
        Ok(flag.unwrap_or(false))
    }

    pub(super) fn text(&self, key: &str) -> Result<ByteString, Error> {
        self.read(key, "a string", text)
    }

    pub(super) fn optional_text(&self, key: &str) -> Result<Option<ByteString>, Error> {
        self.read_optional(key, "a string", text)
    }

    pub(super) fn binary(&self, key: &str) -> Result<Bytes, Error> {
        self.read(key, "a binary", |value| value.as_binary().cloned())
    }

    pub(super) fn optional_binary(&self, key: &str) -> Result<Option<Bytes>, Error> {
        self.read_optional(key, "a binary", |value| value.as_binary().cloned())
    }

    pub(super) fn optional_timestamp(&self, key: &str) -> Result<Option<Timestamp>, Error> {
        self.read_optional(key, "a timestamp", Value::as_timestamp)
    }

    pub(super) fn map(&self, key: &str) -> Result<Self, Error> {
        self.read(key, "a map", |value| Some(Self(Some(value.as_map()?))))
    }

    pub(super) fn optional_arguments(&self, key: &str) -> Result<Option<Self>, Error> {
        self.read_optional(key, "a map", |value| Some(Self(Some(value.as_map()?))))
    }

    pub(super) fn optional_map(&self, key: &str) -> Result<Map, Error> {
        let map = self.read_optional(key, "a map", |value| value.as_map().cloned())?;
        Ok(map.unwrap_or_default())
    }

    pub(super) fn maps(&self, key: &str) -> Result<Vec<Self>, Error> {
        self.read(key, "a list of maps", |value| {
            value
                .as_elements()?
                .iter()
                .map(|value| Some(Self(Some(value.as_map()?))))
                .collect()
        })
    }

    pub(super) fn longs(&self, key: &str) -> Result<Vec<i64>, Error> {
        self.read(key, "an array of longs", |value| {
            value.as_elements()?.iter().map(Value::as_i64).collect()
        })
    }

    pub(super) fn lock_tokens(&self) -> Result<Vec<LockToken>, Error> {
        self.read(key::LOCK_TOKENS, "an array of uuids", |value| {
            value
                .as_elements()?
                .iter()
                .map(|token| token.as_uuid().map(LockToken))
                .collect()
        })
    }
}

fn text(value: &Value) -> Option<ByteString> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Symbol(symbol) => Some(symbol.clone().into_inner()),
        _ => None,
    }
}

fn invalid(text: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, text)
}
