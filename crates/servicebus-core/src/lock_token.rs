//! Lock tokens, and the two byte orders they have.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};

/// The lock of one message: what settles it, from any process.
///
/// On a link the token is the delivery tag, a .NET GUID in memory order; in management requests it is a uuid in
/// network order. The first three fields are swapped between the two.
///
/// ```
/// use servicebus_core::lock_token::LockToken;
///
/// let token = LockToken::from_delivery_tag(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]).unwrap();
/// assert_eq!(token.to_string(), "04030201-0605-0807-090a-0b0c0d0e0f10");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockToken(Uuid);

impl LockToken {
    /// The token with this uuid, as it is printed and as it travels in management requests.
    pub const fn new(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The token that a delivery tag is. `None` when the tag is not of 16 bytes, as it may be in receive-and-delete.
    pub fn from_delivery_tag(tag: &[u8]) -> Option<Self> {
        Some(Self(Uuid::from_bytes_le(tag.try_into().ok()?)))
    }

    /// The delivery tag that this token is on a link.
    pub fn to_delivery_tag(self) -> [u8; 16] {
        self.0.to_bytes_le()
    }

    /// The uuid, as it travels in management requests.
    pub const fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for LockToken {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl From<LockToken> for Uuid {
    fn from(token: LockToken) -> Self {
        token.0
    }
}

impl FromStr for LockToken {
    type Err = Error;

    /// Reads a token as it is printed.
    fn from_str(text: &str) -> Result<Self> {
        Uuid::parse_str(text).map(Self).map_err(|error| {
            Error::new(ErrorKind::InvalidArgument, "the text is no lock token").with_source(error)
        })
    }
}

impl fmt::Display for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockToken({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn b56_the_tag_is_a_guid_in_memory_order() {
        let tag = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes();
        let token = LockToken::from_delivery_tag(&tag).unwrap();
        assert_eq!(token.to_string(), "33221100-5544-7766-8899-aabbccddeeff");
        assert_eq!(
            token.as_uuid().as_bytes(),
            &0x3322_1100_5544_7766_8899_aabb_ccdd_eeff_u128.to_be_bytes()
        );
        assert_eq!(token.to_delivery_tag(), tag);
    }

    #[test]
    fn a_tag_of_another_length_is_no_token() {
        assert_eq!(LockToken::from_delivery_tag(&[]), None);
        assert_eq!(LockToken::from_delivery_tag(&[0; 15]), None);
        assert_eq!(LockToken::from_delivery_tag(&[0; 17]), None);
    }

    proptest! {
        #[test]
        fn b56_round_trip(tag: [u8; 16]) {
            let token = LockToken::from_delivery_tag(&tag).unwrap();
            prop_assert_eq!(token.to_delivery_tag(), tag);
            prop_assert_eq!(token.to_string().parse::<LockToken>().unwrap(), token);
        }
    }
}
