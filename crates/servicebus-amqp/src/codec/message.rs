use bytes::{Bytes, BytesMut};

use super::{DecodeError, EncodeError};
use crate::types::{LazyMap, Map, Message, Value};

impl Message {
    /// Decodes the sections of a message. The body, binaries, text and maps are slices of `input`.
    ///
    /// # Errors
    ///
    /// When a section is malformed, unknown, or a second one of its kind. What a [`LazyMap`] holds is not looked at.
    pub fn decode(input: Bytes) -> Result<Self, DecodeError> {
        let _ = input;
        todo!()
    }

    /// Appends the message in the smallest form.
    ///
    /// # Errors
    ///
    /// When the encoding would exceed 4 GiB; `out` is as it was before.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        let _ = out;
        todo!()
    }
}

impl LazyMap {
    /// The value of the first pair whose key is this text, as a string or as a symbol. Other pairs are passed over.
    ///
    /// # Errors
    ///
    /// When the pairs up to the one that is found are malformed.
    pub fn get(&self, key: &str) -> Result<Option<Value>, DecodeError> {
        let _ = key;
        todo!()
    }

    /// The pairs, in the order of the wire. Ends after the first error.
    pub fn iter(&self) -> impl Iterator<Item = Result<(Value, Value), DecodeError>> {
        std::iter::empty()
    }

    /// All pairs.
    ///
    /// # Errors
    ///
    /// When a pair is malformed.
    pub fn decode(&self) -> Result<Map, DecodeError> {
        self.iter().collect()
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        todo!()
    }
}

impl From<&Map> for LazyMap {
    /// Encodes the map.
    fn from(map: &Map) -> Self {
        let _ = map;
        todo!()
    }
}
