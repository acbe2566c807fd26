use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;

use super::{Token, TokenKind};

/// All but the characters that RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// What every token of this kind starts with.
const PREFIX: &str = "SharedAccessSignature ";

/// The name and the key of a shared access policy. `Debug` shows the name only.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedAccessKey {
    name: String,
    key: String,
}

impl SharedAccessKey {
    /// A policy's name and one of its keys, as the portal shows it.
    pub fn new(name: impl Into<String>, key: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            key: key.into(),
        }
    }

    /// The name of the policy.
    pub fn name(&self) -> &str {
        &self.name
    }

    #[cfg(test)]
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Signs a token for `audience` that ends at `expires`, to the second.
    pub fn sign(&self, audience: &str, expires: SystemTime) -> Token {
        let seconds = expires
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let audience = utf8_percent_encode(audience, RESERVED).to_string();
        // The key's text is the secret as it stands; it only looks like base64.
        let signature = match Hmac::<Sha256>::new_from_slice(self.key.as_bytes()) {
            Ok(mut mac) => {
                mac.update(format!("{audience}\n{seconds}").as_bytes());
                BASE64.encode(&mac.finalize().into_bytes())
            }
            // HMAC takes keys of any length.
            Err(_) => String::new(),
        };
        let text = format!(
            "{PREFIX}sr={audience}&sig={}&se={seconds}&skn={}",
            utf8_percent_encode(&signature, RESERVED),
            utf8_percent_encode(&self.name, RESERVED),
        );
        let expires = UNIX_EPOCH + Duration::from_secs(seconds);
        Token::new(TokenKind::Sas, text, expires)
    }
}

impl fmt::Debug for SharedAccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedAccessKey")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A token that someone else signed. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SasSignature {
    text: String,
    expires: Option<SystemTime>,
}

impl SasSignature {
    /// Reads `SharedAccessSignature sr=…&sig=…&se=…&skn=…`.
    pub(crate) fn new(text: impl Into<String>) -> Result<Self, &'static str> {
        let text = text.into();
        let fields = text
            .split_at_checked(PREFIX.len())
            .filter(|(prefix, _)| prefix.eq_ignore_ascii_case(PREFIX))
            .map(|(_, fields)| fields)
            .ok_or("does not start with 'SharedAccessSignature '")?;
        let field = |name: &str| {
            fields
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
        };
        for (name, reason) in [("sr", "has no field sr"), ("sig", "has no field sig")] {
            field(name).ok_or(reason)?;
        }
        let expires = field("se")
            .map(|seconds| {
                seconds
                    .parse()
                    .map_err(|_| "the field se is no number of seconds")
            })
            .transpose()?
            .and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
        Ok(Self { text, expires })
    }

    /// The whole text.
    #[cfg(test)]
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// When the token ends, by its field `se`.
    pub fn expires(&self) -> Option<SystemTime> {
        self.expires
    }

    /// The token. One that does not say when it ends is good until the service refuses it.
    pub fn to_token(&self) -> Token {
        let end = crate::time::END_OF_TIME.to_system_time();
        let expires = self.expires.or(end).unwrap_or(UNIX_EPOCH);
        Token::new(TokenKind::Sas, self.text.clone(), expires)
    }
}

impl fmt::Debug for SasSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SasSignature")
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// The worked example of the reference.
    #[test]
    fn a_token_for_a_known_key_and_audience() {
        let key = SharedAccessKey::new("RootManageSharedAccessKey", "c2VjcmV0LWtleS1mb3ItdGVzdHM=");
        let token = key.sign("sb://contoso.servicebus.windows.net/q1", at(1_700_003_600));
        assert_eq!(
            token.text(),
            "SharedAccessSignature sr=sb%3A%2F%2Fcontoso.servicebus.windows.net%2Fq1\
             &sig=mBv%2BIvzQyFafR3%2BOM9KsCWmY3YmHyGOoI1ypVwrjf4w%3D&se=1700003600&skn=RootManageSharedAccessKey"
        );
        assert_eq!(token.expires(), at(1_700_003_600));
        assert_eq!(token.kind(), TokenKind::Sas);
    }

    /// Tokens that the official Python and JavaScript SDKs signed.
    #[test]
    fn tokens_as_the_official_sdks_sign_them() {
        let key = SharedAccessKey::new("RootManageSharedAccessKey", "SAS_KEY_VALUE");
        let rows = [
            (
                "sb://localhost:25994/q1",
                1_796_031_264,
                "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%3A25994%2Fq1\
                 &sig=FwziAn1mUt%2B63BRlFRoaf%2BzWnQWeWDkPe61FAbDSDvY%3D&se=1796031264&skn=RootManageSharedAccessKey",
            ),
            (
                "sb://localhost:23938/q1",
                1_796_031_266,
                "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%3A23938%2Fq1\
                 &sig=CuV6cviZwSu9bTNbaEz3FY1OdtQUY9sVkec5ijffY%2FA%3D&se=1796031266&skn=RootManageSharedAccessKey",
            ),
        ];
        for (audience, seconds, text) in rows {
            assert_eq!(key.sign(audience, at(seconds)).text(), text);
        }
    }

    #[test]
    fn the_end_of_a_foreign_signature_is_read() {
        let signature =
            SasSignature::new("sharedaccesssignature SR=a&sig=b%3D&SE=1700003600&skn=k").unwrap();
        assert_eq!(signature.expires(), Some(at(1_700_003_600)));
        let endless = SasSignature::new("SharedAccessSignature sr=a&sig=b").unwrap();
        assert_eq!(endless.expires(), None);
        for text in [
            "",
            "Bearer x",
            "SharedAccessSignature sig=b",
            "SharedAccessSignature sr=a",
            "SharedAccessSignature sr=a&sig=b&se=soon",
        ] {
            assert!(SasSignature::new(text).is_err(), "{text}");
        }
        // An absurd number must not overflow.
        let far = SasSignature::new(format!("SharedAccessSignature sr=a&sig=b&se={}", u64::MAX));
        assert!(far.is_ok());
    }
}
