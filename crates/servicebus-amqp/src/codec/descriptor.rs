//! The descriptors of the types that the specification defines.

use std::fmt;

use crate::types::Descriptor;

pub(super) const OPEN: u8 = 0x10;
pub(super) const BEGIN: u8 = 0x11;
pub(super) const ATTACH: u8 = 0x12;
pub(super) const FLOW: u8 = 0x13;
pub(super) const TRANSFER: u8 = 0x14;
pub(super) const DISPOSITION: u8 = 0x15;
pub(super) const DETACH: u8 = 0x16;
pub(super) const END: u8 = 0x17;
pub(super) const CLOSE: u8 = 0x18;
pub(super) const ERROR: u8 = 0x1d;
pub(super) const RECEIVED: u8 = 0x23;
pub(super) const ACCEPTED: u8 = 0x24;
pub(super) const REJECTED: u8 = 0x25;
pub(super) const RELEASED: u8 = 0x26;
pub(super) const MODIFIED: u8 = 0x27;
pub(super) const SOURCE: u8 = 0x28;
pub(super) const TARGET: u8 = 0x29;
pub(super) const COORDINATOR: u8 = 0x30;
pub(super) const DECLARED: u8 = 0x33;
pub(super) const TRANSACTIONAL_STATE: u8 = 0x34;
pub(super) const SASL_MECHANISMS: u8 = 0x40;
pub(super) const SASL_INIT: u8 = 0x41;
pub(super) const SASL_CHALLENGE: u8 = 0x42;
pub(super) const SASL_RESPONSE: u8 = 0x43;
pub(super) const SASL_OUTCOME: u8 = 0x44;
pub(super) const HEADER: u8 = 0x70;
pub(super) const DELIVERY_ANNOTATIONS: u8 = 0x71;
pub(super) const MESSAGE_ANNOTATIONS: u8 = 0x72;
pub(super) const PROPERTIES: u8 = 0x73;
pub(super) const APPLICATION_PROPERTIES: u8 = 0x74;
pub(super) const DATA: u8 = 0x75;
pub(super) const AMQP_SEQUENCE: u8 = 0x76;
pub(super) const AMQP_VALUE: u8 = 0x77;
pub(super) const FOOTER: u8 = 0x78;

/// The symbolic descriptors, with their codes.
const NAMES: [(&str, u8); 34] = [
    ("amqp:open:list", OPEN),
    ("amqp:begin:list", BEGIN),
    ("amqp:attach:list", ATTACH),
    ("amqp:flow:list", FLOW),
    ("amqp:transfer:list", TRANSFER),
    ("amqp:disposition:list", DISPOSITION),
    ("amqp:detach:list", DETACH),
    ("amqp:end:list", END),
    ("amqp:close:list", CLOSE),
    ("amqp:error:list", ERROR),
    ("amqp:received:list", RECEIVED),
    ("amqp:accepted:list", ACCEPTED),
    ("amqp:rejected:list", REJECTED),
    ("amqp:released:list", RELEASED),
    ("amqp:modified:list", MODIFIED),
    ("amqp:source:list", SOURCE),
    ("amqp:target:list", TARGET),
    ("amqp:coordinator:list", COORDINATOR),
    ("amqp:declared:list", DECLARED),
    ("amqp:transactional-state:list", TRANSACTIONAL_STATE),
    ("amqp:sasl-mechanisms:list", SASL_MECHANISMS),
    ("amqp:sasl-init:list", SASL_INIT),
    ("amqp:sasl-challenge:list", SASL_CHALLENGE),
    ("amqp:sasl-response:list", SASL_RESPONSE),
    ("amqp:sasl-outcome:list", SASL_OUTCOME),
    ("amqp:header:list", HEADER),
    ("amqp:delivery-annotations:map", DELIVERY_ANNOTATIONS),
    ("amqp:message-annotations:map", MESSAGE_ANNOTATIONS),
    ("amqp:properties:list", PROPERTIES),
    ("amqp:application-properties:map", APPLICATION_PROPERTIES),
    ("amqp:data:binary", DATA),
    ("amqp:amqp-sequence:list", AMQP_SEQUENCE),
    ("amqp:amqp-value:*", AMQP_VALUE),
    ("amqp:footer:map", FOOTER),
];

/// The code of a descriptor that the specification defines, in either form.
pub(super) fn known_code(descriptor: &Descriptor) -> Option<u8> {
    match descriptor {
        // The domain of the specification is 0; its identifiers fit one byte.
        Descriptor::Code(code) => u8::try_from(*code).ok(),
        Descriptor::Name(name) => NAMES
            .iter()
            .find(|(known, _)| *known == name.as_str())
            .map(|&(_, code)| code),
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "{:#010x}:{:#010x}", code >> 32, code & 0xffff_ffff),
            Self::Name(name) => write!(f, "{name}"),
        }
    }
}
