//! The queues of the small brokers that are made here, on fe2o3-amqp and on ours.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::message::Outcome;

/// Queues that are made when they are first named.
pub(crate) struct Queues<M>(Mutex<HashMap<String, Arc<Queue<M>>>>);

pub(crate) struct Queue<M> {
    messages: Mutex<VecDeque<M>>,
    arrival: Notify,
}

impl<M> Default for Queues<M> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<M> Default for Queue<M> {
    fn default() -> Self {
        Self {
            messages: Mutex::default(),
            arrival: Notify::new(),
        }
    }
}

impl<M> Queues<M> {
    pub(crate) fn named(&self, name: &str) -> Arc<Queue<M>> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(queues.entry(name.into()).or_default())
    }
}

impl<M> Queue<M> {
    pub(crate) fn push_back(&self, message: M) {
        self.messages().push_back(message);
        self.arrival.notify_one();
    }

    pub(crate) fn push_front(&self, message: M) {
        self.messages().push_front(message);
        self.arrival.notify_one();
    }

    fn messages(&self) -> MutexGuard<'_, VecDeque<M>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the first message, and waits for one if there is none. A wait that is dropped takes nothing.
    pub(crate) async fn pop(&self) -> M {
        loop {
            if let Some(message) = self.messages().pop_front() {
                return message;
            }
            self.arrival.notified().await;
        }
    }
}

/// What a broker answers in turn to messages for an address that holds `outcomes`.
pub(crate) fn all_outcomes() -> impl Iterator<Item = Outcome> {
    [
        Outcome::Accepted,
        Outcome::Released,
        Outcome::Rejected,
        Outcome::Modified,
    ]
    .into_iter()
    .cycle()
}
