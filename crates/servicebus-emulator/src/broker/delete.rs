//! Entities, and what is in them, are deleted.

use super::{
    Broker, EntityId, Error, ErrorKind, EventKind,
    command::{DeleteEntity, DeleteNamespace, Purge},
    entity::{Entity, Kind},
    log::NONE,
    time::after,
    timer::Timer,
};

impl Broker {
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
}
