//! The constructors of the primitive types (AMQP 1.0 §1.6).

pub(super) const DESCRIBED: u8 = 0x00;
pub(super) const NULL: u8 = 0x40;
pub(super) const TRUE: u8 = 0x41;
pub(super) const FALSE: u8 = 0x42;
pub(super) const UINT_0: u8 = 0x43;
pub(super) const ULONG_0: u8 = 0x44;
pub(super) const LIST_0: u8 = 0x45;
pub(super) const UBYTE: u8 = 0x50;
pub(super) const BYTE: u8 = 0x51;
pub(super) const SMALL_UINT: u8 = 0x52;
pub(super) const SMALL_ULONG: u8 = 0x53;
pub(super) const SMALL_INT: u8 = 0x54;
pub(super) const SMALL_LONG: u8 = 0x55;
pub(super) const BOOLEAN: u8 = 0x56;
pub(super) const USHORT: u8 = 0x60;
pub(super) const SHORT: u8 = 0x61;
pub(super) const UINT: u8 = 0x70;
pub(super) const INT: u8 = 0x71;
pub(super) const FLOAT: u8 = 0x72;
pub(super) const CHAR: u8 = 0x73;
pub(super) const DECIMAL_32: u8 = 0x74;
pub(super) const ULONG: u8 = 0x80;
pub(super) const LONG: u8 = 0x81;
pub(super) const DOUBLE: u8 = 0x82;
pub(super) const TIMESTAMP: u8 = 0x83;
pub(super) const DECIMAL_64: u8 = 0x84;
pub(super) const DECIMAL_128: u8 = 0x94;
pub(super) const UUID: u8 = 0x98;
pub(super) const BINARY_8: u8 = 0xa0;
pub(super) const STRING_8: u8 = 0xa1;
pub(super) const SYMBOL_8: u8 = 0xa3;
pub(super) const BINARY_32: u8 = 0xb0;
pub(super) const STRING_32: u8 = 0xb1;
pub(super) const SYMBOL_32: u8 = 0xb3;
pub(super) const LIST_8: u8 = 0xc0;
pub(super) const MAP_8: u8 = 0xc1;
pub(super) const LIST_32: u8 = 0xd0;
pub(super) const MAP_32: u8 = 0xd1;
pub(super) const ARRAY_8: u8 = 0xe0;
pub(super) const ARRAY_32: u8 = 0xf0;

/// How the data of a value of a constructor is delimited (AMQP 1.0 §1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// This many bytes.
    Fixed(usize),
    /// A size of one byte, then that many bytes.
    Sized8,
    /// A size of four bytes, then that many bytes.
    Sized32,
}

/// The layout of a primitive constructor; `None` where AMQP 1.0 defines none.
pub(super) const fn layout(constructor: u8) -> Option<Layout> {
    Some(match constructor {
        NULL..=LIST_0 => Layout::Fixed(0),
        UBYTE..=BOOLEAN => Layout::Fixed(1),
        USHORT | SHORT => Layout::Fixed(2),
        UINT..=DECIMAL_32 => Layout::Fixed(4),
        ULONG..=DECIMAL_64 => Layout::Fixed(8),
        DECIMAL_128 | UUID => Layout::Fixed(16),
        BINARY_8 | STRING_8 | SYMBOL_8 | LIST_8 | MAP_8 | ARRAY_8 => Layout::Sized8,
        BINARY_32 | STRING_32 | SYMBOL_32 | LIST_32 | MAP_32 | ARRAY_32 => Layout::Sized32,
        _ => return None,
    })
}
