use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use servicebus_amqp::engine::LinkKey;
use servicebus_amqp::types::{AmqpError, ByteString, Timestamp};

use super::faults::{Faults, Interference};
use super::route::{Route, Routes};
use super::{Mailbox, Parcel, after};
use crate::broker::{
    AttachReceiver, Attached, Broker, ConsumerId, DetachReceiver, Effect, EntityId, Error,
    ErrorKind, ExpireSession, ReceiveMode, SessionRequest, SetCredit,
};
use crate::fault::Answered;

/// The broker, and which link each of its receivers is.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) broker: Broker,
    pub(crate) faults: Faults,
    pub(super) connections: HashMap<u64, Arc<Mailbox>>,
    consumers: Routes,
    /// The links that send to an entity, by connection and slot.
    producers: BTreeMap<(EntityId, u64, usize), LinkKey>,
    timers: BTreeMap<(Timestamp, u64), (Arc<Mailbox>, Parcel)>,
    timers_set: u64,
    /// When the timekeeper wakes up next.
    pub(super) armed: Option<Timestamp>,
    pub(super) stopped: bool,
}

impl Core {
    pub(super) fn new(broker: Broker) -> Self {
        Self {
            broker,
            faults: Faults::default(),
            connections: HashMap::new(),
            consumers: Routes::default(),
            producers: BTreeMap::new(),
            timers: BTreeMap::new(),
            timers_set: 0,
            armed: None,
            stopped: false,
        }
    }

    /// Attaches a receiver, and notes which link it is before anything can be delivered to it.
    pub(crate) fn attach_consumer(
        &mut self,
        now: Timestamp,
        command: AttachReceiver,
        mailbox: &Arc<Mailbox>,
        link: LinkKey,
    ) -> Result<Attached, Error> {
        let entity = command.entity;
        let attached = self.broker.apply(now, command)?;
        let (Attached::Ready { consumer, .. } | Attached::Waiting { consumer }) = &attached;
        self.consumers.insert(
            *consumer,
            Route {
                mailbox: Arc::clone(mailbox),
                link,
                entity,
                handed: 0,
            },
        );
        Ok(attached)
    }

    /// Removes a receiver. What is on its way to it is left to its connection.
    pub(crate) fn detach_consumer(&mut self, now: Timestamp, consumer: ConsumerId) {
        self.consumers.remove(consumer);
        let detached = self.broker.apply(now, DetachReceiver { consumer });
        debug_assert!(detached.is_ok(), "detaching a receiver cannot fail");
    }

    /// Gives a session to a receiver that is on no connection, and that goes when its lock runs out.
    pub(crate) fn steal_session(
        &mut self,
        now: Timestamp,
        entity: EntityId,
        session: ByteString,
    ) -> Result<(), Error> {
        let expire = ExpireSession {
            entity,
            session: session.clone(),
        };
        // Nobody may hold it. Whoever waits for any session may get it: then it is stolen all the same.
        let taken = self.broker.apply(now, expire).is_ok();
        let attach = AttachReceiver {
            entity,
            mode: ReceiveMode::PeekLock,
            session: SessionRequest::Named(session),
        };
        match self.broker.apply(now, attach) {
            Err(error) if taken && error.kind() == ErrorKind::SessionCannotBeLocked => Ok(()),
            attached => attached.map(drop),
        }
    }

    /// States the credit of a receiver: `credit` less the deliveries that were put into the mailbox after the
    /// connection took the first `taken`.
    pub(crate) fn set_credit(
        &mut self,
        now: Timestamp,
        consumer: ConsumerId,
        credit: u32,
        taken: u64,
        drain: bool,
    ) -> Result<(), Error> {
        let Some(route) = self.consumers.get(consumer) else {
            return Ok(());
        };
        let on_the_way = u32::try_from(route.handed.saturating_sub(taken)).unwrap_or(u32::MAX);
        let command = SetCredit {
            consumer,
            credit: credit.saturating_sub(on_the_way),
            drain,
        };
        self.broker.apply(now, command)
    }

    /// Notes a link that sends to an entity.
    pub(crate) fn add_producer(&mut self, entity: EntityId, mailbox: &Mailbox, link: LinkKey) {
        self.producers
            .insert((entity, mailbox.id(), link.slot()), link);
    }

    pub(crate) fn remove_producer(&mut self, entity: EntityId, mailbox: &Mailbox, link: LinkKey) {
        let place = (entity, mailbox.id(), link.slot());
        if self.producers.get(&place) == Some(&link) {
            self.producers.remove(&place);
        }
    }

