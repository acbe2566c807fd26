use bytes::{Bytes, BytesMut};

use super::{DecodeError, EncodeError};
use crate::types::Value;

impl Value {
    /// Decodes the one value that `input` holds. Binaries and text are slices of it.
    ///
    /// # Errors
    ///
    /// When the bytes are no value, or more than one.
    pub fn decode(input: &Bytes) -> Result<Self, DecodeError> {
        let _ = input;
        todo!()
    }

    /// Appends the value in its smallest form.
    ///
    /// # Errors
    ///
    /// When the encoding would exceed 4 GiB; `out` is as it was before.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        let _ = out;
        todo!()
    }
}
