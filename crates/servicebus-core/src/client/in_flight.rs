use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts what waits for an answer of the service, so that closing can wait for it.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    count: AtomicUsize,
    none: Notify,
}

/// One that waits; leaves when it is dropped.
#[derive(Debug)]
pub(crate) struct Flight<'a>(&'a InFlight);

impl InFlight {
    pub(crate) fn enter(&self) -> Flight<'_> {
        self.count.fetch_add(1, Ordering::AcqRel);
        Flight(self)
    }

    /// Waits until nothing waits.
    pub(crate) async fn over(&self) {
        loop {
            let mut notified = std::pin::pin!(self.none.notified());
            notified.as_mut().enable();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            notified.await;
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none.notify_waiters();
        }
    }
}
