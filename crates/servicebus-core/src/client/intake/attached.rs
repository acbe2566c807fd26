//! How the wait of a receive is counted: while the link is attached.

use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;

use super::{Intake, lock};
use crate::client::clock::now;
use crate::error::{Error, Result};

/// What came of attaching the link, for the receives that wait behind the one that does it.
#[derive(Debug, Default)]
pub(super) struct Attaching {
    failures: Mutex<Failures>,
    news: Notify,
}

/// The attempts that came to nothing after all their repetitions.
#[derive(Debug, Default)]
struct Failures {
    count: u64,
    last: Option<Error>,
}

impl Attaching {
    pub(super) fn succeeded(&self) {
        self.news.notify_waiters();
    }

    /// Why it failed, if it did after so many failures.
    fn failed_since(&self, count: u64) -> Option<Error> {
        let failures = lock(&self.failures);
        failures.last.clone().filter(|_| failures.count != count)
    }

    pub(super) fn failed(&self, error: &Error) {
        let mut failures = lock(&self.failures);
        failures.count += 1;
        failures.last = Some(error.clone());
        drop(failures);
        self.news.notify_waiters();
    }
}

impl Intake {
    /// Waits until the link was attached for `wait` all in all, or nobody could attach it from now on, or the intake is
    /// closed. Without a `wait` only for the last.
    pub(super) fn over(&self, wait: Option<Duration>) -> impl Future<Output = Result<()>> {
        let failures = lock(&self.attaching.failures).count;
        async move {
            let late = async {
                match wait {
                    Some(wait) => self.attached_for(wait, failures).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.closing.closed() => Ok(()),
                () = self.node.shared.closing.closed() => Ok(()),
                late = late => late,
            }
        }
    }

    async fn attached_for(&self, wait: Duration, failures: u64) -> Result<()> {
        let mut left = wait;
        while !left.is_zero() {
            let mut news = std::pin::pin!(self.attaching.news.notified());
            news.as_mut().enable();
            let Some(ended) = self.link.living().map(|link| link.link.ended()) else {
                if let Some(error) = self.attaching.failed_since(failures) {
                    return Err(error);
                }
                news.await;
                continue;
            };
            let since = now();
            tokio::select! {
                biased;
                () = tokio::time::sleep(left) => return Ok(()),
                _ = ended => left = left.saturating_sub(now().saturating_duration_since(since)),
            }
        }
        Ok(())
    }
}
