use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::{SasSignature, SharedAccessKey};
use crate::error::{Error, ErrorKind, Result};

/// A shared access key that can be exchanged while clients use it. Clones share the key.
///
/// ```
/// use servicebus_core::auth::NamedKeyCredential;
///
/// let credential = NamedKeyCredential::new("RootManageSharedAccessKey", "first");
/// // Give a clone to the client; when the key is rotated:
/// credential.update("RootManageSharedAccessKey", "second");
/// ```
#[derive(Clone)]
pub struct NamedKeyCredential(Arc<RwLock<SharedAccessKey>>);

impl NamedKeyCredential {
    /// A credential of this policy and key.
    pub fn new(name: impl Into<String>, key: impl Into<String>) -> Self {
        Self::from(SharedAccessKey::new(name, key))
    }

    /// Exchanges name and key. Tokens from now on are signed with the new one; those already given to the service
    /// stay good until they end or the old key is revoked.
    pub fn update(&self, name: impl Into<String>, key: impl Into<String>) {
        let new = SharedAccessKey::new(name, key);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// The name and the key of now.
    pub fn current(&self) -> SharedAccessKey {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl From<SharedAccessKey> for NamedKeyCredential {
    fn from(key: SharedAccessKey) -> Self {
        Self(Arc::new(RwLock::new(key)))
    }
}

impl fmt::Debug for NamedKeyCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedKeyCredential")
            .field(&self.current())
            .finish()
    }
}

/// A shared access signature that can be exchanged while clients use it. Clones share the signature.
#[derive(Clone)]
pub struct SasCredential(Arc<RwLock<SasSignature>>);

impl SasCredential {
    /// A credential of a signature that was made elsewhere: `SharedAccessSignature sr=…&sig=…&se=…&skn=…`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] when the text is no such signature; the text is not repeated.
    pub fn new(signature: impl Into<String>) -> Result<Self> {
        Ok(Self::from(parse(signature)?))
    }

    /// Exchanges the signature. It is given to the service when the old one is due for renewal.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); the old one stays.
    pub fn update(&self, signature: impl Into<String>) -> Result<()> {
        let new = parse(signature)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// The signature of now.
    pub fn current(&self) -> SasSignature {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn parse(signature: impl Into<String>) -> Result<SasSignature> {
    SasSignature::new(signature).map_err(|reason| {
        Error::new(
            ErrorKind::InvalidArgument,
            format!("shared access signature: {reason}"),
        )
    })
}

impl From<SasSignature> for SasCredential {
    fn from(signature: SasSignature) -> Self {
        Self(Arc::new(RwLock::new(signature)))
    }
}

impl fmt::Debug for SasCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SasCredential")
            .field(&self.current())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_sees_the_exchanged_key() {
        let credential = NamedKeyCredential::new("k", "S3CRETKEY1");
        let clone = credential.clone();
        credential.update("k2", "S3CRETKEY2");
        assert_eq!(clone.current(), SharedAccessKey::new("k2", "S3CRETKEY2"));
        assert!(!format!("{clone:?}").contains("S3CRETKEY"));
    }

    #[test]
    fn a_bad_signature_leaves_the_old_one() {
        let text = "SharedAccessSignature sr=a&sig=S3CRETKEY&se=1";
        let credential = SasCredential::new(text).unwrap();
        let error = credential.update("S3CRETKEY").unwrap_err();
        assert!(!format!("{error} {error:?} {credential:?}").contains("S3CRETKEY"));
        assert_eq!(credential.current().as_str(), text);
    }
}
