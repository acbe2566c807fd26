use std::sync::Arc;

use thiserror::Error;
use tokio::sync::broadcast::{Receiver, error::RecvError, error::TryRecvError};

use crate::broker::Event;

/// The events of a namespace, in order.
#[derive(Debug)]
pub struct Events {
    receiver: Receiver<Event>,
    namespace: Arc<str>,
}

/// Events were dropped because they were not taken in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0} events were not taken in time")]
#[allow(clippy::exhaustive_structs, reason = "a number, and no more")]
pub struct Missed(pub u64);

impl Events {
    pub(super) fn new(receiver: Receiver<Event>, namespace: Arc<str>) -> Self {
        Self {
            receiver,
            namespace,
        }
    }

    /// Waits for the next event; `None` once the emulator is gone.
    ///
    /// # Errors
    ///
    /// [`Missed`]; the next call goes on with the events that are left.
    ///
    /// # Cancel safety
    ///
    /// No event is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Event>, Missed> {
        loop {
            match self.receiver.recv().await {
                Ok(event) if event.namespace == self.namespace => return Ok(Some(event)),
                Ok(_) => {}
                Err(RecvError::Closed) => return Ok(None),
                Err(RecvError::Lagged(count)) => return Err(Missed(count)),
            }
        }
    }

    /// The next event, if it has happened already.
    ///
    /// # Errors
    ///
    /// [`Missed`]; the next call goes on with the events that are left.
    pub fn try_next(&mut self) -> Result<Option<Event>, Missed> {
        loop {
            match self.receiver.try_recv() {
                Ok(event) if event.namespace == self.namespace => return Ok(Some(event)),
                Ok(_) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(None),
                Err(TryRecvError::Lagged(count)) => return Err(Missed(count)),
            }
        }
    }
}
