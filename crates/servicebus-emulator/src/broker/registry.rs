//! Who is who: entities by id and by path, receivers by id.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use slab::Slab;

use super::{Broker, ConsumerId, EntityId, Error, ReceiveMode, entity::Entity, log::NONE};

/// All entities.
#[derive(Debug, Default)]
pub(super) struct Entities {
    slots: Vec<Slot>,
    free: Vec<u32>,
    namespaces: HashMap<Box<str>, Namespace>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    entity: Option<Box<Entity>>,
}

/// The entities of one namespace by path, in lower case.
#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) name: Arc<str>,
    pub(super) by_path: BTreeMap<Box<str>, EntityId>,
}

/// The path of an entity in an address, in lower case: without scheme, host and slashes around it.
///
/// Clients attach to `q`, `/q`, `sb://host/q/` and `amqps://host:port/q`, and mean the same.
pub(super) fn normalise(address: &str) -> String {
    let path = match address.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => address,
    };
    path.trim_matches('/').to_lowercase()
}

impl Entities {
    /// A new id; the entity is put there by [`insert`](Self::insert).
    pub(super) fn reserve(&mut self) -> EntityId {
        if let Some(slot) = self.free.pop()
            && let Some(place) = self.slots.get_mut(slot as usize)
        {
            place.generation += 1;
            return EntityId {
                slot,
                generation: place.generation,
            };
        }
        let slot = u32::try_from(self.slots.len()).unwrap_or(NONE);
        self.slots.push(Slot {
            generation: 0,
            entity: None,
        });
        EntityId {
            slot,
            generation: 0,
        }
    }

    pub(super) fn insert(&mut self, entity: Entity) {
        let namespace = self
            .namespaces
            .entry(Box::from(&*entity.namespace))
            .or_insert_with(|| Namespace {
                name: entity.namespace.clone(),
                by_path: BTreeMap::new(),
            });
        namespace
            .by_path
            .insert(normalise(&entity.path).into(), entity.id);
        if let Some(slot) = self.slots.get_mut(entity.id.slot as usize) {
            slot.entity = Some(Box::new(entity));
        }
    }

    pub(super) fn remove(&mut self, id: EntityId) -> Option<Box<Entity>> {
        self.get(id)?;
        let entity = self.slots.get_mut(id.slot as usize)?.entity.take()?;
        self.free.push(id.slot);
        if let Some(namespace) = self.namespaces.get_mut(&*entity.namespace) {
            namespace.by_path.remove(&*normalise(&entity.path));
            if namespace.by_path.is_empty() {
                self.namespaces.remove(&*entity.namespace);
            }
        }
        Some(entity)
    }

    pub(super) fn get(&self, id: EntityId) -> Option<&Entity> {
        let slot = self.slots.get(id.slot as usize)?;
        (slot.generation == id.generation)
            .then_some(slot.entity.as_deref())
            .flatten()
    }

    pub(super) fn get_mut(&mut self, id: EntityId) -> Option<&mut Entity> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        (slot.generation == id.generation)
            .then_some(slot.entity.as_deref_mut())
            .flatten()
    }

    /// The entity at a path that is normalised.
    pub(super) fn find(&self, namespace: &str, path: &str) -> Option<EntityId> {
        self.namespaces.get(namespace)?.by_path.get(path).copied()
    }

    pub(super) fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name)
    }
}

/// A receiving link.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) id: ConsumerId,
    pub(super) entity: EntityId,
    pub(super) mode: ReceiveMode,
    /// The session that it holds, or [`NONE`].
    pub(super) session: u32,
    /// The place in the line of those who wait for a session, and until when.
    pub(super) accepting: Option<(u64, servicebus_amqp::types::Timestamp)>,
    /// Credit by arrival, oldest first. Two are enough to be fair and bounded: what comes after the second joins it.
    grants: [Grant; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Grant {
    ticket: u64,
    credit: u32,
}

impl Consumer {
    /// How many more messages it takes.
    pub(super) fn credit(&self) -> u32 {
        let [first, second] = self.grants;
        first.credit.saturating_add(second.credit)
    }

    /// Uses up one credit. Answers the place in line that is used up with it.
    pub(super) fn spend(&mut self) -> Option<u64> {
        let [first, second] = &mut self.grants;
        first.credit = first.credit.saturating_sub(1);
        if first.credit > 0 {
            return None;
        }
        let used = first.ticket;
        *first = std::mem::take(second);
        Some(used)
    }

    /// Sets the credit. More of it queues up with the next ticket; less of it is taken from the youngest.
    pub(super) fn set_credit(
        &mut self,
        credit: u32,
        next_ticket: &mut u64,
        waiting: Option<&mut BTreeMap<u64, ConsumerId>>,
    ) {
        let before = self.grants;
        let current = self.credit();
        let [first, second] = &mut self.grants;
        if credit > current {
            let more = Grant {
                ticket: *next_ticket,
                credit: credit - current,
            };
            *next_ticket += 1;
            if first.credit == 0 {
                *first = more;
            } else if second.credit == 0 {
                *second = more;
            } else {
                second.credit += more.credit;
            }
        } else {
            first.credit = first.credit.min(credit);
            second.credit = credit - first.credit;
        }
        let Some(waiting) = waiting else {
            return;
        };
        for old in before {
            waiting.remove(&old.ticket);
        }
        for grant in self.grants {
            if grant.credit > 0 {
                waiting.insert(grant.ticket, self.id);
            }
        }
    }
}

/// All receivers.
#[derive(Debug, Default)]
pub(super) struct Consumers {
    slots: Slab<Consumer>,
    created: u32,
    /// The next place in a line. 0 is nobody's.
    next_ticket: u64,
}

impl Consumers {
    pub(super) fn insert(&mut self, entity: EntityId, mode: ReceiveMode) -> ConsumerId {
        let vacant = self.slots.vacant_entry();
        self.created = self.created.wrapping_add(1);
        let id = ConsumerId {
            slot: u32::try_from(vacant.key()).unwrap_or(NONE),
            generation: self.created,
        };
        vacant.insert(Consumer {
            id,
            entity,
            mode,
            session: NONE,
            accepting: None,
            grants: Default::default(),
        });
        id
    }

    pub(super) fn ticket(&mut self) -> &mut u64 {
        self.next_ticket = self.next_ticket.max(1);
        &mut self.next_ticket
    }

    pub(super) fn set_credit(
        &mut self,
        id: ConsumerId,
        credit: u32,
        waiting: Option<&mut BTreeMap<u64, ConsumerId>>,
    ) {
        let mut ticket = *self.ticket();
        if let Some(consumer) = self.get_mut(id) {
            consumer.set_credit(credit, &mut ticket, waiting);
        }
        self.next_ticket = ticket;
    }

    pub(super) fn get(&self, id: ConsumerId) -> Option<&Consumer> {
        self.slots
            .get(id.slot as usize)
            .filter(|consumer| consumer.id == id)
    }

    pub(super) fn get_mut(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        self.slots
            .get_mut(id.slot as usize)
            .filter(|consumer| consumer.id == id)
    }

    pub(super) fn remove(&mut self, id: ConsumerId) -> Option<Consumer> {
        self.get(id)?;
        self.slots.try_remove(id.slot as usize)
    }
}

impl Broker {
    /// The entity that an address names: `q`, `/q`, `sb://host/q`, `t/Subscriptions/s`, `q/$DeadLetterQueue`, in any
    /// case.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](super::ErrorKind::EntityNotFound) when there is none.
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
}
