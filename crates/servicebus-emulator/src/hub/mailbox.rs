use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use servicebus_amqp::engine::{DeliveryKey, LinkKey};
use servicebus_amqp::types::{AmqpError, DeliveryState};

use crate::broker::{ConsumerId, Delivery, EntityId, Error, SessionGrant};

/// Where others leave work for a connection. Only the connection's own task takes it out, so that nobody needs the
/// lock of a connection that is not theirs.
///
/// What waits here is bounded: deliveries by the credit of the links, the rest by what the emulator's user asks for.
#[derive(Debug)]
pub(crate) struct Mailbox {
    parcels: Mutex<VecDeque<Parcel>>,
    waker: AtomicWaker,
    /// The number of the connection.
    id: u64,
}

/// Something for a connection to do.
#[derive(Debug)]
pub(crate) enum Parcel {
    /// Transfer a message.
    Deliver {
        link: LinkKey,
        entity: EntityId,
        delivery: Delivery,
    },
    /// Accept a link that waited for a session.
    AcceptSession {
        link: LinkKey,
        consumer: ConsumerId,
        session: SessionGrant,
    },
    /// Refuse a link that waited for a session.
    RefuseSession { link: LinkKey, error: Error },
    /// Detach a link.
    Detach { link: LinkKey, error: AmqpError },
    /// Give an answer that was held back.
    Answer {
        delivery: DeliveryKey,
        state: DeliveryState,
    },
    /// Give the reply of a node that was held back.
    Reply { link: LinkKey, payload: Bytes },
    /// A token ran out: detach the links that it was for.
    TokenExpired,
    /// The idle time of a link or of the connection may be over.
    CheckIdle,
    /// Close the connection.
    Close(AmqpError),
}

impl Mailbox {
    pub(crate) fn new(id: u64) -> Self {
        Self {
            parcels: Mutex::default(),
            waker: AtomicWaker::new(),
            id,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Leaves a parcel. The owner takes it in by itself if it is the one that does so.
    pub(crate) fn push(&self, parcel: Parcel, from: Option<&Self>) {
        let first = {
            let mut parcels = self.lock();
            parcels.push_back(parcel);
            parcels.len() == 1
        };
        if first && from.is_none_or(|from| from.id != self.id) {
            self.waker.wake();
        }
    }

    /// Takes all parcels out, into an empty queue.
    pub(crate) fn take(&self, into: &mut VecDeque<Parcel>) {
        let mut parcels = self.lock();
        if !parcels.is_empty() {
            std::mem::swap(&mut *parcels, into);
        }
    }

    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Parcel>> {
        self.parcels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
