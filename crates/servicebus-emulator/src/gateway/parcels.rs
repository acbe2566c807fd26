use std::time::Instant;

use bytes::{BufMut as _, Bytes};
use servicebus_amqp::engine::{Connection, DetachMode, LinkKey, OutgoingDelivery};
use servicebus_amqp::types::Timestamp;

use super::client::Client;
use super::link::{Link, LinkKind};
use super::locks::NO_LOCK;
use super::node::send_reply;
use super::transfer::settle;
use crate::access::Rights;
use crate::broker::{Delivery, EntityId, LockToken, Settle, Settlement};
use crate::hub::Parcel;

/// How much is allocated for encoded deliveries at once.
const SCRATCH: usize = 16 * 1024;

/// The size of a delivery tag.
const TAG: usize = 16;

impl Client {
    /// Does what others left in the mailbox.
    pub(super) fn handle_parcels(&mut self, connection: &mut Connection, now: Instant) {
        let mut parcels = std::mem::take(&mut self.parcels);
        loop {
            self.mailbox.take(&mut parcels);
            if parcels.is_empty() {
                break;
            }
            for parcel in parcels.drain(..) {
                self.handle_parcel(connection, parcel, now);
            }
        }
        self.parcels = parcels;
        self.end_drains(connection);
        self.forget_lost(connection);
    }

    fn handle_parcel(&mut self, connection: &mut Connection, parcel: Parcel, now: Instant) {
        match parcel {
            Parcel::Deliver {
                link,
                entity,
                delivery,
            } => self.deliver(connection, link, entity, delivery),
            Parcel::AcceptSession {
                link,
                consumer,
                session,
            } => {
                if !self.accept_session(connection, link, &session) {
                    // The client gave up while the session was granted.
                    self.links.remove(link);
                    self.hub.with(self.mailbox(), |core, now| {
                        core.detach_consumer(now, consumer);
                    });
                }
            }
            Parcel::RefuseSession { link, error } => {
                if self.links.remove(link).is_some() {
                    let _ = connection.refuse_attach(link, error.to_amqp());
                }
            }
            Parcel::Detach { link, error } => self.detach(connection, link, error),
            Parcel::Answer { delivery, state } => settle(connection, delivery, state),
            Parcel::Reply { link, payload } => {
                if send_reply(connection, link, payload).is_err() {
                    tracing::debug!("a late reply for a link that is gone");
                }
            }
            Parcel::TokenExpired => self.detach_unauthorised(connection),
            Parcel::CheckIdle => self.check_idle(connection, now),
            Parcel::Close(error) => connection.close(now, Some(error)),
        }
    }

    fn deliver(
        &mut self,
        connection: &mut Connection,
        key: LinkKey,
        entity: EntityId,
        delivery: Delivery,
    ) {
        if let Some(Link {
            kind: LinkKind::Consumer(consumer),
            ..
        }) = self.links.get_mut(key)
        {
            consumer.taken += 1;
        }
        self.touch(key);
        let wanted = delivery.message.appended_len() + TAG;
        if self.scratch.capacity() < wanted {
            self.scratch.reserve(SCRATCH.max(wanted));
        }
        let tail = delivery
            .message
            .encode_delivery(delivery.token, &mut self.scratch);
        let mut outgoing = OutgoingDelivery::new(self.scratch.split().freeze());
        outgoing.tail = tail;
        let Some(token) = delivery.token else {
            // Nothing can be said of a settled delivery later, so its tag is empty, as the service's is.
            outgoing.tag = Some(Bytes::new());
            outgoing.settled = true;
            if let Err(error) = connection.send(key, outgoing, NO_LOCK) {
                tracing::debug!(%error, "a message that was removed, and whose link is gone");
            }
            return;
        };
        self.scratch.put_slice(&token.to_tag());
        outgoing.tag = Some(self.scratch.split().freeze());
        match connection.send(key, outgoing, self.locks.next_context()) {
            Ok(delivery) => self.locks.insert(entity, token, delivery),
            Err(error) => {
                tracing::debug!(%error, "a delivery for a link that cannot take it");
                self.give_back(entity, token);
            }
        }
    }

    /// Gives the message of a lock back as if it had never been delivered.
    pub(super) fn give_back(&self, entity: EntityId, token: LockToken) {
        let command = Settle {
            entity,
            token,
            settlement: Settlement::Release,
            transaction: None,
        };
        if let Err(error) = self.hub.run(self.mailbox(), command) {
            tracing::debug!(%error, "a lock that ended before its message left");
        }
    }

    pub(super) fn detach(
        &mut self,
        connection: &mut Connection,
        key: LinkKey,
        error: servicebus_amqp::types::AmqpError,
    ) {
        let Some(link) = self.links.remove(key) else {
            return;
        };
        let waits =
            matches!(&link.kind, LinkKind::Consumer(consumer) if consumer.waiting.is_some());
        self.forget(link);
        let done = if waits {
            connection.refuse_attach(key, error)
        } else {
            connection.detach(key, DetachMode::Close, Some(error))
        };
        if let Err(error) = done {
            tracing::debug!(%error, "a link that is on its way out already");
        }
    }

    /// Detaches the links that no token is good for any more.
    fn detach_unauthorised(&mut self, connection: &mut Connection) {
        let refused: Vec<_> = self
            .links
            .iter()
            .filter_map(|link| {
                let right = match &link.kind {
                    LinkKind::Producer(_) => Some(Rights::Send),
                    LinkKind::Consumer(_) => Some(Rights::Listen),
                    LinkKind::Requests(super::link::Node::Management(_)) => None,
                    _ => return None,
                };
                let error = self.authorise(&link.path, right).err()?;
                Some((link.key, error.to_amqp()))
            })
            .collect();
        for (key, error) in refused {
            self.detach(connection, key, error);
        }
    }

    pub(super) fn expire_claim_at(&self, at: Timestamp) {
        let mailbox = std::sync::Arc::clone(&self.mailbox);
        self.hub.with(self.mailbox(), |core, _| {
            core.post_at(at, &mailbox, Parcel::TokenExpired);
        });
    }
}
