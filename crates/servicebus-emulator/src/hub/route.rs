use std::sync::Arc;

use servicebus_amqp::engine::LinkKey;

use super::Mailbox;
use crate::broker::{ConsumerId, EntityId};

/// The way to the link of a receiver.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) link: LinkKey,
    pub(super) entity: EntityId,
    /// How many deliveries were put into the mailbox.
    pub(super) handed: u64,
}

/// The ways to all receivers, by their slot.
#[derive(Debug, Default)]
pub(super) struct Routes(Vec<Option<(ConsumerId, Route)>>);

impl Routes {
    pub(super) fn insert(&mut self, consumer: ConsumerId, route: Route) {
        let slot = consumer.slot();
        if slot >= self.0.len() {
            self.0.resize_with(slot + 1, || None);
        }
        if let Some(place) = self.0.get_mut(slot) {
            *place = Some((consumer, route));
        }
    }

    pub(super) fn get(&self, consumer: ConsumerId) -> Option<&Route> {
        match self.0.get(consumer.slot())? {
            Some((id, route)) if *id == consumer => Some(route),
            _ => None,
        }
    }

    pub(super) fn get_mut(&mut self, consumer: ConsumerId) -> Option<&mut Route> {
        match self.0.get_mut(consumer.slot())? {
            Some((id, route)) if *id == consumer => Some(route),
            _ => None,
        }
    }

    pub(super) fn remove(&mut self, consumer: ConsumerId) -> Option<Route> {
        self.get(consumer)?;
        let (_, route) = self.0.get_mut(consumer.slot())?.take()?;
        Some(route)
    }
}
