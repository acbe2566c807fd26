use std::fmt;

use crate::types::{Symbol, condition};

/// Bytes that are not what AMQP says they should be: what is wrong, at which byte, in which field.
///
/// Displays as `attach.source.timeout: expected uint, found the constructor 0xa1 (at byte 34)`.
#[derive(Clone, PartialEq, Eq)]
pub struct DecodeError(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: DecodeErrorKind,
    offset: usize,
    /// Innermost name first.
    path: Vec<&'static str>,
}

/// What is wrong with the bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The input, or the compound value around it, ends within a value.
    #[error("{needed} bytes needed, {present} present")]
    Truncated {
        /// How many bytes the value needs from the offset on.
        needed: usize,
        /// How many there are.
        present: usize,
    },
    /// A value ended before the bytes that were said to hold it.
    #[error("{0} bytes left over")]
    TrailingBytes(usize),
    /// A byte that is no constructor of AMQP 1.0.
    #[error("no constructor 0x{0:02x}")]
    UnknownConstructor(u8),
    /// A value of another type than the field has.
    #[error("expected {expected}, found the constructor 0x{found:02x}")]
    UnexpectedType {
        /// The type of the field.
        expected: &'static str,
        /// The constructor that was there.
        found: u8,
    },
    /// A descriptor that names nothing the field can be.
    #[error("expected {expected}, found the descriptor {found}")]
    UnexpectedDescriptor {
        /// What the field can be.
        expected: &'static str,
        /// The descriptor that was there.
        found: String,
    },
    /// A mandatory field is null or missing.
    #[error("mandatory, but null or missing")]
    MissingField,
    /// A value outside of the choices that the type has.
    #[error("{found} is no {expected}")]
    InvalidChoice {
        /// The type of the field.
        expected: &'static str,
        /// The value that was there.
        found: String,
    },
    /// Text that is not UTF-8.
    #[error("not UTF-8")]
    InvalidUtf8,
    /// A number that is no Unicode scalar value.
    #[error("0x{0:x} is no character")]
    InvalidChar(u32),
    /// A count that the bytes present cannot hold.
    #[error("{count} elements in {present} bytes")]
    InvalidCount {
        /// The count.
        count: usize,
        /// How many bytes are there for them.
        present: usize,
    },
    /// A map with a key but no value for it.
    #[error("{0} keys and values: the last key has no value")]
    OddMap(usize),
    /// More than [`MAX_DEPTH`](super::MAX_DEPTH).
    #[error("nested too deep")]
    TooDeep,
    /// More than [`MAX_ZERO_WIDTH_ELEMENTS`](super::MAX_ZERO_WIDTH_ELEMENTS).
    #[error("too many array elements without bytes of their own")]
    TooManyZeroWidthElements,
    /// A message section that the ones before it exclude.
    #[error("a second section of this kind, or a second kind of body")]
    UnexpectedSection,
}

impl DecodeError {
    #[cold]
    pub(crate) fn new(kind: DecodeErrorKind, offset: usize) -> Self {
        Self(Box::new(Inner {
            kind,
            offset,
            path: Vec::new(),
        }))
    }

    /// The same error, seen from the value around it.
    #[cold]
    pub(crate) fn within(mut self, name: &'static str) -> Self {
        self.0.path.push(name);
        self
    }

    /// What is wrong.
    pub fn kind(&self) -> &DecodeErrorKind {
        &self.0.kind
    }

    /// Where: bytes from the start of what was decoded (frame, message or value).
    pub fn offset(&self) -> usize {
        self.0.offset
    }

    /// In which field, with dots: `attach.source.timeout`; empty outside of composite types.
    pub fn path(&self) -> String {
        let names: Vec<_> = self.0.path.iter().rev().copied().collect();
        names.join(".")
    }

    /// The AMQP error condition to answer with.
    pub fn condition(&self) -> Symbol {
        match self.0.kind {
            DecodeErrorKind::MissingField
            | DecodeErrorKind::InvalidChoice { .. }
            | DecodeErrorKind::UnexpectedType { .. }
            | DecodeErrorKind::UnexpectedDescriptor { .. }
                if !self.0.path.is_empty() =>
            {
                condition::INVALID_FIELD
            }
            _ => condition::DECODE_ERROR,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.0.path.iter().rev().enumerate() {
            let separator = if i == 0 { "" } else { "." };
            write!(f, "{separator}{name}")?;
        }
        if !self.0.path.is_empty() {
            f.write_str(": ")?;
        }
        write!(f, "{} (at byte {})", self.0.kind, self.0.offset)
    }
}

impl fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeError")
            .field("kind", &self.0.kind)
            .field("offset", &self.0.offset)
            .field("path", &self.path())
            .finish()
    }
}

impl std::error::Error for DecodeError {}

/// Bytes that are no frame. The connection cannot go on: answer with a close of this [`condition`](Self::condition).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The size is below 8, the size of the frame header.
    #[error("frame of {size} bytes, smaller than its header")]
    TooSmall {
        /// The size that the header states.
        size: u32,
    },
    /// The size is above what was agreed.
    #[error("frame of {size} bytes, {max} allowed")]
    TooLarge {
        /// The size that the header states.
        size: u32,
        /// What was agreed.
        max: u32,
    },
    /// The data offset is below 2 or past the frame's end.
    #[error("data offset {offset} in a frame of {size} bytes")]
    DataOffset {
        /// The data offset, in 4-byte words.
        offset: u8,
        /// The size that the header states.
        size: u32,
    },
    /// A type of frame that is neither AMQP nor SASL.
    #[error("unknown frame type {0}")]
    UnknownType(u8),
    /// The frame's body could not be decoded.
    #[error(transparent)]
    Body(#[from] DecodeError),
}

impl FrameError {
    /// The AMQP error condition to close the connection with.
    pub fn condition(&self) -> Symbol {
        match self {
            Self::Body(error) => error.condition(),
            _ => condition::FRAMING_ERROR,
        }
    }
}

/// A value that has no encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The encoding would be larger than the 4 GiB that AMQP can state.
    #[error("larger than 4 GiB")]
    TooLarge,
}
