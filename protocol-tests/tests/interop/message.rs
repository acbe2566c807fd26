//! What scenarios send and see, in terms that every peer has.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

/// A message with an id, one data section, and text properties.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) id: String,
    #[serde(with = "base64_text")]
    pub(crate) body: Vec<u8>,
    pub(crate) properties: BTreeMap<String, String>,
    /// How often it was delivered before without success. Only peers that receive know.
    #[serde(default)]
    pub(crate) delivery_count: u32,
}

impl Message {
    pub(crate) fn new(id: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self {
            id: id.into(),
            body: body.into(),
            properties: BTreeMap::new(),
            delivery_count: 0,
        }
    }

    pub(crate) fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }
}

/// Bodies may have megabytes: a failed comparison says their sizes and not their bytes.
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}[{} bytes", self.id, self.body.len())?;
        if self.delivery_count > 0 {
            write!(f, ", delivery-count {}", self.delivery_count)?;
        }
        write!(f, "] {:?}", self.properties)
    }
}

mod base64_text {
    use super::*;
    use serde::{Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        BASE64_STANDARD.decode(text).map_err(D::Error::custom)
    }
}

/// The four outcomes. `Modified` is the one with delivery-failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Accepted,
    Released,
    Rejected,
    Modified,
}

/// A node of a broker, and how to reach it.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) port: u16,
    pub(crate) transport: Transport,
    pub(crate) sasl: Sasl,
    pub(crate) address: String,
    /// What the client announces: the largest frame it takes.
    pub(crate) max_frame_size: u32,
    /// Whether the broker answers the detach of a link. Where it does not, clients only close the connection.
    pub(crate) answers_detach: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sasl {
    /// AMQP from the first byte.
    None,
    Anonymous,
    Plain {
        user: &'static str,
        password: &'static str,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    /// With the file that holds the authority to trust. The server's name is `localhost`.
    Tls {
        authority: PathBuf,
    },
    WebSocket,
}
