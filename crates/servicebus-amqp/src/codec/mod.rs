//! Bytes to AMQP types and back: frames, values, message sections (AMQP 1.0 part 1, §2.3, §3.2).
//!
//! * [`decode_frame`] takes frames off a receive buffer; payloads are slices of it.
//! * [`encode_frame`], [`encode_transfer`], [`encode_sasl`], [`encode_empty`] append to a buffer that the caller reuses.
//! * [`Message`](crate::types::Message), [`Value`](crate::types::Value) and [`LazyMap`](crate::types::LazyMap) have
//!   `decode` and `encode` of their own.
//!
//! Decoding is bounded by the bytes that are present: no allocation is sized by a claim, values nest at most
//! [`MAX_DEPTH`] deep, array elements without bytes of their own are limited to [`MAX_ZERO_WIDTH_ELEMENTS`], and the
//! work is linear in the input.

mod array;
mod constructor;
mod delivery_state;
mod descriptor;
mod error;
mod fields;
mod frame;
mod lazy_map;
mod message;
mod performative;
#[cfg(test)]
mod proptests;
mod read;
mod sasl;
mod terminus;
mod value;
mod write;

pub use error::{DecodeError, DecodeErrorKind, EncodeError, FrameError};
pub use frame::{
    AMQP_HEADER, Frame, SASL_HEADER, decode_frame, encode_empty, encode_frame, encode_sasl,
    encode_transfer, transfer_len,
};

/// How deep values may nest: lists, maps, arrays and described values count one each.
pub const MAX_DEPTH: usize = 64;

/// How many array elements without bytes of their own (null, true, uint0, list0 …) one decoded value may hold in all.
pub const MAX_ZERO_WIDTH_ELEMENTS: usize = 4096;
