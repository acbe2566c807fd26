//! The locks of deliveries that a client has not settled.

use servicebus_amqp::engine::{Connection, DeliveryKey, RequestError, Settle};
use slab::Slab;

use super::client::Client;
use super::transfer::rejected;
use crate::broker::{EntityId, Error, LockToken};

/// The context of deliveries that nothing is to be done about later.
pub(super) const NO_LOCK: u64 = u64::MAX;

/// How many locks are kept before the first look for those that ran out.
const FEW: usize = 1024;

/// The locks, by the context of their delivery.
#[derive(Debug)]
pub(super) struct Locks {
    held: Slab<Locked>,
    /// How many locks make it worth to look for those that ran out.
    worth: usize,
}

/// A message that the client has and has not settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Locked {
    pub(super) entity: EntityId,
    pub(super) token: LockToken,
    delivery: DeliveryKey,
    /// Whether the lock had run out when they were last looked at.
    lost: bool,
}

impl Default for Locks {
    fn default() -> Self {
        Self {
            held: Slab::new(),
            worth: FEW,
        }
    }
}

impl Locks {
    /// The context of the next delivery.
    pub(super) fn next_context(&self) -> u64 {
        self.held.vacant_key() as u64
    }

    /// Notes the delivery that was sent with the context.
    pub(super) fn insert(&mut self, entity: EntityId, token: LockToken, delivery: DeliveryKey) {
        self.held.insert(Locked {
            entity,
            token,
            delivery,
            lost: false,
        });
    }

    pub(super) fn get(&self, context: u64) -> Option<Locked> {
        self.held.get(usize::try_from(context).ok()?).copied()
    }

    pub(super) fn remove(&mut self, context: u64) -> Option<Locked> {
        self.held.try_remove(usize::try_from(context).ok()?)
    }
}

impl Client {
    /// Forgets deliveries whose lock ran out long ago, once there are many.
    ///
    /// A client may settle such a delivery all the same, and is told then that the lock is lost. If it does not, it is
    /// told so unasked before it is forgotten.
    pub(super) fn forget_lost(&mut self, connection: &mut Connection) {
        let Locks { held, worth } = &mut self.locks;
        if held.len() < *worth {
            return;
        }
        self.hub.read(|core| {
            held.retain(|_, locked| {
                let gone = !core.broker.is_locked(locked.entity, locked.token);
                // At its second look at least: the client had the time in between.
                let forget = gone && std::mem::replace(&mut locked.lost, gone);
                !forget || {
                    let lost = rejected(Error::message_lock_lost().to_amqp());
                    let told = connection.settle(locked.delivery, lost.into(), Settle::First);
                    matches!(told, Err(RequestError::WrongState))
                }
            });
        });
        *worth = FEW.max(held.len() * 2);
    }
}
