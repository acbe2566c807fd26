//! Writers of the primitive types, each in its smallest form.

use bytes::{BufMut, Bytes, BytesMut};

use super::constructor as c;
use crate::types::{Descriptor, Symbol, Timestamp};

#[inline]
pub(super) fn boolean(out: &mut BytesMut, value: bool) {
    out.put_u8(if value { c::TRUE } else { c::FALSE });
}

#[inline]
pub(super) fn ubyte(out: &mut BytesMut, value: u8) {
    out.put_slice(&[c::UBYTE, value]);
}

#[inline]
pub(super) fn ushort(out: &mut BytesMut, value: u16) {
    let [a, b] = value.to_be_bytes();
    out.put_slice(&[c::USHORT, a, b]);
}

#[inline]
pub(super) fn uint(out: &mut BytesMut, value: u32) {
    match value.to_be_bytes() {
        [0, 0, 0, 0] => out.put_u8(c::UINT_0),
        [0, 0, 0, low] => out.put_slice(&[c::SMALL_UINT, low]),
        [a, b, c, d] => out.put_slice(&[c::UINT, a, b, c, d]),
    }
}

#[inline]
pub(super) fn ulong(out: &mut BytesMut, value: u64) {
    match u8::try_from(value) {
        Ok(0) => out.put_u8(c::ULONG_0),
        Ok(low) => out.put_slice(&[c::SMALL_ULONG, low]),
        Err(_) => fixed(out, c::ULONG, value.to_be_bytes()),
    }
}

#[inline]
pub(super) fn timestamp(out: &mut BytesMut, value: Timestamp) {
    fixed(out, c::TIMESTAMP, value.as_millis().to_be_bytes());
}

/// A constructor and the bytes of a fixed width that follow it.
#[inline]
pub(super) fn fixed<const N: usize>(out: &mut BytesMut, constructor: u8, bytes: [u8; N]) {
    out.reserve(N + 1);
    out.put_u8(constructor);
    out.put_slice(&bytes);
}

#[inline]
pub(super) fn binary(out: &mut BytesMut, value: &Bytes) {
    sized(out, c::BINARY_8, c::BINARY_32, value);
}

#[inline]
pub(super) fn string(out: &mut BytesMut, value: &str) {
    sized(out, c::STRING_8, c::STRING_32, value.as_bytes());
}

#[inline]
pub(super) fn symbol(out: &mut BytesMut, value: &Symbol) {
    sized(out, c::SYMBOL_8, c::SYMBOL_32, value.as_str().as_bytes());
}

/// An array of symbols, for fields declared `multiple`.
pub(super) fn symbols(out: &mut BytesMut, values: &[Symbol]) {
    let array = Compound::begin(out, c::ARRAY_8);
    let small = values.iter().all(|value| value.as_str().len() <= 0xff);
    out.put_u8(if small { c::SYMBOL_8 } else { c::SYMBOL_32 });
    for value in values {
        sized_data(out, value.as_str().as_bytes(), small);
    }
    array.end(out, values.len());
}

/// The data of a value of variable width.
pub(super) fn sized_data(out: &mut BytesMut, bytes: &[u8], small: bool) {
    if small {
        out.put_u8(u8::try_from(bytes.len()).unwrap_or(u8::MAX));
    } else {
        out.put_u32(saturate(bytes.len()));
    }
    out.put_slice(bytes);
}

/// The data of a compound value in the large form.
pub(super) fn large_data(out: &mut BytesMut, count: usize, write: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_u32(0);
    out.put_u32(saturate(count));
    write(out);
    let size = saturate(out.len().saturating_sub(start + 4));
    if let Some(stated) = out.get_mut(start..start + 4) {
        stated.copy_from_slice(&size.to_be_bytes());
    }
}

#[inline]
pub(super) fn sized(out: &mut BytesMut, small: u8, large: u8, bytes: &[u8]) {
    out.reserve(bytes.len().saturating_add(5));
    sized_head(out, small, large, bytes.len());
    out.put_slice(bytes);
}

/// The constructor and the size of a variable-width value whose bytes follow elsewhere.
#[inline]
pub(super) fn sized_head(out: &mut BytesMut, small: u8, large: u8, len: usize) {
    match u8::try_from(len) {
        Ok(len) => out.put_slice(&[small, len]),
        Err(_) => fixed(out, large, saturate(len).to_be_bytes()),
    }
}

/// The start of a described value of one of the specification's types.
#[inline]
pub(super) fn described(out: &mut BytesMut, code: u8) {
    out.put_slice(&[c::DESCRIBED, c::SMALL_ULONG, code]);
}

