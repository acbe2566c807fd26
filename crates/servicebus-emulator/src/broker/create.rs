//! Entities come into being.

use std::sync::Arc;

use super::{
    Broker, EntityId, Error, EventKind, Rule,
    checks::{MAX_NAME, MAX_PATH, already_exists, check_limit, check_name},
    command::{CreateQueue, CreateSubscription, CreateTopic},
    entity::{Entity, Kind, Policy},
    log::Log,
    registry::normalise,
    time::after,
    timer::Timer,
};
use crate::names::address;

impl Broker {
    pub(super) fn create_queue(&mut self, command: CreateQueue) -> Result<EntityId, Error> {
        let path = self.check_new(&command.namespace, &command.name)?;
        let options = &command.options;
        self.check_locks(options.lock_duration, options.max_delivery_count)?;
        let policy = Policy::of_queue(options);
        self.check_forwarding(&command.namespace, &path, &policy, options.requires_session)?;
        let namespace = self.namespace_name(&command.namespace);
        let id = self.entities.reserve();
        let (dead_letter, transfer_dead_letter) =
            self.create_dead_letters(id, &namespace, &path, &policy);
        self.insert(Entity {
            id,
            namespace,
            path: path.into(),
            kind: Kind::Queue {
                dead_letter,
                transfer_dead_letter,
            },
            policy,
            log: Log::new(options.requires_session),
            used_at: self.now,
        });
        Ok(id)
    }

    pub(super) fn create_topic(&mut self, command: CreateTopic) -> Result<EntityId, Error> {
        let path = self.check_new(&command.namespace, &command.name)?;
        let id = self.entities.reserve();
        let namespace = self.namespace_name(&command.namespace);
        self.insert(Entity {
            id,
            namespace,
            path: path.into(),
            kind: Kind::Topic {
                subscriptions: Vec::new(),
            },
            policy: Policy::of_topic(&command.options),
            log: Log::new(false),
            used_at: self.now,
        });
        Ok(id)
    }

    pub(super) fn create_subscription(
        &mut self,
        command: CreateSubscription,
    ) -> Result<EntityId, Error> {
        let topic = self.entity(command.topic)?;
        let Kind::Topic { subscriptions } = &topic.kind else {
            return Err(Error::not_allowed("Only topics have subscriptions."));
        };
        check_limit(
            "subscriptions in the topic",
            subscriptions.len(),
            self.limits.subscriptions_per_topic,
        )?;
        check_name(&command.name, MAX_NAME)?;
        let namespace = topic.namespace.clone();
        let path = format!("{}/Subscriptions/{}", topic.path, command.name);
        if self.entities.find(&namespace, &normalise(&path)).is_some() {
            return Err(already_exists(&path));
        }
        let options = &command.options;
        self.check_locks(options.lock_duration, options.max_delivery_count)?;
        let policy = Policy::of_subscription(options);
        self.check_forwarding(&namespace, &path, &policy, options.requires_session)?;
        let mut rules = Vec::new();
        for mut rule in command.rules.unwrap_or_else(|| vec![Rule::default_rule()]) {
            rule.created_at = self.now;
            self.check_rule(command.topic, &rules, &rule)?;
            rules.push(rule);
        }

        let id = self.entities.reserve();
        let (dead_letter, transfer_dead_letter) =
            self.create_dead_letters(id, &namespace, &path, &policy);
        self.insert(Entity {
            id,
            namespace,
            path: path.into(),
            kind: Kind::Subscription {
                topic: command.topic,
                dead_letter,
                transfer_dead_letter,
                rules,
                dead_letter_on_filter_error: options.dead_letter_on_filter_error,
            },
            policy,
            log: Log::new(options.requires_session),
            used_at: self.now,
        });
        self.touch(command.topic);
        if let Some(Entity {
            kind: Kind::Topic { subscriptions },
            ..
        }) = self.entities.get_mut(command.topic)
        {
            subscriptions.push(id);
        }
        Ok(id)
    }

    fn create_dead_letters(
        &mut self,
        of: EntityId,
        namespace: &Arc<str>,
        path: &str,
        policy: &Policy,
    ) -> (EntityId, EntityId) {
        let mut create = |suffix: &str| {
            let id = self.entities.reserve();
            self.entities.insert(Entity {
                id,
                namespace: namespace.clone(),
                path: format!("{path}{suffix}").into(),
                kind: Kind::DeadLetter { of },
                policy: Policy::of_dead_letter(policy),
                log: Log::new(false),
                used_at: self.now,
            });
            id
        };
        (
            create("/$DeadLetterQueue"),
            create("/$Transfer/$DeadLetterQueue"),
        )
    }

    fn insert(&mut self, entity: Entity) {
        let (id, idle) = (entity.id, entity.policy.auto_delete_on_idle);
        self.entities.insert(entity);
        if let Some(idle) = idle {
            self.timers.set(after(self.now, idle), Timer::Idle(id));
        }
        self.record(id, || EventKind::Created);
    }

    /// The shared text of a namespace's name.
    fn namespace_name(&self, name: &str) -> Arc<str> {
        self.entities
            .namespace(name)
            .map_or_else(|| name.into(), |namespace| namespace.name.clone())
    }

    /// The path of a new queue or topic, if there can be one.
    fn check_new(&self, namespace: &str, name: &str) -> Result<String, Error> {
        check_name(name, MAX_PATH)?;
        let key = normalise(name);
        if key.contains(address::SUBSCRIPTIONS) || key.contains('$') {
            return Err(Error::invalid(format!(
                "'{name}' is reserved: it looks like the path of a subscription or sub-queue."
            )));
        }
        if self.entities.find(namespace, &key).is_some() {
            return Err(already_exists(name));
        }
        if self.limits.entities.is_some() {
            let count = self
                .entities
                .namespace(namespace)
                .into_iter()
                .flat_map(|namespace| namespace.by_path.values())
                .filter_map(|id| self.entities.get(*id))
                .filter(|entity| matches!(entity.kind, Kind::Queue { .. } | Kind::Topic { .. }))
                .count();
            check_limit(
                "queues and topics in the namespace",
                count,
                self.limits.entities,
            )?;
        }
        Ok(name.trim_matches('/').to_owned())
    }
}
