use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

use super::Shared;
use super::clock::{now, random, wall};
use super::failure::timeout;
use super::live::Live;
use super::requests::Context;
use crate::auth::cbs::{put_token, token_accepted};
use crate::auth::renewal::{renew_after, retry_after};
use crate::error::Result;

/// How long one attempt to renew a token may take.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(60);

/// A token that the service accepted for one audience on one connection. It is put anew ahead of its end for as long as
/// someone holds this.
#[derive(Debug)]
pub(crate) struct Grant {
    audience: String,
    accepted: OnceCell<()>,
    renewal: OnceLock<AbortHandle>,
}

impl Grant {
    pub(crate) fn new(audience: &str) -> Self {
        Self {
            audience: audience.to_owned(),
            accepted: OnceCell::new(),
            renewal: OnceLock::new(),
        }
    }

    /// Puts the first token, if that was not done yet. Callers at the same time wait for the one attempt.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        live: &Arc<Live>,
        limit: Duration,
    ) -> Result<()> {
        let first = async {
            let wait = put(shared, live, &self.audience, limit).await?;
            let renewal = tokio::spawn(renew(
                Arc::downgrade(shared),
                Arc::downgrade(live),
                self.audience.clone(),
                wait,
            ));
            let _ = self.renewal.set(renewal.abort_handle());
            Ok(())
        };
        self.accepted.get_or_try_init(|| first).await.copied()
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if let Some(renewal) = self.renewal.get() {
            renewal.abort();
        }
    }
}

/// Puts a token, and says how long to wait before the next one is put.
async fn put(shared: &Shared, live: &Live, audience: &str, limit: Duration) -> Result<Duration> {
    let put = async {
        let token = shared.credential.token(audience).await?;
        let requests = live.cbs(limit).await?;
        let deadline = now().checked_add(limit);
        let request = put_token(audience, &token);
        let answer = requests
            .call(&request, Context::default(), deadline, &shared.closing)
            .await
            .map_err(|failure| failure.error)?;
        token_accepted(answer)?;
        tracing::debug!(audience, "authorised");
        Ok(renew_after(wall(), token.expires(), random()))
    };
    tokio::time::timeout(limit, put)
        .await
        .unwrap_or_else(|_| Err(timeout()))
}

/// Puts tokens until nobody needs them any more. A failure is followed by further attempts, also past the end of the
/// token: a link that the service then detaches comes back with the next good one.
async fn renew(shared: Weak<Shared>, live: Weak<Live>, audience: String, mut wait: Duration) {
    let mut failures = 0;
    loop {
        tokio::time::sleep(wait).await;
        let (Some(shared), Some(live)) = (shared.upgrade(), live.upgrade()) else {
            return;
        };
        if live.connection.error().is_some() {
            return;
        }
        wait = match put(&shared, &live, &audience, RENEWAL_TIMEOUT).await {
            Ok(wait) => {
                failures = 0;
                wait
            }
            Err(error) => {
                failures += 1;
                let wait = retry_after(failures, random());
                tracing::warn!(%error, audience, failures, ?wait, "the token could not be renewed");
                wait
            }
        };
    }
}