pub(super) fn descriptor(out: &mut BytesMut, descriptor: &Descriptor) {
    match descriptor {
        // Zero as well: not every peer takes ulong0 for a descriptor.
        Descriptor::Code(code) => match u8::try_from(*code) {
            Ok(low) => out.put_slice(&[c::SMALL_ULONG, low]),
            Err(_) => fixed(out, c::ULONG, code.to_be_bytes()),
        },
        Descriptor::Name(name) => symbol(out, name),
    }
}

/// A length as AMQP states it. What is longer than 4 GiB cannot be stated; whoever appends a whole frame, value or
/// message compares what was appended with a limit that is not above 4 GiB, and so refuses it.
pub(super) fn saturate(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// A list, map or array that is being written.
///
/// Room is left for the small form; a value that outgrows it is moved by six bytes when it ends.
#[derive(Debug)]
pub(super) struct Compound {
    start: usize,
}

impl Compound {
    const SMALL_HEADER: usize = 3;
    const LARGE_HEADER: usize = 9;

    /// Writes the constructor, of the small form, and leaves room for size and count.
    pub(super) fn begin(out: &mut BytesMut, small: u8) -> Self {
        let start = out.len();
        out.put_slice(&[small, 0, 0]);
        Self { start }
    }

    /// The same for the value of one of the specification's types.
    #[inline]
    pub(super) fn begin_described(out: &mut BytesMut, code: u8, small: u8) -> Self {
        let start = out.len() + 3;
        out.put_slice(&[c::DESCRIBED, c::SMALL_ULONG, code, small, 0, 0]);
        Self { start }
    }

    /// States size and count.
    #[inline]
    pub(super) fn end(self, out: &mut BytesMut, count: usize) {
        let body_start = self.start + Self::SMALL_HEADER;
        let body_len = out.len().saturating_sub(body_start);
        // The size counts the count as well.
        if let (Ok(size), Ok(count)) = (u8::try_from(body_len + 1), u8::try_from(count)) {
            if let Some([_, stated_size, stated_count]) = out.get_mut(self.start..body_start) {
                *stated_size = size;
                *stated_count = count;
            }
            return;
        }
        self.end_large(out, body_len, count);
    }

    #[cold]
    fn end_large(&self, out: &mut BytesMut, body_len: usize, count: usize) {
        let body_start = self.start + Self::SMALL_HEADER;
        out.put_bytes(0, Self::LARGE_HEADER - Self::SMALL_HEADER);
        out.copy_within(
            body_start..body_start + body_len,
            self.start + Self::LARGE_HEADER,
        );
        let header = out.get_mut(self.start..self.start + Self::LARGE_HEADER);
        if let Some([constructor, sizes @ ..]) = header {
            // The large constructors are the small ones with the next width (AMQP 1.0 §1.3): c0 → d0, e0 → f0.
            *constructor += 0x10;
            let size = saturate(body_len.saturating_add(4)).to_be_bytes();
            let count = saturate(count).to_be_bytes();
            for (stated, byte) in sizes.iter_mut().zip(size.into_iter().chain(count)) {
                *stated = byte;
            }
        }
    }
}

/// Writes the fields of a composite type. Null fields at the end are left out.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    out: &'a mut BytesMut,
    list: Compound,
    count: usize,
    /// The fields up to the last that is not null: their number, and where they end.
    used: usize,
    end: usize,
}

impl<'a> Fields<'a> {
    /// Begins the composite type of this descriptor.
    #[inline]
    pub(super) fn new(out: &'a mut BytesMut, descriptor: u8) -> Self {
        let list = Compound::begin_described(out, descriptor, c::LIST_8);
        let end = out.len();
        Self {
            out,
            list,
            count: 0,
            used: 0,
            end,
        }
    }

    /// The next field. Always inlined: as a call it costs a sixth of the encoding.
    #[inline(always)]
    pub(super) fn field<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut BytesMut, T)) {
        self.count += 1;
        let Some(value) = value else {
            self.out.put_u8(c::NULL);
            return;
        };
        write(self.out, value);
        self.used = self.count;
        self.end = self.out.len();
    }

    /// A flag that is false by default.
    #[inline]
    pub(super) fn flag(&mut self, value: bool) {
        self.field(value.then_some(true), boolean);
    }

    #[inline]
    pub(super) fn text(&mut self, value: Option<&bytestring::ByteString>) {
        self.field(value.map(|text| &**text), string);
    }

    pub(super) fn symbols(&mut self, values: &[Symbol]) {
        self.field((!values.is_empty()).then_some(values), symbols);
    }

    /// Ends the list without the null fields at its end.
    #[inline]
    pub(super) fn finish(self) {
        if self.used == 0 {
            self.out.truncate(self.list.start);
            self.out.put_u8(c::LIST_0);
        } else {
            self.out.truncate(self.end);
            self.list.end(self.out, self.used);
        }
    }

    /// Ends the list with every field written: peers exist that read by position.
    pub(super) fn finish_in_full(self) {
        self.list.end(self.out, self.count);
    }
}
