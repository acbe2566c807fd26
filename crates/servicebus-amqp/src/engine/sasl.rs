use bytes::{BufMut, Bytes, BytesMut};

use super::{Config, Credentials, Sasl};
use crate::types::{SaslInit, Symbol};

impl Config {
    /// The first of our mechanisms that the peer offers, ready to send.
    pub(super) fn choose_mechanism(&self, offered: &[Symbol]) -> Option<SaslInit> {
        let Sasl::Client(credentials) = &self.sasl else {
            return None;
        };
        let chosen = credentials
            .iter()
            .find(|own| offered.iter().any(|name| *name == own.mechanism()))?;
        Some(SaslInit {
            mechanism: Symbol::from_static(chosen.mechanism()),
            initial_response: Some(chosen.initial_response()),
            hostname: self.hostname.clone(),
        })
    }
}

impl Credentials {
    fn initial_response(&self) -> Bytes {
        match self {
            Self::Anonymous | Self::External | Self::Mssbcbs => Bytes::new(),
            // RFC 4616: no authorisation identity, user, password.
            Self::Plain { username, password } => {
                let mut response = BytesMut::with_capacity(username.len() + password.len() + 2);
                response.put_u8(0);
                response.put_slice(username.as_bytes());
                response.put_u8(0);
                response.put_slice(password.as_bytes());
                response.freeze()
            }
        }
    }
}
