//! Connection strings and names of namespaces, as people find them in portals, tools and configuration.

mod endpoint;

use std::fmt;
use std::str::FromStr;

use crate::auth::{SasSignature, SharedAccessKey};
use crate::error::{Error, ErrorKind};

pub use endpoint::{Endpoint, Security};

/// The longest name or key of a shared access policy.
const MAX_KEY: usize = 256;

/// A connection string, read.
///
/// ```
/// use servicebus_core::connection_string::ConnectionString;
///
/// let text = "Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=app;SharedAccessKey=c2VjcmV0;EntityPath=orders";
/// let parsed: ConnectionString = text.parse()?;
/// assert_eq!(parsed.endpoint().host(), "contoso.servicebus.windows.net");
/// assert_eq!(parsed.entity_path(), Some("orders"));
/// assert!(!format!("{parsed:?}").contains("c2VjcmV0"));
/// # Ok::<(), servicebus_core::connection_string::ConnectionStringError>(())
/// ```
#[derive(Clone)]
pub struct ConnectionString {
    endpoint: Endpoint,
    credential: Option<SharedAccess>,
    entity_path: Option<String>,
}

/// What a connection string proves access with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SharedAccess {
    /// `SharedAccessKeyName` and `SharedAccessKey`.
    Key(SharedAccessKey),
    /// `SharedAccessSignature`: a token that someone else signed.
    Signature(SasSignature),
}

/// Why a text is no connection string. Never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionStringError {
    /// A part is neither empty nor `name=value`.
    #[error("part {index} of the connection string is not of the form name=value")]
    NotAPair {
        /// Which part, from 1.
        index: usize,
    },
    /// A part without a value.
    #[error("{part} has no value")]
    EmptyValue {
        /// The part.
        part: &'static str,
    },
    /// A part that is there twice.
    #[error("{part} is there twice")]
    Duplicate {
        /// The part.
        part: &'static str,
    },
    /// A part that has to be there.
    #[error("{part} is missing")]
    Missing {
        /// The part.
        part: &'static str,
    },
    /// Both a key and a signature.
    #[error("both SharedAccessKey and SharedAccessSignature are there; only one can be used")]
    KeyAndSignature,
    /// A part with a value it cannot have.
    #[error("{part}: {reason}")]
    Invalid {
        /// The part.
        part: &'static str,
        /// What is wrong with it, without the value.
        reason: &'static str,
    },
    /// The string is limited to another entity than the one that is asked for.
    #[error("the connection string is for the entity '{path}' and not for '{asked}'")]
    OtherEntity {
        /// The entity of the string.
        path: String,
        /// The entity that was asked for.
        asked: String,
    },
}

impl From<ConnectionStringError> for Error {
    fn from(error: ConnectionStringError) -> Self {
        Self::new(
            ErrorKind::InvalidArgument,
            format!("connection string: {error}"),
        )
        .with_source(error)
    }
}

const ENDPOINT: &str = "Endpoint";
const KEY_NAME: &str = "SharedAccessKeyName";
const KEY: &str = "SharedAccessKey";
const SIGNATURE: &str = "SharedAccessSignature";
const ENTITY_PATH: &str = "EntityPath";
const EMULATOR: &str = "UseDevelopmentEmulator";

/// What a name may be spelled like, and what it is called.
const PARTS: [(&str, &str); 7] = [
    (ENDPOINT, ENDPOINT),
    ("HostName", ENDPOINT),
    (KEY_NAME, KEY_NAME),
    (KEY, KEY),
    (SIGNATURE, SIGNATURE),
    (ENTITY_PATH, ENTITY_PATH),
    (EMULATOR, EMULATOR),
];

