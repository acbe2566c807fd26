use std::time::Duration;

use bytes::BytesMut;
use servicebus_amqp::types::Message;
use thiserror::Error as ThisError;

use super::Namespace;
use crate::broker::{
    AddRule, Counts, DeleteEntity, Error, ErrorKind, Purge, RemoveRule, Rule, Send, Snapshot,
};

/// A queue, topic, subscription or dead-letter queue, by its path.
#[derive(Clone, Debug)]
pub struct Entity {
    namespace: Namespace,
    path: String,
}

/// Why [`Entity::wait_until`] gave up.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum WaitError {
    /// The time is over.
    #[error("it did not come to pass within {limit:?}; at the end the entity was {last:?}")]
    TimedOut {
        /// The time that was given.
        limit: Duration,
        /// The entity at the end.
        last: Box<Snapshot>,
    },
    /// There is no such entity.
    #[error(transparent)]
    Gone(#[from] Error),
}

impl Entity {
    pub(super) fn new(namespace: Namespace, path: &str) -> Self {
        Self {
            namespace,
            path: path.to_owned(),
        }
    }

    /// The path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Everything about the entity at this moment.
    ///
    /// # Errors
    ///
    /// When there is no such entity, as for each method here.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        let id = self.namespace.resolve(&self.path)?;
        self.namespace.inner().hub.with(None, |core, now| {
            core.broker.handle_timeout(now);
            core.broker.snapshot(id)
        })
    }

    /// How many messages there are at this moment.
    ///
    /// # Errors
    ///
    /// When there is no such entity.
    pub fn counts(&self) -> Result<Counts, Error> {
        let id = self.namespace.resolve(&self.path)?;
        self.namespace.inner().hub.with(None, |core, now| {
            core.broker.handle_timeout(now);
            core.broker.counts(id)
        })
    }

    /// Waits until the entity is as expected, looking whenever something happens in the emulator. The limit is on
    /// tokio's clock, as other timers of a test.
    ///
    /// # Errors
    ///
    /// [`WaitError`]
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn wait_until(
        &self,
        mut expected: impl FnMut(&Snapshot) -> bool,
        limit: Duration,
    ) -> Result<Snapshot, WaitError> {
        let hub = &self.namespace.inner().hub;
        let end = tokio::time::Instant::now() + limit;
        let watch = hub.watch();
        loop {
            let changed = watch.changed();
            let snapshot = {
                let id = self.namespace.resolve(&self.path)?;
                hub.read(|core| core.broker.snapshot(id))?
            };
            if expected(&snapshot) {
                return Ok(snapshot);
            }
            if tokio::time::timeout_at(end, changed).await.is_err() {
                let last = Box::new(snapshot);
                return Err(WaitError::TimedOut { limit, last });
            }
        }
    }

    /// Stores a message as if a client had sent it.
    ///
    /// # Errors
    ///
    /// When the entity does not take it.
    pub fn inject(&self, message: &Message) -> Result<(), Error> {
        let mut payload = BytesMut::new();
        message
            .encode(&mut payload)
            .map_err(|error| Error::new(ErrorKind::InvalidMessage, error.to_string()))?;
        let entity = self.namespace.resolve(&self.path)?;
        self.namespace.inner().hub.run(
            None,
            Send {
                entity,
                payload: payload.freeze(),
                format: 0,
                transaction: None,
            },
        )
    }

    /// Removes all messages and the state of all sessions. Answers how many messages there were.
    ///
    /// # Errors
    ///
    /// When there is no such entity.
    pub fn purge(&self) -> Result<u64, Error> {
        let entity = self.namespace.resolve(&self.path)?;
        self.namespace.inner().hub.run(None, Purge { entity })
    }

    /// Deletes the entity with everything in and under it. Its links are detached.
    ///
    /// # Errors
    ///
    /// When there is no such entity.
    pub fn delete(&self) -> Result<(), Error> {
        let entity = self.namespace.resolve(&self.path)?;
        self.namespace
            .inner()
            .hub
            .run(None, DeleteEntity { entity })
    }

    /// Adds a rule to a subscription.
    ///
    /// # Errors
    ///
    /// When there is no such subscription, or it has a rule of this name.
    pub fn add_rule(&self, rule: Rule) -> Result<(), Error> {
        let subscription = self.namespace.resolve(&self.path)?;
        self.namespace
            .inner()
            .hub
            .run(None, AddRule { subscription, rule })
    }

    /// Removes a rule of a subscription.
    ///
    /// # Errors
    ///
    /// When there is no such subscription or rule.
    pub fn remove_rule(&self, name: &str) -> Result<(), Error> {
        let subscription = self.namespace.resolve(&self.path)?;
        let name = name.to_owned();
        self.namespace
            .inner()
            .hub
            .run(None, RemoveRule { subscription, name })
    }
}
