use std::fmt::Debug;
use std::future::{Future, ready};
use std::pin::Pin;

use super::clock::wall;
use crate::auth::renewal::SAS_LIFETIME;
use crate::auth::{NamedKeyCredential, SasCredential, Token};
use crate::connection_string::SharedAccess;
use crate::error::Result;

/// The future of [`ProvideToken::token`].
pub type Providing<'a> = Pin<Box<dyn Future<Output = Result<Token>> + Send + 'a>>;

/// Makes the tokens that authorise a client, each time one is due.
pub trait ProvideToken: Debug + Send + Sync + 'static {
    /// A token for this audience, the URI of an entity.
    fn token<'a>(&'a self, audience: &'a str) -> Providing<'a>;
}

impl ProvideToken for NamedKeyCredential {
    fn token<'a>(&'a self, audience: &'a str) -> Providing<'a> {
        let token = self.current().sign(audience, wall() + SAS_LIFETIME);
        Box::pin(ready(Ok(token)))
    }
}

impl ProvideToken for SasCredential {
    fn token<'a>(&'a self, _: &'a str) -> Providing<'a> {
        Box::pin(ready(Ok(self.current().to_token())))
    }
}

/// What a connection string proves access with.
pub(crate) fn provider(access: &SharedAccess) -> std::sync::Arc<dyn ProvideToken> {
    match access {
        SharedAccess::Key(key) => std::sync::Arc::new(NamedKeyCredential::from(key.clone())),
        SharedAccess::Signature(signature) => {
            std::sync::Arc::new(SasCredential::from(signature.clone()))
        }
    }
}
