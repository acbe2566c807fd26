use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use servicebus_amqp::types::ByteString;

use super::{Entity, Events, Inner};
use crate::access::{DEFAULT_KEY, DEFAULT_KEY_NAME, Key, Rights};
use crate::broker::{
    CreateQueue, CreateSubscription, CreateTopic, DeadLetter, DeleteNamespace, DetachLinks,
    Duplicate, EntityId, Error, ExpireLock, ExpireSession, FailNext, QueueOptions,
    SubscriptionOptions, TopicOptions, amqp_error,
};
use crate::fault::Fault;
use crate::hub::{Interference, Parcel};

/// Queues and topics of their own, for the clients whose key has the namespace's name.
///
/// Handles are cheap to clone. They outlive the emulator, but no client can reach it then.
#[derive(Clone)]
pub struct Namespace {
    inner: Arc<Inner>,
    name: Arc<str>,
    key_name: Arc<str>,
}

impl Namespace {
    pub(super) fn open(inner: &Arc<Inner>, name: &str) -> Self {
        let default = **inner.hub.access().default_namespace() == *name;
        let key_name = if default { DEFAULT_KEY_NAME } else { name };
        if !default {
            inner.hub.change_access(|access| {
                if access.key(name).is_none() {
                    access.add_key(
                        name,
                        Key {
                            namespace: name.into(),
                            secret: DEFAULT_KEY.into(),
                            rights: Rights::Manage,
                        },
                    );
                }
            });
        }
        Self {
            inner: Arc::clone(inner),
            name: name.into(),
            key_name: key_name.into(),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The connection string for clients of this namespace. It holds a key; that of an emulator is no secret.
    pub fn connection_string(&self) -> String {
        let access = self.inner.hub.access();
        // The default namespace may have keys of other names.
        let (key_name, secret) = access
            .key(&self.key_name)
            .map(|key| (&*self.key_name, &*key.secret))
            .or_else(|| access.any_key_of(&self.name))
            .unwrap_or((&self.key_name, DEFAULT_KEY));
        let endpoint = match self.inner.address {
            Some(address) => address.to_string(),
            None => "localhost".to_owned(),
        };
        format!(
            "Endpoint=sb://{endpoint};SharedAccessKeyName={key_name};SharedAccessKey={secret};UseDevelopmentEmulator=true;"
        )
    }

    /// Adds a shared access key, or replaces the one of this name.
    pub fn add_key(&self, name: &str, key: &str, rights: Rights) {
        let key = Key {
            namespace: Arc::clone(&self.name),
            secret: key.into(),
            rights,
        };
        self.inner
            .hub
            .change_access(|access| access.add_key(name, key));
    }

    /// Creates a queue.
    ///
    /// # Errors
    ///
    /// When the name is taken or no name, or the options are outside of the profile's limits.
    pub fn create_queue(&self, name: &str, options: QueueOptions) -> Result<Entity, Error> {
        self.inner.hub.run(
            None,
            CreateQueue {
                namespace: self.name.to_string(),
                name: name.into(),
                options,
            },
        )?;
        Ok(self.entity(name))
    }

    /// Creates a topic.
    ///
    /// # Errors
    ///
    /// As for [`create_queue`](Self::create_queue).
    pub fn create_topic(&self, name: &str, options: TopicOptions) -> Result<Entity, Error> {
        self.inner.hub.run(
            None,
            CreateTopic {
                namespace: self.name.to_string(),
                name: name.into(),
                options,
            },
        )?;
        Ok(self.entity(name))
    }

    /// Creates a subscription of a topic, with the rule that takes every message.
    ///
    /// # Errors
    ///
    /// As for [`create_queue`](Self::create_queue), and when there is no such topic.
    pub fn create_subscription(
        &self,
        topic: &str,
        name: &str,
        options: SubscriptionOptions,
    ) -> Result<Entity, Error> {
        let topic_id = self.resolve(topic)?;
        self.inner.hub.run(
            None,
            CreateSubscription {
                topic: topic_id,
                name: name.into(),
                options,
                rules: None,
            },
        )?;
        Ok(self.entity(&format!("{topic}/Subscriptions/{name}")))
    }

    /// A handle on the entity at a path, as `orders`, `orders/$DeadLetterQueue`, `news/Subscriptions/all`. Whether there is
    /// one is seen when the handle is used.
    pub fn entity(&self, path: &str) -> Entity {
        Entity::new(self.clone(), path)
    }

    /// The paths of all entities in alphabetical order, dead-letter queues included.
    pub fn entities(&self) -> Vec<String> {
        self.inner.hub.read(|core| {
            core.broker
                .entities(&self.name)
                .map(|(_, path)| path.to_string())
                .collect()
        })
    }

    /// Deletes all entities, and takes back faults that were ordered for them.
    pub fn reset(&self) {
        let namespace = self.name.to_string();
        // There may be no entities: then there is nothing to do.
        let _ = self.inner.hub.run(None, DeleteNamespace { namespace });
    }

    /// The events of this namespace from now on.
    pub fn events(&self) -> Events {
        Events::new(self.inner.hub.subscribe(), Arc::clone(&self.name))
    }

    /// Orders a fault. Those on connections are about the connections of the whole emulator.
    ///
    /// # Errors
    ///
    /// When the entity, message or session does not exist.
    pub fn order(&self, fault: Fault) -> Result<(), Error> {
        let hub = &self.inner.hub;
        match fault {
            Fault::Drop { connection } => self.each_line(connection, |line| line.cut()),
            Fault::HalfOpen { connection } => self.each_line(connection, |line| line.silence()),
            Fault::Close {
                connection,
                condition,
                description,
            } => {
                let error = amqp_error(condition.into(), description);
                hub.read(|core| {
                    for mailbox in core.mailboxes() {
                        if connection.is_none_or(|number| number == mailbox.id()) {
                            mailbox.push(Parcel::Close(error.clone()), None);
                        }
                    }
                });
            }
            Fault::RefuseOpen {
                condition,
                description,
                times,
            } => {
                let error = amqp_error(condition.into(), description);
                hub.with(None, |core, _| core.faults.refuse_open(error, times));
            }
            Fault::RefuseSasl { code, times } => {
                hub.with(None, |core, _| {
                    core.faults.refuse_sasl(code.code(), times);
                });
            }
            Fault::Chop { bytes } => {
                self.inner.chop.store(bytes, Ordering::Relaxed);
                self.each_line(None, |line| line.chop(bytes));
            }
            Fault::Detach { entity, error } => {
                let entity = self.resolve(&entity)?;
                let error = error.error();
                hub.run(None, DetachLinks { entity, error })?;
            }
            Fault::Fail {
                entity,
                operation,
                error,
                times,
            } => {
                let entity = self.resolve(&entity)?;
                hub.run(
                    None,
                    FailNext {
                        entity,
                        operation: operation.into(),
                        times,
                        error: error.error(),
                    },
                )?;
            }
            Fault::LoseAnswer {
                entity,
                operation,
                applied,
                times,
            } => {
                let entity = self.resolve(&entity)?;
                let fault = Interference::Lose { applied };
                hub.with(None, |core, _| {
                    core.faults.order(entity, operation, fault, times);
                });
            }
            Fault::Delay {
                entity,
                operation,
                millis,
                times,
            } => {
                let entity = self.resolve(&entity)?;
                let fault = Interference::Delay(Duration::from_millis(millis));
                hub.with(None, |core, _| {
                    core.faults.order(entity, operation, fault, times);
                });
            }
            Fault::Reverse {
                entity,
                operation,
                count,
            } => {
                let entity = self.resolve(&entity)?;
                hub.with(None, |core, _| {
                    core.faults
                        .order(entity, operation, Interference::Reverse, count);
                });
            }
            Fault::Duplicate {
                entity,
                sequence_number,
            } => {
                let entity = self.resolve(&entity)?;
                hub.run(
                    None,
                    Duplicate {
                        entity,
                        sequence_number,
                    },
                )?;
            }
            Fault::ExpireLock {
                entity,
                sequence_number,
            } => {
                let entity = self.resolve(&entity)?;
                hub.run(
                    None,
                    ExpireLock {
                        entity,
                        sequence_number,
                    },
                )?;
            }
            Fault::DeadLetter {
                entity,
                sequence_number,
                reason,
                description,
            } => {
                let command = DeadLetter {
                    entity: self.resolve(&entity)?,
                    sequence_number,
                    reason: reason.into(),
                    description: description.into(),
                };
                hub.run(None, command)?;
            }
            Fault::ExpireSession { entity, session } => {
                let entity = self.resolve(&entity)?;
                let session = ByteString::from(session);
                hub.run(None, ExpireSession { entity, session })?;
            }
            Fault::StealSession { entity, session } => {
                let entity = self.resolve(&entity)?;
                let session = ByteString::from(session);
                hub.with(None, |core, now| core.steal_session(now, entity, session))?;
            }
        }
        Ok(())
    }

    fn each_line(&self, connection: Option<u64>, change: impl Fn(&crate::gateway::LineControl)) {
        for (number, line) in &*self.inner.lines() {
            if connection.is_none_or(|wanted| wanted == *number) {
                change(line);
            }
        }
    }

    pub(super) fn resolve(&self, path: &str) -> Result<EntityId, Error> {
        self.inner
            .hub
            .read(|core| core.broker.resolve(&self.name, path))
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Namespace").field(&self.name).finish()
    }
}