impl ConnectionString {
    /// Reads a connection string: `name=value` pairs separated by semicolons, names in any case, unknown ones ignored.
    ///
    /// Blanks and line ends around names and values are dropped, and quotes around the whole text or one value.
    ///
    /// # Errors
    ///
    /// The error names the part that is wrong, never its value.
    pub fn parse(text: &str) -> Result<Self, ConnectionStringError> {
        let mut found: [Option<&str>; PARTS.len()] = [None; PARTS.len()];
        for (index, pair) in unquote(text.trim()).split(';').enumerate() {
            let pair = pair.trim();
            if pair.is_empty() {
                continue;
            }
            // The first '=' splits: keys end with the padding of base64.
            let (name, value) = pair
                .split_once('=')
                .ok_or(ConnectionStringError::NotAPair { index: index + 1 })?;
            let (name, value) = (name.trim(), unquote(value.trim()));
            let known = PARTS
                .iter()
                .find(|(spelling, _)| spelling.eq_ignore_ascii_case(name));
            let Some(&(_, part)) = known else { continue };
            if value.is_empty() {
                return Err(ConnectionStringError::EmptyValue { part });
            }
            let slot = PARTS.iter().zip(&mut found).find(|((_, p), _)| *p == part);
            let Some((_, slot)) = slot else { continue };
            if slot.replace(value).is_some() {
                return Err(ConnectionStringError::Duplicate { part });
            }
        }
        let get = |part: &str| {
            let at = PARTS.iter().zip(&found).find(|((_, p), _)| *p == part);
            at.and_then(|(_, value)| *value)
        };

        let host = get(ENDPOINT).ok_or(ConnectionStringError::Missing { part: ENDPOINT })?;
        let emulator = get(EMULATOR).map(parse_bool).transpose()?.unwrap_or(false);
        let security = if emulator {
            Security::Plain
        } else {
            Security::Tls
        };
        let endpoint =
            Endpoint::parse(host, security).map_err(|reason| ConnectionStringError::Invalid {
                part: ENDPOINT,
                reason,
            })?;
        let credential = credential(get(KEY_NAME), get(KEY), get(SIGNATURE))?;
        Ok(Self {
            endpoint,
            credential,
            entity_path: get(ENTITY_PATH).map(|path| path.trim_matches('/').to_owned()),
        })
    }

    /// Where the namespace is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// What the string proves access with; `None` for a string that only names the namespace.
    pub fn credential(&self) -> Option<&SharedAccess> {
        self.credential.as_ref()
    }

    /// The entity that the string is limited to.
    pub fn entity_path(&self) -> Option<&str> {
        self.entity_path.as_deref()
    }

    /// Checks that the string may be used for this entity.
    ///
    /// # Errors
    ///
    /// [`ConnectionStringError::OtherEntity`] when it is limited to another one. A string for a topic is good for the
    /// topic's subscriptions. Names are compared without regard to case.
    pub fn check_entity(&self, asked: &str) -> Result<(), ConnectionStringError> {
        let Some(path) = &self.entity_path else {
            return Ok(());
        };
        let same = asked.eq_ignore_ascii_case(path);
        let beneath = asked
            .split_at_checked(path.len())
            .is_some_and(|(head, rest)| head.eq_ignore_ascii_case(path) && rest.starts_with('/'));
        if same || beneath {
            return Ok(());
        }
        Err(ConnectionStringError::OtherEntity {
            path: path.clone(),
            asked: asked.to_owned(),
        })
    }
}

impl FromStr for ConnectionString {
    type Err = ConnectionStringError;

    fn from_str(text: &str) -> Result<Self, ConnectionStringError> {
        Self::parse(text)
    }
}

impl fmt::Debug for ConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionString")
            .field("endpoint", &self.endpoint)
            .field("credential", &self.credential)
            .field("entity_path", &self.entity_path)
            .finish()
    }
}

fn credential(
    name: Option<&str>,
    key: Option<&str>,
    signature: Option<&str>,
) -> Result<Option<SharedAccess>, ConnectionStringError> {
    match (name, key, signature) {
        (_, Some(_), Some(_)) => Err(ConnectionStringError::KeyAndSignature),
        (_, None, Some(text)) => {
            let signature =
                SasSignature::new(text).map_err(|reason| ConnectionStringError::Invalid {
                    part: SIGNATURE,
                    reason,
                })?;
            Ok(Some(SharedAccess::Signature(signature)))
        }
        (Some(name), Some(key), None) => {
            for (part, text) in [(KEY_NAME, name), (KEY, key)] {
                if text.len() > MAX_KEY {
                    let reason = "more than 256 characters";
                    return Err(ConnectionStringError::Invalid { part, reason });
                }
            }
            Ok(Some(SharedAccess::Key(SharedAccessKey::new(name, key))))
        }
        (Some(_), None, None) => Err(ConnectionStringError::Missing { part: KEY }),
        (None, Some(_), None) => Err(ConnectionStringError::Missing { part: KEY_NAME }),
        (None, None, None) => Ok(None),
    }
}

fn parse_bool(text: &str) -> Result<bool, ConnectionStringError> {
    if text.eq_ignore_ascii_case("true") {
        Ok(true)
    } else if text.eq_ignore_ascii_case("false") {
        Ok(false)
    } else {
        Err(ConnectionStringError::Invalid {
            part: EMULATOR,
            reason: "neither true nor false",
        })
    }
}

/// Without one pair of quotes around the text.
fn unquote(text: &str) -> &str {
    for quote in ['"', '\''] {
        let inner = text
            .strip_prefix(quote)
            .and_then(|text| text.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner.trim();
        }
    }
    text
}

#[cfg(test)]
mod tests;
