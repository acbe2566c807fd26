//! AMQP values and composite types as plain Rust data.
//!
//! Text and binary are slices of the bytes they were decoded from ([`Bytes`], [`ByteString`]): cloning one is a
//! reference count, and keeping one keeps the buffer behind it alive.

mod definitions;
mod delivery_state;
mod error;
mod message;
mod performative;
mod sasl;
mod symbol;
mod terminus;
mod value;

pub use bytes::Bytes;
pub use bytestring::ByteString;
pub use uuid::Uuid;

pub use definitions::{Handle, Milliseconds, ReceiverSettleMode, Role, SenderSettleMode};
pub use delivery_state::{DeliveryState, Modified, Outcome, TransactionalState};
pub use error::{AmqpError, condition};
pub use message::{Body, Header, LazyMap, Message, MessageId, Properties};
pub use performative::{
    Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Performative, Transfer,
};
pub use sasl::{SaslCode, SaslFrame, SaslInit, SaslMechanisms, SaslOutcome};
pub use symbol::Symbol;
pub use terminus::{
    Coordinator, Source, Target, TargetArchetype, TerminusDurability, TerminusExpiryPolicy,
};
pub use value::{Array, Described, Descriptor, Map, MixedArray, Timestamp, Value};
