use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::fault::closed;
use crate::error::Result;

/// Whether something was closed, for those who ask and those who wait.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    closed: AtomicBool,
    notify: Notify,
}

impl Closing {
    /// `true` the first time.
    pub(crate) fn close(&self) -> bool {
        let first = !self.closed.swap(true, Ordering::AcqRel);
        self.notify.notify_waiters();
        first
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The error of everything that is closed.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_closed() {
            return Err(closed());
        }
        Ok(())
    }

    pub(crate) async fn closed(&self) {
        loop {
            let mut notified = std::pin::pin!(self.notify.notified());
            notified.as_mut().enable();
            if self.is_closed() {
                return;
            }
            notified.await;
        }
    }

    /// The result of what is waited for, or the error of being closed meanwhile.
    pub(crate) async fn unless_closed<T>(
        &self,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::select! {
            biased;
            () = self.closed() => Err(closed()),
            result = work => result,
        }
    }
}
