//! Shared access signatures, as the service checks them.

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::percent_decode_str;
use servicebus_amqp::types::Timestamp;
use sha2::Sha256;
use thiserror::Error;

/// What a token of this kind begins with. Some clients call it a JSON web token, so only the text tells.
pub(super) const PREFIX: &str = "SharedAccessSignature ";

/// Why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It lacks a part, or a part is not what it should be.
    #[error("The token is malformed: {0}.")]
    Malformed(&'static str),
    /// Its time is over.
    #[error("The token has expired.")]
    Expired,
    /// Its signature was made with another key.
    #[error("The signature of the token does not match.")]
    Signature,
    /// There is no key of this name.
    #[error("There is no shared access key named '{0}'.")]
    UnknownKey(String),
    /// It is for something else than it was put for.
    #[error("The token is not for the audience that it was put for.")]
    Audience,
    /// The hook refused it.
    #[error("{0}")]
    Refused(String),
}

/// A token that was taken apart.
#[derive(PartialEq)]
pub(super) struct SasToken {
    /// What it is for, decoded.
    pub(super) resource: String,
    pub(super) key_name: String,
    pub(super) expires: Timestamp,
    signature: Vec<u8>,
    /// The text that was signed: the resource as it was sent, and the expiry.
    signed: String,
}

impl SasToken {
    pub(super) fn parse(token: &str) -> Result<Self, TokenError> {
        let malformed = |what| move || TokenError::Malformed(what);
        let fields = token
            .strip_prefix(PREFIX)
            .ok_or_else(malformed("it does not begin with SharedAccessSignature"))?;
        let (mut resource, mut signature, mut expiry, mut key_name) = (None, None, None, None);
        for field in fields.trim().split('&') {
            let (name, value) = field
                .split_once('=')
                .ok_or_else(malformed("a part without ="))?;
            let place = match name.to_ascii_lowercase().as_str() {
                "sr" => &mut resource,
                "sig" => &mut signature,
                "se" => &mut expiry,
                "skn" => &mut key_name,
                _ => continue,
            };
            *place = Some(value);
        }
        let resource = resource.ok_or_else(malformed("there is no sr"))?;
        let signature = signature.ok_or_else(malformed("there is no sig"))?;
        let expiry = expiry.ok_or_else(malformed("there is no se"))?;
        let key_name = key_name.ok_or_else(malformed("there is no skn"))?;
        let seconds: i64 = expiry
            .parse()
            .map_err(|_| TokenError::Malformed("se is no number of seconds"))?;
        let signature =
            decode(signature).ok_or_else(malformed("sig is not percent-encoded UTF-8"))?;
        Ok(Self {
            resource: decode(resource).ok_or_else(malformed("sr is not percent-encoded UTF-8"))?,
            key_name: decode(key_name).ok_or_else(malformed("skn is not percent-encoded UTF-8"))?,
            expires: Timestamp::from_millis(seconds.saturating_mul(1000)),
            signature: BASE64
                .decode(signature.as_bytes())
                .map_err(|_| TokenError::Malformed("sig is no base64"))?,
            signed: format!("{resource}\n{expiry}"),
        })
    }

    /// Checks the signature, in constant time.
    pub(super) fn verify(&self, key: &str) -> Result<(), TokenError> {
        mac(key, &self.signed)
            .verify_slice(&self.signature)
            .map_err(|_| TokenError::Signature)
    }
}

/// Whether two keys have the same text.
pub(super) fn same_secret(key: &str, other: &str) -> bool {
    let other = mac(other, "password").finalize().into_bytes();
    mac(key, "password").verify_slice(&other).is_ok()
}

#[allow(clippy::expect_used, reason = "HMAC takes keys of every length")]
fn mac(key: &str, text: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("any key length");
    mac.update(text.as_bytes());
    mac
}

fn decode(text: &str) -> Option<String> {
    Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with another program (OpenSSL's HMAC) for this audience, key and expiry.
    const TOKEN: &str = "SharedAccessSignature sr=sb%3A%2F%2Fcontoso.servicebus.windows.net%2Fq1\
        &sig=mBv%2BIvzQyFafR3%2BOM9KsCWmY3YmHyGOoI1ypVwrjf4w%3D&se=1700003600&skn=RootManageSharedAccessKey";
    const KEY: &str = "c2VjcmV0LWtleS1mb3ItdGVzdHM=";

    #[test]
    fn reads_and_verifies_a_token() {
        let token = SasToken::parse(TOKEN).unwrap();
        assert_eq!(token.resource, "sb://contoso.servicebus.windows.net/q1");
        assert_eq!(token.key_name, "RootManageSharedAccessKey");
        assert_eq!(token.expires.as_millis(), 1_700_003_600_000);
        assert_eq!(token.verify(KEY), Ok(()));
        assert_eq!(token.verify("another"), Err(TokenError::Signature));
    }

    #[test]
    fn parts_come_in_any_order_and_case() {
        let token = "SharedAccessSignature SKN=k&Se=1&SIG=AAAA&sR=a";
        let token = SasToken::parse(token).unwrap();
        assert_eq!(token.key_name, "k");
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, wrong) in [
            (
                "SharedAccessSignature sr=a&sig=AAAA&se=1",
                "there is no skn",
            ),
            (
                "SharedAccessSignature sr=a&sig=AAAA&se=x&skn=k",
                "se is no number of seconds",
            ),
            (
                "SharedAccessSignature sr=a&sig=%21&se=1&skn=k",
                "sig is no base64",
            ),
            ("SharedAccessSignature sr", "a part without ="),
        ] {
            assert_eq!(
                SasToken::parse(text).err(),
                Some(TokenError::Malformed(wrong))
            );
        }
    }
}
