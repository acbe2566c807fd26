//! Entities: created, described, deleted, found.

use std::sync::Arc;

use super::{
    Broker, Effect, EntityId, Error, ErrorKind, EventKind, Filter, QueueOptions, Rule,
    SubscriptionOptions,
    command::{
        AddRule, CreateQueue, CreateSubscription, CreateTopic, DeleteEntity, DeleteNamespace,
        EnumerateRules, Purge, RemoveRule, UpdateQueue, UpdateSubscription, UpdateTopic,
    },
    entity::{Entity, Kind, Policy},
    log::{Log, NONE},
    registry::normalise,
    settle::Return,
    time::after,
    timer::Timer,
};
use crate::names::address;

/// The longest paths that the service has.
const MAX_PATH: usize = 260;
const MAX_NAME: usize = 50;

impl Broker {
    /// The entity that an address names: `q`, `/q`, `sb://host/q`, `t/Subscriptions/s`, `q/$DeadLetterQueue`, in any
    /// case.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::EntityNotFound`] when there is none.
    pub fn resolve(&self, namespace: &str, address: &str) -> Result<EntityId, Error> {
        let path = normalise(address);
        self.entities
            .find(namespace, &path)
            .ok_or_else(|| Error::entity_not_found(namespace, &path))
    }

    /// The path of an entity in the spelling of its creator.
    pub fn path(&self, entity: EntityId) -> Option<Arc<str>> {
        Some(self.entities.get(entity)?.path.clone())
    }

    /// All entities of a namespace in the order of their paths, dead-letter queues included.
    pub fn entities(&self, namespace: &str) -> impl Iterator<Item = (EntityId, Arc<str>)> {
        self.entities
            .namespace(namespace)
            .into_iter()
            .flat_map(|namespace| namespace.by_path.values())
            .filter_map(|id| Some((*id, self.entities.get(*id)?.path.clone())))
    }

