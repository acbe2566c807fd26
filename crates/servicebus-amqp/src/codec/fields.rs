//! The fields of a composite type, which is a list on the wire (AMQP 1.0 §1.4).

use super::constructor as c;
use super::read::{Compound, Reader, Result, Width};
use super::{DecodeError, DecodeErrorKind, array};
use crate::types::Symbol;

/// Reads fields by position. Fields missing at the end are null.
#[derive(Debug)]
pub(super) struct Fields<'r, 'a> {
    reader: &'r mut Reader<'a>,
    list: Compound<'a>,
    left: usize,
}

impl<'r, 'a> Fields<'r, 'a> {
    /// Enters the list whose constructor comes next.
    #[inline]
    pub(super) fn new(reader: &'r mut Reader<'a>) -> Result<Self> {
        let constructor = reader.u8()?;
        Self::enter(reader, constructor)
    }

    /// Enters the list whose constructor was read.
    #[inline]
    pub(super) fn enter(reader: &'r mut Reader<'a>, constructor: u8) -> Result<Self> {
        let list = reader.enter_list(constructor)?;
        let left = list.count;
        Ok(Self { reader, list, left })
    }

    /// The next field, or `None` when it is null or missing.
    ///
    /// Always inlined: each field of a frame comes through here, and as a call it costs a quarter of the decoding.
    #[inline(always)]
    pub(super) fn optional<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Reader<'a>, u8) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        let constructor = match self.reader.u8() {
            Ok(c::NULL) => return Ok(None),
            Ok(constructor) => constructor,
            Err(error) => return Err(error.within(name)),
        };
        match read(self.reader, constructor) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(error.within(name)),
        }
    }

    /// The next field, which may not be null.
    #[inline(always)]
    pub(super) fn mandatory<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Reader<'a>, u8) -> Result<T>,
    ) -> Result<T> {
        match self.optional(name, read) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(self.missing(name)),
            Err(error) => Err(error),
        }
    }

    /// The next field, a flag that is false by default.
    #[inline]
    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool> {
        Ok(self.optional(name, Reader::boolean)?.unwrap_or(false))
    }

    /// The next field, of symbols: null, one, or an array (`multiple`, AMQP 1.0 §1.4).
    pub(super) fn symbols(&mut self, name: &'static str) -> Result<Vec<Symbol>> {
        Ok(self.optional(name, symbols)?.unwrap_or_default())
    }

    /// Leaves the list. Fields beyond those of the type are passed over: peers exist that write a target with the fields
    /// of a source.
    #[inline]
    pub(super) fn finish(self) -> Result<()> {
        for _ in 0..self.left {
            self.reader.skip()?;
        }
        self.reader.leave(&self.list)
    }

    #[cold]
    fn missing(&self, name: &'static str) -> DecodeError {
        self.reader
            .error(DecodeErrorKind::MissingField)
            .within(name)
    }
}

fn symbols(reader: &mut Reader<'_>, constructor: u8) -> Result<Vec<Symbol>> {
    match constructor {
        c::ARRAY_8 => array::symbols(reader, Width::One),
        c::ARRAY_32 => array::symbols(reader, Width::Four),
        _ => reader.symbol(constructor).map(|symbol| vec![symbol]),
    }
}
