//! A cursor over the bytes of a frame, value or message, and readers of the primitive types.

use std::ops::Range;

use bytes::Bytes;
use bytestring::ByteString;
use uuid::Uuid;

use super::constructor as c;
use super::{DecodeError, DecodeErrorKind, MAX_DEPTH, MAX_ZERO_WIDTH_ELEMENTS, descriptor};
use crate::types::{Descriptor, Symbol, Timestamp};

pub(super) type Result<T> = std::result::Result<T, DecodeError>;

/// Readers of a type take the constructor that was already read: the caller had to look at it for null.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    source: &'a Bytes,
    /// What is left of the innermost compound value; a part of the source.
    rest: &'a [u8],
    depth: usize,
    zero_width: usize,
}

/// A list, map or array that the reader is in.
#[derive(Debug)]
pub(super) struct Compound<'a> {
    pub(super) count: usize,
    /// What follows it.
    outer: &'a [u8],
}

/// How wide the size and count of a compound value are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Width {
    One,
    Four,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a Bytes) -> Self {
        Self::at(source, 0)
    }

    pub(super) fn at(source: &'a Bytes, position: usize) -> Self {
        Self {
            source,
            rest: source.get(position..).unwrap_or_default(),
            depth: 0,
            zero_width: 0,
        }
    }

    /// How far into the source.
    #[inline]
    pub(super) fn position(&self) -> usize {
        self.rest
            .as_ptr()
            .addr()
            .saturating_sub(self.source.as_ptr().addr())
    }

    /// How many bytes the innermost compound value has left.
    #[inline]
    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Checks that nothing is left.
    #[inline]
    pub(super) fn finish(&self) -> Result<()> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.error(DecodeErrorKind::TrailingBytes(left))),
        }
    }

    #[cold]
    pub(super) fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError::new(kind, self.position())
    }

    #[cold]
    fn truncated(&self, needed: usize) -> DecodeError {
        self.error(DecodeErrorKind::Truncated {
            needed,
            present: self.remaining(),
        })
    }

    /// An error about the constructor that was read last.
    #[cold]
    pub(super) fn unexpected(&self, expected: &'static str, found: u8) -> DecodeError {
        let kind = if found == c::DESCRIBED || c::layout(found).is_some() {
            DecodeErrorKind::UnexpectedType { expected, found }
        } else {
            DecodeErrorKind::UnknownConstructor(found)
        };
        DecodeError::new(kind, self.position().saturating_sub(1))
    }

    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(len) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.truncated(len)),
        }
    }

    /// A place that was read, sharing the source.
    #[inline]
    pub(super) fn slice(&self, place: Range<usize>) -> Bytes {
        self.source.slice(place)
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.rest.split_first_chunk() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(self.truncated(N)),
        }
    }

    #[inline]
    pub(super) fn u8(&mut self) -> Result<u8> {
        self.array().map(|[byte]| byte)
    }

    #[inline]
    fn size(&mut self, width: Width) -> Result<usize> {
        match width {
            Width::One => self.u8().map(usize::from),
            Width::Four => {
                let size = u32::from_be_bytes(self.array()?);
                // Saturates where usize is smaller than 32 bits; no slice is that long there.
                Ok(usize::try_from(size).unwrap_or(usize::MAX))
            }
        }
    }

    /// Enters a compound value: reads its size and count.
    #[inline]
    pub(super) fn enter(&mut self, width: Width) -> Result<Compound<'a>> {
        let size = self.size(width)?;
        let inner = self.take(size)?;
        let outer = std::mem::replace(&mut self.rest, inner);
        let count = self.size(width)?;
        Ok(Compound { count, outer })
    }

    /// Enters a list or map: every element has at least its constructor, which bounds the count.
    #[inline]
    fn enter_counted(&mut self, width: Width) -> Result<Compound<'a>> {
        let compound = self.enter(width)?;
        let present = self.remaining();
        if compound.count > present {
            return Err(self.error(DecodeErrorKind::InvalidCount {
                count: compound.count,
                present,
            }));
        }
        Ok(compound)
    }

    /// Leaves a compound value, all of which has to have been read.
    #[inline]
    pub(super) fn leave(&mut self, compound: &Compound<'a>) -> Result<()> {
        self.finish()?;
        self.rest = compound.outer;
        Ok(())
    }

    /// Enters a list.
    #[inline]
    pub(super) fn enter_list(&mut self, constructor: u8) -> Result<Compound<'a>> {
        match constructor {
            c::LIST_0 => {
                let outer = self.rest;
                self.rest = self.take(0)?;
                Ok(Compound { count: 0, outer })
            }
            c::LIST_8 => self.enter_counted(Width::One),
            c::LIST_32 => self.enter_counted(Width::Four),
            other => Err(self.unexpected("list", other)),
        }
    }

    /// Enters a map; the count is that of keys and values together.
    #[inline]
    pub(super) fn enter_map(&mut self, constructor: u8) -> Result<Compound<'a>> {
        let compound = match constructor {
            c::MAP_8 => self.enter_counted(Width::One)?,
            c::MAP_32 => self.enter_counted(Width::Four)?,
            other => return Err(self.unexpected("map", other)),
        };
        if compound.count % 2 != 0 {
            return Err(self.error(DecodeErrorKind::OddMap(compound.count)));
        }
        Ok(compound)
    }

    /// Counts levels of nesting in; [`ascend`](Self::ascend) counts them out.
    #[inline]
    pub(super) fn descend(&mut self, levels: usize) -> Result<()> {
        self.depth = self.depth.saturating_add(levels);
        if self.depth > MAX_DEPTH {
            return Err(self.error(DecodeErrorKind::TooDeep));
        }
        Ok(())
    }

    #[inline]
    pub(super) fn ascend(&mut self, levels: usize) {
        self.depth = self.depth.saturating_sub(levels);
    }

    /// Counts values that take no bytes of their own, over the life of the reader.
    pub(super) fn charge_zero_width(&mut self, values: usize) -> Result<()> {
        self.zero_width = self.zero_width.saturating_add(values);
        if self.zero_width > MAX_ZERO_WIDTH_ELEMENTS {
            return Err(self.error(DecodeErrorKind::TooManyZeroWidthElements));
        }
        Ok(())
    }

    /// Passes over one value without looking into it.
    pub(super) fn skip(&mut self) -> Result<()> {
        let constructor = self.u8()?;
        self.skip_data(constructor)
    }

    /// Passes over the data of a value whose constructor was read.
    pub(super) fn skip_data(&mut self, mut constructor: u8) -> Result<()> {
        while constructor == c::DESCRIBED {
            self.descriptor()?;
            constructor = self.u8()?;
        }
        let len = match c::layout(constructor) {
            Some(c::Layout::Fixed(len)) => len,
            Some(c::Layout::Sized8) => self.size(Width::One)?,
            Some(c::Layout::Sized32) => self.size(Width::Four)?,
            None => return Err(self.unexpected("a value", constructor)),
        };
        self.take(len)?;
        Ok(())
    }

    /// A descriptor, after the constructor of a described value.
    pub(super) fn descriptor(&mut self) -> Result<Descriptor> {
        let constructor = self.u8()?;
        match constructor {
            c::SMALL_ULONG | c::ULONG | c::ULONG_0 => {
                Ok(Descriptor::Code(self.ulong(constructor)?))
            }
            c::SYMBOL_8 | c::SYMBOL_32 => Ok(Descriptor::Name(self.symbol(constructor)?)),
            other => Err(self.unexpected("a descriptor (ulong or symbol)", other)),
        }
    }

    /// The descriptor of one of the specification's types, as its code; the constructor of the described value was
    /// read.
    #[inline]
    pub(super) fn known_descriptor(
        &mut self,
        constructor: u8,
        expected: &'static str,
    ) -> Result<u8> {
        if constructor != c::DESCRIBED {
            return Err(self.unexpected(expected, constructor));
        }
        // What nearly every peer sends.
        if let [c::SMALL_ULONG, code, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(*code);
        }
        let start = self.position();
        let found = self.descriptor()?;
        descriptor::known_code(&found)
            .ok_or_else(|| Self::unexpected_descriptor(expected, &found, start))
    }

    #[cold]
    pub(super) fn unexpected_descriptor(
        expected: &'static str,
        found: &Descriptor,
        offset: usize,
    ) -> DecodeError {
        // Names are the peer's and of any length.
        let found = found.to_string().chars().take(100).collect();
        DecodeError::new(
            DecodeErrorKind::UnexpectedDescriptor { expected, found },
            offset,
        )
    }

    #[cold]
    pub(super) fn invalid_choice(
        &self,
        expected: &'static str,
        found: impl std::fmt::Display,
    ) -> DecodeError {
        let found = found.to_string().chars().take(100).collect();
        self.error(DecodeErrorKind::InvalidChoice { expected, found })
    }

    #[inline]
    pub(super) fn boolean(&mut self, constructor: u8) -> Result<bool> {
        match constructor {
            c::TRUE => Ok(true),
            c::FALSE => Ok(false),
            c::BOOLEAN => match self.u8()? {
                0 => Ok(false),
                1 => Ok(true),
                other => Err(self.invalid_choice("boolean", other)),
            },
            other => Err(self.unexpected("boolean", other)),
        }
    }

    #[inline]
    pub(super) fn ubyte(&mut self, constructor: u8) -> Result<u8> {
        match constructor {
            c::UBYTE => self.u8(),
            other => Err(self.unexpected("ubyte", other)),
        }
    }

    #[inline]
    pub(super) fn ushort(&mut self, constructor: u8) -> Result<u16> {
        match constructor {
            c::USHORT => self.array().map(u16::from_be_bytes),
            other => Err(self.unexpected("ushort", other)),
        }
    }

    #[inline]
    pub(super) fn uint(&mut self, constructor: u8) -> Result<u32> {
        match constructor {
            c::UINT => self.array().map(u32::from_be_bytes),
            c::SMALL_UINT => self.u8().map(u32::from),
            c::UINT_0 => Ok(0),
            other => Err(self.unexpected("uint", other)),
        }
    }

    #[inline]
    pub(super) fn ulong(&mut self, constructor: u8) -> Result<u64> {
        match constructor {
            c::ULONG => self.array().map(u64::from_be_bytes),
            c::SMALL_ULONG => self.u8().map(u64::from),
            c::ULONG_0 => Ok(0),
            other => Err(self.unexpected("ulong", other)),
        }
    }

    #[inline]
    pub(super) fn timestamp(&mut self, constructor: u8) -> Result<Timestamp> {
        match constructor {
            c::TIMESTAMP => self
                .array()
                .map(|bytes| Timestamp::from_millis(i64::from_be_bytes(bytes))),
            other => Err(self.unexpected("timestamp", other)),
        }
    }

    #[inline]
    pub(super) fn uuid(&mut self) -> Result<Uuid> {
        self.array().map(Uuid::from_bytes)
    }

    #[inline]
    pub(super) fn binary(&mut self, constructor: u8) -> Result<Bytes> {
        let place = self.binary_place(constructor)?;
        Ok(self.slice(place))
    }

    /// Where in the source the bytes of a binary are.
    #[inline]
    pub(super) fn binary_place(&mut self, constructor: u8) -> Result<Range<usize>> {
        match constructor {
            c::BINARY_8 => self.sized(Width::One),
            c::BINARY_32 => self.sized(Width::Four),
            other => Err(self.unexpected("binary", other)),
        }
    }

    #[inline]
    pub(super) fn string(&mut self, constructor: u8) -> Result<ByteString> {
        match constructor {
            c::STRING_8 => self.text(Width::One),
            c::STRING_32 => self.text(Width::Four),
            other => Err(self.unexpected("string", other)),
        }
    }

    /// A symbol. A string is tolerated: peers confuse the two, and a refusal would cost a whole message or connection.
    #[inline]
    pub(super) fn symbol(&mut self, constructor: u8) -> Result<Symbol> {
        match constructor {
            c::SYMBOL_8 | c::STRING_8 => self.text(Width::One).map(Symbol::from),
            c::SYMBOL_32 | c::STRING_32 => self.text(Width::Four).map(Symbol::from),
            other => Err(self.unexpected("symbol", other)),
        }
    }

    /// The bytes of a string or symbol, for comparison; `None` (and nothing read) for other constructors.
    #[inline]
    pub(super) fn text_bytes(&mut self, constructor: u8) -> Result<Option<&'a [u8]>> {
        let width = match constructor {
            c::SYMBOL_8 | c::STRING_8 => Width::One,
            c::SYMBOL_32 | c::STRING_32 => Width::Four,
            _ => return Ok(None),
        };
        let len = self.size(width)?;
        self.take(len).map(Some)
    }

    #[inline]
    fn sized(&mut self, width: Width) -> Result<Range<usize>> {
        let len = self.size(width)?;
        let start = self.position();
        self.take(len)?;
        Ok(start..start + len)
    }

    #[inline]
    fn text(&mut self, width: Width) -> Result<ByteString> {
        let place = self.sized(width)?;
        let start = place.start;
        ByteString::try_from(self.slice(place)).map_err(|_| Self::not_utf8(start))
    }

    #[cold]
    fn not_utf8(start: usize) -> DecodeError {
        DecodeError::new(DecodeErrorKind::InvalidUtf8, start)
    }
}