    /// Forgets a connection that is gone.
    pub(crate) fn disconnect(&mut self, mailbox: &Mailbox) {
        self.connections.remove(&mailbox.id());
        self.timers.retain(|_, (of, _)| of.id() != mailbox.id());
    }

    pub(crate) fn is_connected(&self, number: u64) -> bool {
        self.connections.contains_key(&number)
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// The mailboxes of all connections.
    pub(crate) fn mailboxes(&self) -> impl Iterator<Item = &Arc<Mailbox>> {
        self.connections.values()
    }

    /// Leaves a parcel for a connection at a time.
    pub(crate) fn post_at(&mut self, at: Timestamp, mailbox: &Arc<Mailbox>, parcel: Parcel) {
        self.timers_set += 1;
        self.timers
            .insert((at, self.timers_set), (Arc::clone(mailbox), parcel));
    }

    /// Does to an answer what was ordered. The operation has taken effect, or was not to.
    pub(crate) fn interfere(
        &mut self,
        now: Timestamp,
        fault: Interference,
        (entity, answered): (EntityId, Answered),
        mailbox: &Arc<Mailbox>,
        answer: Parcel,
    ) {
        match fault {
            Interference::Lose { .. } => {}
            Interference::Delay(by) => self.post_at(after(now, by), mailbox, answer),
            Interference::Reverse => self.faults.hold(entity, answered, mailbox, answer),
        }
    }

    /// Runs what is due, each timer at its own time and in that order.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        while let Some(entry) = self.timers.first_entry() {
            let (at, _) = *entry.key();
            if at > now {
                break;
            }
            let (mailbox, parcel) = entry.remove();
            self.broker.handle_timeout(at);
            self.pass_effects_on(None);
            mailbox.push(parcel, None);
        }
        self.broker.handle_timeout(now);
        self.pass_effects_on(None);
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do next.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        let own = self.timers.first_key_value().map(|((at, _), _)| *at);
        [own, self.broker.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether a timer is due before the timekeeper wakes up.
    pub(super) fn has_earlier_timer(&self) -> bool {
        match (self.poll_timeout(), self.armed) {
            (Some(next), Some(armed)) => next < armed,
            (next, None) => next.is_some(),
            (None, Some(_)) => false,
        }
    }

    /// Puts the broker's effects into the mailboxes of the connections that they are for.
    pub(super) fn pass_effects_on(&mut self, from: Option<&Mailbox>) {
        while let Some(effect) = self.broker.poll_effect() {
            match effect {
                Effect::Deliver(delivery) => self.deliver(delivery, from),
                Effect::SessionAccepted { consumer, session } => {
                    if let Some(route) = self.consumers.get(consumer) {
                        let parcel = Parcel::AcceptSession {
                            link: route.link,
                            consumer,
                            session,
                        };
                        route.mailbox.push(parcel, from);
                    }
                }
                Effect::SessionRefused { consumer, error } => {
                    if let Some(route) = self.consumers.remove(consumer) {
                        let link = route.link;
                        let parcel = Parcel::RefuseSession { link, error };
                        route.mailbox.push(parcel, from);
                    }
                }
                Effect::DetachReceiver { consumer, error } => {
                    if let Some(route) = self.consumers.remove(consumer) {
                        let (link, error) = (route.link, error.to_amqp());
                        route.mailbox.push(Parcel::Detach { link, error }, from);
                    }
                }
                Effect::DetachSenders { entity, error } => {
                    self.detach_producers(entity, &error.to_amqp(), from);
                }
            }
        }
    }

    fn deliver(&mut self, delivery: crate::broker::Delivery, from: Option<&Mailbox>) {
        let Some(consumer) = delivery.consumer else {
            return;
        };
        if let Some(route) = self.consumers.get_mut(consumer) {
            route.handed += 1;
            let parcel = Parcel::Deliver {
                link: route.link,
                entity: route.entity,
                delivery,
            };
            route.mailbox.push(parcel, from);
        }
    }

    fn detach_producers(&mut self, entity: EntityId, error: &AmqpError, from: Option<&Mailbox>) {
        let all = (entity, 0, 0)..=(entity, u64::MAX, usize::MAX);
        let places: Vec<_> = self.producers.range(all).map(|(place, _)| *place).collect();
        for place in places {
            let (_, connection, _) = place;
            if let Some(link) = self.producers.remove(&place)
                && let Some(mailbox) = self.connections.get(&connection)
            {
                let error = error.clone();
                mailbox.push(Parcel::Detach { link, error }, from);
            }
        }
    }
}
