use bytes::{BufMut, BytesMut};

use super::read::{Reader, Result};
use super::{DecodeError, constructor as c, value};
use crate::types::{LazyMap, Map, Value};

impl LazyMap {
    /// The value of the first pair whose key is this text, as a string or as a symbol. Other pairs are passed over.
    ///
    /// # Errors
    ///
    /// When the pairs up to the one that is found are malformed.
    pub fn get(&self, key: &str) -> std::result::Result<Option<Value>, DecodeError> {
        let (mut reader, pairs) = self.enter()?;
        for _ in 0..pairs {
            if is_key(&mut reader, key)? {
                return value::decode(&mut reader).map(Some);
            }
            reader.skip()?;
        }
        Ok(None)
    }

    /// The pairs, in the order of the wire. Ends after the first error.
    pub fn iter(&self) -> impl Iterator<Item = std::result::Result<(Value, Value), DecodeError>> {
        let mut state = Some(self.enter());
        std::iter::from_fn(move || {
            let (mut reader, left) = match state.take()? {
                Ok(entered) => entered,
                Err(error) => return Some(Err(error)),
            };
            if left == 0 {
                return reader.finish().err().map(Err);
            }
            let pair = pair(&mut reader);
            if pair.is_ok() {
                state = Some(Ok((reader, left - 1)));
            }
            Some(pair)
        })
    }

    /// Shows `each` the pairs whose key is text, a string or a symbol, in the order of the wire; others are passed over, and
    /// so are keys that are not UTF-8. Costs less than [`iter`](Self::iter), for the keys stay where they are.
    ///
    /// # Errors
    ///
    /// When a pair is otherwise malformed; the ones before it were shown.
    pub fn for_each_text(
        &self,
        mut each: impl FnMut(&str, Value),
    ) -> std::result::Result<(), DecodeError> {
        let (mut reader, pairs) = self.enter()?;
        for _ in 0..pairs {
            let mut ahead = reader.clone();
            let constructor = ahead.u8()?;
            if let Some(bytes) = ahead.text_bytes(constructor)? {
                reader = ahead;
                let value = value::decode(&mut reader)?;
                if let Ok(key) = std::str::from_utf8(bytes) {
                    each(key, value);
                }
            } else {
                reader.skip()?;
                reader.skip()?;
            }
        }
        Ok(())
    }

    /// All pairs.
    ///
    /// # Errors
    ///
    /// When a pair is malformed.
    pub fn decode(&self) -> std::result::Result<Map, DecodeError> {
        let mut reader = Reader::new(&self.encoded);
        let constructor = reader.u8()?;
        let map = value::map(&mut reader, constructor)?;
        reader.finish()?;
        Ok(map)
    }

    /// The number of pairs, as the map states it.
    pub fn len(&self) -> usize {
        self.enter().map_or(0, |(_, pairs)| pairs)
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A reader of the pairs, and their number.
    fn enter(&self) -> Result<(Reader<'_>, usize)> {
        let mut reader = Reader::new(&self.encoded);
        let constructor = reader.u8()?;
        let map = reader.enter_map(constructor)?;
        Ok((reader, map.count / 2))
    }
}

impl From<&Map> for LazyMap {
    /// Encodes the map.
    fn from(map: &Map) -> Self {
        // Room for most maps, so that they are written without moving.
        let mut out = BytesMut::with_capacity(map.len().saturating_mul(32).saturating_add(8));
        value::encode_map(&mut out, map);
        Self {
            encoded: out.freeze(),
        }
    }
}

impl From<Map> for LazyMap {
    /// Encodes the map.
    fn from(map: Map) -> Self {
        Self::from(&map)
    }
}

fn pair(reader: &mut Reader<'_>) -> Result<(Value, Value)> {
    let key = value::decode(reader)?;
    Ok((key, value::decode(reader)?))
}

/// Reads a key, and says whether it is this text.
fn is_key(reader: &mut Reader<'_>, text: &str) -> Result<bool> {
    let constructor = reader.u8()?;
    if let Some(bytes) = reader.text_bytes(constructor)? {
        return Ok(bytes == text.as_bytes());
    }
    reader.skip_data(constructor)?;
    Ok(false)
}

/// Passes over a map section, whose size and count are checked.
pub(super) fn decode(reader: &mut Reader<'_>, constructor: u8) -> Result<LazyMap> {
    let start = reader.position().saturating_sub(1);
    let map = reader.enter_map(constructor)?;
    let rest = reader.remaining();
    reader.take(rest)?;
    reader.leave(&map)?;
    Ok(LazyMap {
        encoded: reader.slice(start..reader.position()),
    })
}

pub(super) fn encode(out: &mut BytesMut, map: &LazyMap) {
    if map.encoded.is_empty() {
        out.put_slice(&[c::MAP_8, 1, 0]);
    } else {
        out.put_slice(&map.encoded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Symbol;

    #[test]
    fn text_keys_are_shown_and_others_passed_over() {
        let map = Map::new()
            .with("a", 1)
            .with(2u64, "other")
            .with(Symbol::from("b"), "x");
        let mut seen = Vec::new();
        let each = |key: &str, value| seen.push((key.to_owned(), value));
        LazyMap::from(&map).for_each_text(each).unwrap();
        assert_eq!(
            seen,
            [
                ("a".to_owned(), Value::Int(1)),
                ("b".to_owned(), "x".into())
            ]
        );
    }

    #[test]
    fn what_comes_before_malformed_bytes_is_shown() {
        // {"a": true, "b": <no constructor 0x03>}
        let encoded = bytes::Bytes::from_static(b"\xc1\x09\x04\xa1\x01a\x41\xa1\x01b\x03");
        let mut seen = 0;
        let result = LazyMap { encoded }.for_each_text(|_, _| seen += 1);
        assert!(result.is_err());
        assert_eq!(seen, 1);
    }
}
