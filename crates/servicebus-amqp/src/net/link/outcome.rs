use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use super::shared::Link;
use crate::engine::{DeliveryKey, LinkError};
use crate::net::operation::{DeliveryError, OperationId, Polled};
use crate::types::{DeliveryState, Role};

/// The peer's answer to a delivery that was sent, or to the settlement of one that was received.
///
/// # Cancel safety
///
/// Dropping it gives the answer up. A delivery that has not been transferred is taken back then, and one that is partly
/// transferred is aborted; otherwise what was asked for happens unobserved.
#[derive(Debug)]
#[must_use = "an outcome that is dropped takes back a delivery that has not been transferred"]
pub struct Outcome {
    link: Arc<Link>,
    delivery: DeliveryKey,
    operation: Option<OperationId>,
    deadline: Option<Instant>,
}

impl Outcome {
    pub(super) fn new(link: Arc<Link>, delivery: DeliveryKey, operation: OperationId) -> Self {
        Self {
            link,
            delivery,
            operation: Some(operation),
            deadline: None,
        }
    }

    /// Gives the delivery up at this time, as [`cancel`](Self::cancel) does: the error is then
    /// [`NotTransferred`](DeliveryError::NotTransferred) or [`Uncertain`](DeliveryError::Uncertain), both with
    /// [`LinkError::NoAnswer`].
    ///
    /// Costs less than a timer around it: all outcomes of a connection share one.
    pub fn until(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Gives the delivery up, and tells what is known: `true` when the peer can't have processed it, because it was
    /// taken back or aborted; `false` when it was transferred, or has an outcome already.
    pub fn cancel(mut self) -> bool {
        self.operation
            .take()
            .is_some_and(|operation| self.abandon(operation))
    }

    fn abandon(&self, operation: OperationId) -> bool {
        self.link.endpoint().with(|connection, registry| {
            let pending = registry.operations.abandon(operation);
            let cancelled = pending
                && self.delivery.role() == Role::Sender
                && connection.cancel(self.delivery).is_ok();
            if cancelled {
                self.link.shared.permits.add_permits(1);
            }
            cancelled
        })
    }
}

impl Future for Outcome {
    /// The state that the peer gave; `None` when it settled without one, and for a delivery that was sent settled.
    type Output = Result<Option<DeliveryState>, DeliveryError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(operation) = self.operation else {
            return Poll::Pending;
        };
        let endpoint = self.link.endpoint();
        let polled = endpoint.read(|_, registry| {
            registry
                .operations
                .poll(operation, cx.waker(), self.deadline)
        });
        let result = match polled {
            Polled::Done(result) => result,
            Polled::Pending => return Poll::Pending,
            Polled::PendingAndFirst => {
                endpoint.wake();
                return Poll::Pending;
            }
            Polled::Late => Err(if self.abandon(operation) {
                DeliveryError::NotTransferred(LinkError::NoAnswer)
            } else {
                DeliveryError::Uncertain(LinkError::NoAnswer)
            }),
        };
        self.operation = None;
        Poll::Ready(result)
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if let Some(operation) = self.operation {
            self.abandon(operation);
        }
    }
}
