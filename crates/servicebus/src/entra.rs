use std::sync::Arc;
use std::time::{Duration, SystemTime};

use azure_core::credentials::TokenCredential;
use servicebus_core::auth::{Token, TokenKind};
use servicebus_core::client::{ProvideToken, Providing};
use servicebus_core::error::{Error, ErrorKind, Recovery};
use tokio::sync::Mutex;

/// What tokens for Service Bus are asked for.
const SCOPE: &str = "https://servicebus.azure.net/.default";

/// How long before its end a token is not given out any more: more than the margin of its renewal, so that a renewal gets a
/// new one.
const MARGIN: Duration = Duration::from_secs(11 * 60);

/// Gives out the tokens of a credential: one for all entities of a client.
#[derive(Debug)]
pub(crate) struct EntraTokens {
    credential: Arc<dyn TokenCredential>,
    last: Mutex<Option<Token>>,
}

impl EntraTokens {
    pub(crate) fn new(credential: Arc<dyn TokenCredential>) -> Self {
        Self {
            credential,
            last: Mutex::new(None),
        }
    }
}

impl ProvideToken for EntraTokens {
    fn token<'a>(&'a self, _: &'a str) -> Providing<'a> {
        Box::pin(async {
            let mut last = self.last.lock().await;
            if let Some(token) = last.as_ref().filter(|token| lasts(token)) {
                return Ok(token.clone());
            }
            let token = self
                .credential
                .get_token(&[SCOPE], None)
                .await
                .map_err(|error| {
                    // The identity service may be unreachable for a moment, which cannot be told from a refusal.
                    Error::new(ErrorKind::Unauthorized, "the credential gave no token")
                        .with_recovery(Recovery::Retry)
                        .with_source(error)
                })?;
            let expires = SystemTime::from(token.expires_on);
            let token = Token::new(TokenKind::Jwt, token.token.secret(), expires);
            *last = Some(token.clone());
            Ok(token)
        })
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the end of a token is a point of the system's time"
)]
fn lasts(token: &Token) -> bool {
    token
        .expires()
        .duration_since(SystemTime::now())
        .is_ok_and(|left| left > MARGIN)
}