    pub(super) fn create_queue(&mut self, command: CreateQueue) -> Result<EntityId, Error> {
        let path = self.check_new(&command.namespace, &command.name)?;
        self.check_queue(&command.options)?;
        let policy = Policy::of_queue(&command.options);
        self.check_forwarding(
            &command.namespace,
            &path,
            &policy,
            command.options.requires_session,
        )?;
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
            log: Log::new(command.options.requires_session),
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
        self.check_queue(&QueueOptions {
            lock_duration: options.lock_duration,
            max_delivery_count: options.max_delivery_count,
            ..QueueOptions::default()
        })?;
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

    fn check_queue(&self, options: &QueueOptions) -> Result<(), Error> {
        if options.lock_duration.is_zero() {
            return Err(Error::invalid(
                "The lock duration must be longer than zero.",
            ));
        }
        if let Some((least, most)) = self.limits.lock_duration {
            if options.lock_duration > most {
                return Err(Error::invalid(format!(
                    "SubCode=40000. The supplied lock time exceeds the allowed maximum of '{}' minutes.",
                    most.as_secs() / 60
                )));
            }
            if options.lock_duration < least {
                return Err(Error::invalid(format!(
                    "SubCode=40000. The supplied lock time is below the allowed minimum of '{}' seconds.",
                    least.as_secs()
                )));
            }
        }
        if options.max_delivery_count == 0 {
            return Err(Error::invalid("The max delivery count must be at least 1."));
        }
        if let Some(limit) = self.limits.max_delivery_count
            && options.max_delivery_count > limit
        {
            return Err(Error::invalid(format!(
                "The max delivery count exceeds the allowed maximum of {limit}."
            )));
        }
        Ok(())
    }

    fn check_forwarding(
        &self,
        namespace: &str,
        path: &str,
        policy: &Policy,
        requires_session: bool,
    ) -> Result<(), Error> {
        if requires_session && policy.forward_to.is_some() {
            return Err(Error::invalid(
                "Auto-forwarding is not allowed on an entity that requires sessions.",
            ));
        }
        for target in [&policy.forward_to, &policy.forward_dead_lettered_to]
            .into_iter()
            .flatten()
        {
            if **target == *normalise(path) {
                return Err(Error::invalid(format!(
                    "'{path}' cannot be forwarded to itself."
                )));
            }
            if self.entities.find(namespace, target).is_none() {
                return Err(Error::new(
                    ErrorKind::EntityNotFound,
                    format!("SubCode=40400. The forwarding target '{target}' does not exist."),
                ));
            }
        }
        Ok(())
    }

    pub(super) fn update_queue(&mut self, command: UpdateQueue) -> Result<(), Error> {
        let entity = self.entity(command.entity)?;
        if !matches!(entity.kind, Kind::Queue { .. }) {
            return Err(Error::not_allowed("The entity is not a queue."));
        }
        let sessions = entity.log.sessions.is_some();
        check_unchanged(
            "RequiresSession",
            sessions,
            command.options.requires_session,
        )?;
        check_unchanged(
            "RequiresDuplicateDetection",
            entity.policy.duplicate_detection.is_some(),
            command.options.duplicate_detection.is_some(),
        )?;
        let (namespace, path) = (entity.namespace.clone(), entity.path.clone());
        self.check_queue(&command.options)?;
        let policy = Policy::of_queue(&command.options);
        self.check_forwarding(&namespace, &path, &policy, sessions)?;
        self.set_policy(command.entity, policy);
        Ok(())
    }

    pub(super) fn update_topic(&mut self, command: UpdateTopic) -> Result<(), Error> {
        let entity = self.entity(command.entity)?;
        if !matches!(entity.kind, Kind::Topic { .. }) {
            return Err(Error::not_allowed("The entity is not a topic."));
        }
        check_unchanged(
            "RequiresDuplicateDetection",
            entity.policy.duplicate_detection.is_some(),
            command.options.duplicate_detection.is_some(),
        )?;
        self.set_policy(command.entity, Policy::of_topic(&command.options));
        Ok(())
    }

    pub(super) fn update_subscription(&mut self, command: UpdateSubscription) -> Result<(), Error> {
        let options: &SubscriptionOptions = &command.options;
        let entity = self.entity(command.entity)?;
        if !matches!(entity.kind, Kind::Subscription { .. }) {
            return Err(Error::not_allowed("The entity is not a subscription."));
        }
        let sessions = entity.log.sessions.is_some();
        check_unchanged("RequiresSession", sessions, options.requires_session)?;
        let (namespace, path) = (entity.namespace.clone(), entity.path.clone());
        self.check_queue(&QueueOptions {
            lock_duration: options.lock_duration,
            max_delivery_count: options.max_delivery_count,
            ..QueueOptions::default()
        })?;
        let policy = Policy::of_subscription(options);
        self.check_forwarding(&namespace, &path, &policy, sessions)?;
        if let Some(Entity {
            kind:
                Kind::Subscription {
                    dead_letter_on_filter_error,
                    ..
                },
            ..
        }) = self.entities.get_mut(command.entity)
        {
            *dead_letter_on_filter_error = options.dead_letter_on_filter_error;
        }
        self.set_policy(command.entity, policy);
        Ok(())
    }

    /// Puts a new policy in force: links go, locks are given back, and what is now to be forwarded is.
    fn set_policy(&mut self, id: EntityId, policy: Policy) {
        let now = self.now;
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        let receives = policy.status.may_receive();
        let sends = policy.status.may_send();
        let below = [entity.dead_letter(), entity.transfer_dead_letter()];
        let dead_letter_policy = Policy::of_dead_letter(&policy);
        let idle = policy.auto_delete_on_idle;
        entity.policy = policy;
        entity.used_at = now;
        let disabled = Self::disabled(entity);
        let updated = Error::new(
            ErrorKind::DetachForced,
            "The link is detached because its entity was updated.",
        );
        let error = if receives { &updated } else { &disabled };
        let error = self.track(id, error.clone());
        self.detach_receivers(id, &error);
        let error = if sends { updated } else { disabled };
        let error = self.track(id, error);
        self.effects
            .push_back(Effect::DetachSenders { entity: id, error });
        if let Some(idle) = idle {
            self.timers.set(after(now, idle), Timer::Idle(id));
        }
        for below in below.into_iter().flatten() {
            if let Some(entity) = self.entities.get_mut(below) {
                entity.policy = dead_letter_policy.clone();
            }
        }
        self.release_locks(id);
        self.forward_stored(id);
    }

    /// Gives back all locks that receivers do not hold through sessions.
    fn release_locks(&mut self, id: EntityId) {
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        let locked: Vec<_> = entity
            .log
            .range(i64::MIN)
            .filter(|(_, entry)| entry.lock != NONE)
            .map(|(number, _)| number)
            .collect();
        for number in locked {
            self.unlock(id, number);
            self.give_back(id, number, Return::Uncounted);
        }
        self.dispatch(id, NONE);
    }

    /// Passes on what an entity holds that forwards from now on.
    fn forward_stored(&mut self, id: EntityId) {
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        if entity.policy.forward_to.is_none() {
            return;
        }
        while let Some(number) = self
            .entities
            .get_mut(id)
            .and_then(|entity| entity.log.take_ready(NONE))
        {
            if let Some(entry) = self.take_out(id, number) {
                self.forward_entry(id, number, entry);
            }
        }
    }

    /// Detaches all receivers of an entity.
    fn detach_receivers(&mut self, id: EntityId, error: &Error) {
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        let consumers: Vec<_> = entity.log.consumers.iter().copied().collect();
        for consumer in &consumers {
            // Out of the line first, or the session of one would be offered to the next.
            self.consumers.set_credit(
                *consumer,
                0,
                self.entities
                    .get_mut(id)
                    .map(|entity| &mut entity.log.waiting),
            );
        }
        for consumer in consumers {
            let waits = self
                .consumers
                .get(consumer)
                .is_some_and(|consumer| consumer.accepting.is_some());
            self.remove_consumer(consumer);
            let error = error.clone();
            self.effects.push_back(if waits {
                Effect::SessionRefused { consumer, error }
            } else {
                Effect::DetachReceiver { consumer, error }
            });
        }
    }

    /// Detaches all links of an entity.
    pub(super) fn detach_all(&mut self, id: EntityId, error: &Error) {
        let error = self.track(id, error.clone());
        self.detach_receivers(id, &error);
        self.effects
            .push_back(Effect::DetachSenders { entity: id, error });
    }

    pub(super) fn delete_entity(&mut self, command: DeleteEntity) -> Result<(), Error> {
        let entity = self.entity(command.entity)?;
        if matches!(entity.kind, Kind::DeadLetter { .. }) {
            return Err(Error::not_allowed(
                "A dead-letter queue is deleted with its entity.",
            ));
        }
        self.delete(command.entity);
        Ok(())
    }

    fn delete(&mut self, id: EntityId) {
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        let below: Vec<EntityId> = match &entity.kind {
            Kind::Topic { subscriptions } => subscriptions.clone(),
            Kind::Queue { .. } | Kind::Subscription { .. } => {
                [entity.dead_letter(), entity.transfer_dead_letter()]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            Kind::DeadLetter { .. } => Vec::new(),
        };
        let above = match &entity.kind {
            Kind::Subscription { topic, .. } => Some(*topic),
            _ => None,
        };
        for below in below {
            self.delete(below);
        }
        let error = Error::new(
            ErrorKind::EntityDeleted,
            "The messaging entity of this link could not be found: it was deleted.",
        );
        self.detach_all(id, &error);
        self.clear_messages(id);
        self.record(id, || EventKind::Deleted);
        self.entities.remove(id);
        if let Some(Entity {
            kind: Kind::Topic { subscriptions },
            ..
        }) = above.and_then(|above| self.entities.get_mut(above))
        {
            subscriptions.retain(|subscription| *subscription != id);
        }
    }

    pub(super) fn delete_namespace(&mut self, command: DeleteNamespace) -> Result<(), Error> {
        let ids: Vec<_> = self
            .entities
            .namespace(&command.namespace)
            .into_iter()
            .flat_map(|namespace| namespace.by_path.values().copied())
            .collect();
        for id in ids {
            self.delete(id);
        }
        Ok(())
    }

    pub(super) fn purge(&mut self, command: Purge) -> Result<u64, Error> {
        self.entity(command.entity)?;
        self.touch(command.entity);
        Ok(self.clear_messages(command.entity))
    }

    /// Removes all messages of an entity with their locks and timers.
    fn clear_messages(&mut self, id: EntityId) -> u64 {
        let Some(entity) = self.entities.get_mut(id) else {
            return 0;
        };
        for (number, entry) in entity.log.range(i64::MIN) {
            self.timers
                .cancel(entry.expires_at, Timer::Expire(id, number));
            if let Some(at) = entry.content.scheduled_at() {
                self.timers.cancel(at, Timer::Activate(id, number));
            }
            if entry.lock != NONE
                && let Some(lock) = self.locks.try_remove(entry.lock as usize)
            {
                self.timers.cancel(lock.until, Timer::Lock(entry.lock));
            }
        }
        entity.log.clear_timers(&mut self.timers, id);
        entity.log.clear()
    }

    /// Nothing may have been done with an entity for long.
    pub(super) fn on_idle(&mut self, id: EntityId) {
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        let Some(idle) = entity.policy.auto_delete_on_idle else {
            return;
        };
        let busy = !entity.log.consumers.is_empty() || entity.log.scheduled > 0;
        let since = if busy { self.now } else { entity.used_at };
        let until = after(since, idle);
        if until <= self.now {
            self.delete(id);
        } else {
            self.timers.set(until, Timer::Idle(id));
        }
    }

    pub(super) fn add_rule(&mut self, command: AddRule) -> Result<(), Error> {
        self.fail_if_asked(command.subscription, super::Operation::Manage)?;
        self.touch(command.subscription);
        let Kind::Subscription { topic, rules, .. } = &self.entity(command.subscription)?.kind
        else {
            return Err(Error::not_allowed("Only subscriptions have rules."));
        };
        self.check_rule(*topic, rules, &command.rule)?;
        let created_at = self.now;
        if let Some(Entity {
            kind: Kind::Subscription { rules, .. },
            ..
        }) = self.entities.get_mut(command.subscription)
        {
            rules.push(Rule {
                created_at,
                ..command.rule
            });
        }
        Ok(())
    }

    /// Whether a rule can join these, in a subscription of this topic.
    fn check_rule(&self, topic: EntityId, rules: &[Rule], rule: &Rule) -> Result<(), Error> {
        check_name_length(&rule.name, MAX_NAME)?;
        if rules
            .iter()
            .any(|other| other.name.eq_ignore_ascii_case(&rule.name))
        {
            return Err(already_exists(&rule.name));
        }
        if let Filter::Correlation(filter) = &rule.filter
            && filter.is_empty()
        {
            return Err(Error::invalid(
                "A correlation filter must have at least one condition.",
            ));
        }
        let (what, limit, same): (_, _, fn(&Filter) -> bool) = match rule.filter {
            Filter::Correlation(_) => (
                "correlation filters in the topic",
                self.limits.correlation_filters_per_topic,
                |filter| matches!(filter, Filter::Correlation(_)),
            ),
            Filter::Sql(_) => (
                "SQL filters in the topic",
                self.limits.sql_filters_per_topic,
                |filter| matches!(filter, Filter::Sql(_)),
            ),
            Filter::True | Filter::False => return Ok(()),
        };
        if limit.is_none() {
            return Ok(());
        }
        let Kind::Topic { subscriptions } = &self.entity(topic)?.kind else {
            return Ok(());
        };
        let elsewhere = subscriptions
            .iter()
            .filter_map(|id| match &self.entities.get(*id)?.kind {
                Kind::Subscription { rules, .. } => Some(rules),
                _ => None,
            })
            .flatten();
        let count = elsewhere.filter(|rule| same(&rule.filter)).count();
        check_limit(what, count, limit)
    }

    pub(super) fn remove_rule(&mut self, command: RemoveRule) -> Result<(), Error> {
        self.fail_if_asked(command.subscription, super::Operation::Manage)?;
        self.touch(command.subscription);
        self.entity(command.subscription)?;
        let Some(Entity {
            kind: Kind::Subscription { rules, .. },
            ..
        }) = self.entities.get_mut(command.subscription)
        else {
            return Err(Error::not_allowed("Only subscriptions have rules."));
        };
        let before = rules.len();
        rules.retain(|rule| !rule.name.eq_ignore_ascii_case(&command.name));
        if rules.len() == before {
            return Err(Error::new(
                ErrorKind::RuleNotFound,
                format!(
                    "The messaging entity '{}' could not be found.",
                    command.name
                ),
            ));
        }
        Ok(())
    }

    pub(super) fn enumerate_rules(&mut self, command: EnumerateRules) -> Result<Vec<Rule>, Error> {
        self.fail_if_asked(command.subscription, super::Operation::Manage)?;
        let Kind::Subscription { rules, .. } = &self.entity(command.subscription)?.kind else {
            return Err(Error::not_allowed("Only subscriptions have rules."));
        };
        Ok(rules
            .iter()
            .skip(command.skip)
            .take(command.top)
            .cloned()
            .collect())
    }
}

fn already_exists(name: &str) -> Error {
    Error::new(
        ErrorKind::EntityAlreadyExists,
        format!("The messaging entity '{name}' already exists."),
    )
}

fn check_limit(what: &str, count: usize, limit: Option<usize>) -> Result<(), Error> {
    match limit {
        Some(limit) if count >= limit => Err(Error::new(
            ErrorKind::QuotaExceeded,
            format!("The limit of {limit} {what} is reached."),
        )),
        _ => Ok(()),
    }
}

fn check_unchanged(name: &str, before: bool, after: bool) -> Result<(), Error> {
    if before == after {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "SubCode=40000. The value for the {name} property of an existing entity cannot be changed."
    )))
}

fn check_name_length(name: &str, limit: usize) -> Result<(), Error> {
    if name.is_empty() || name.chars().count() > limit {
        return Err(Error::invalid(format!(
            "The name '{name}' must have between 1 and {limit} characters."
        )));
    }
    Ok(())
}

fn check_name(name: &str, limit: usize) -> Result<(), Error> {
    check_name_length(name, limit)?;
    let legal = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | '~');
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '~'));
    if let Some(c) = name.chars().find(|c| !legal(*c)) {
        return Err(Error::invalid(format!(
            "The name '{name}' contains {c:?}; letters, digits and . - _ / ~ are allowed."
        )));
    }
    if !ends(name.chars().next()) || !ends(name.chars().next_back()) {
        return Err(Error::invalid(format!(
            "The name '{name}' must begin and end with a letter or digit."
        )));
    }
    Ok(())
}
