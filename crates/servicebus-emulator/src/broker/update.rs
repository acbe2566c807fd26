//! Entities are described anew.

use super::{
    Broker, Effect, EntityId, Error, ErrorKind,
    checks::check_unchanged,
    command::{UpdateQueue, UpdateSubscription, UpdateTopic},
    entity::{Entity, Kind, Policy},
    log::NONE,
    settle::Return,
    time::after,
    timer::Timer,
};

impl Broker {
    pub(super) fn update_queue(&mut self, command: UpdateQueue) -> Result<(), Error> {
        let options = &command.options;
        let entity = self.entity(command.entity)?;
        if !matches!(entity.kind, Kind::Queue { .. }) {
            return Err(Error::not_allowed("The entity is not a queue."));
        }
        let sessions = entity.log.sessions.is_some();
        check_unchanged("RequiresSession", sessions, options.requires_session)?;
        check_unchanged(
            "RequiresDuplicateDetection",
            entity.policy.duplicate_detection.is_some(),
            options.duplicate_detection.is_some(),
        )?;
        let (namespace, path) = (entity.namespace.clone(), entity.path.clone());
        self.check_locks(options.lock_duration, options.max_delivery_count)?;
        let policy = Policy::of_queue(options);
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
        let options = &command.options;
        let entity = self.entity(command.entity)?;
        if !matches!(entity.kind, Kind::Subscription { .. }) {
            return Err(Error::not_allowed("The entity is not a subscription."));
        }
        let sessions = entity.log.sessions.is_some();
        check_unchanged("RequiresSession", sessions, options.requires_session)?;
        let (namespace, path) = (entity.namespace.clone(), entity.path.clone());
        self.check_locks(options.lock_duration, options.max_delivery_count)?;
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
}
