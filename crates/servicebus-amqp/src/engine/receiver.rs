use bytes::{Bytes, BytesMut};

use super::connection::{Connection, Violation};
use super::credit::Credit;
use super::disposition::Incoming;
use super::link::{End, Link, LinkState};
use super::{
    CreditMode, DeliveryKey, Event, IncomingDelivery, LinkKey, LinkOptions, RequestError, serial,
};
use crate::types::{
    AmqpError, DeliveryState, Flow, Outcome, ReceiverSettleMode, Role, Transfer, condition,
};

/// The receiving end of a link.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    pub(super) credit: Credit,
    /// 0 for no limit.
    max_message_size: u64,
    pub(super) partial: Option<Box<Partial>>,
}

/// A delivery of which some frames are there.
#[derive(Debug)]
pub(super) struct Partial {
    id: u64,
    tag: Bytes,
    message_format: u32,
    settled: bool,
    /// Whether the sender takes up a delivery of another attachment.
    resumed: bool,
    rcv_settle_mode: Option<ReceiverSettleMode>,
    state: Option<DeliveryState>,
    pub(super) payload: BytesMut,
}

impl Receiver {
    pub(super) fn apply(&mut self, options: &LinkOptions) {
        self.max_message_size = options.max_message_size.unwrap_or(0);
        self.credit.set_mode(options.credit);
    }
}

impl Partial {
    /// A delivery of which the first frame is there, with room for a payload of this size.
    fn begin(id: u64, resumed: bool, size: usize, first: &mut Transfer) -> Box<Self> {
        Box::new(Self {
            id,
            tag: first.delivery_tag.take().unwrap_or_default(),
            message_format: first.message_format.unwrap_or(0),
            settled: false,
            resumed,
            rcv_settle_mode: first.rcv_settle_mode,
            state: None,
            // What is a little larger than a frame is complete without being moved once more.
            payload: BytesMut::with_capacity(size + size / 4),
        })
    }

    /// Adds a frame that is not the last.
    fn extend(&mut self, transfer: Transfer, payload: &Bytes) {
        self.settled |= transfer.settled == Some(true);
        if transfer.state.is_some() {
            self.state = transfer.state;
        }
        self.payload.extend_from_slice(payload);
    }
}

/// # Receiving
impl Connection {
    /// Sets the credit mode: exactly so much credit from now on, or a window. Ends a drain.
    ///
    /// Less than the peer has is taken back as far as it has not used it: deliveries that are on their way arrive.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`WrongRole`](RequestError::WrongRole).
    pub fn set_credit(&mut self, link: LinkKey, credit: CreditMode) -> Result<(), RequestError> {
        let (slot, receiver) = self.receiver(link)?;
        receiver.credit.set_mode(credit);
        self.link_flow_due(slot);
        Ok(())
    }

    /// Adds to the credit of a link in exact mode. Ends a drain.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`WrongRole`](RequestError::WrongRole),
    /// [`WrongState`](RequestError::WrongState) in window mode.
    pub fn add_credit(&mut self, link: LinkKey, credit: u32) -> Result<(), RequestError> {
        let (slot, receiver) = self.receiver(link)?;
        if !receiver.credit.add(credit) {
            return Err(RequestError::WrongState);
        }
        self.link_flow_due(slot);
        Ok(())
    }

    /// Reports that the application took `count` deliveries of a link in window mode out of its inbox, so that others may
    /// take their places. Without effect in exact mode.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`WrongRole`](RequestError::WrongRole).
    pub fn release(&mut self, link: LinkKey, count: u32) -> Result<(), RequestError> {
        let (slot, receiver) = self.receiver(link)?;
        if receiver.credit.release(count) {
            self.link_flow_due(slot);
        }
        Ok(())
    }

    /// Asks the peer to use the credit up. The link goes to exact mode; [`Event::Drained`] follows, after the deliveries
    /// that still come. At once when there is no credit. Give up on a peer that does not answer with
    /// [`set_credit`](Self::set_credit).
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`WrongRole`](RequestError::WrongRole).
    pub fn drain(&mut self, link: LinkKey) -> Result<(), RequestError> {
        let (slot, receiver) = self.receiver(link)?;
        if receiver.credit.drain(receiver.partial.is_some()) {
            self.link_flow_due(slot);
        } else {
            self.events.push_back(Event::Drained { link });
        }
        Ok(())
    }

    fn receiver(&mut self, link: LinkKey) -> Result<(u32, &mut Receiver), RequestError> {
        let slot = self.link_slot(link)?;
        match self.links.get_mut(slot).map(|link| &mut link.end) {
            Some(End::Receiver(receiver)) => Ok((slot, receiver)),
            Some(End::Sender(_)) => Err(RequestError::WrongRole),
            None => Err(RequestError::Stale),
        }
    }

    pub(super) fn start_receiver(&mut self, slot: u32) {
        if let Some(Link {
            end: End::Receiver(receiver),
            ..
        }) = self.links.get(slot)
            && receiver.credit.left() > 0
        {
            self.link_flow_due(slot);
        }
    }

    /// A flow from the sender of what we receive.
    pub(super) fn on_sender_flow(&mut self, slot: u32, flow: &Flow) {
        let link = self.link_key(slot);
        let Some(Link {
            end: End::Receiver(receiver),
            ..
        }) = self.links.get_mut(slot)
        else {
            return;
        };
        let due = flow.delivery_count.is_some_and(|count| {
            receiver.partial.is_none() && receiver.credit.on_delivery_count(count)
        });
        if let Some(left) = flow.link_credit {
            receiver.credit.on_credit_left(left);
        }
        if receiver.credit.take_drained() {
            self.events.push_back(Event::Drained { link });
        }
        if due || flow.echo {
            self.link_flow_due(slot);
        }
    }

    pub(super) fn on_transfer(
        &mut self,
        channel: u16,
        transfer: Transfer,
        payload: Bytes,
    ) -> Result<(), Violation> {
        let Some(session_slot) = self.living_session(channel)? else {
            return Ok(());
        };
        let Some(session) = self.sessions.get_mut(session_slot) else {
            return Ok(());
        };
        if !session.windows.count_incoming() {
            return Err(Violation::Session(
                session_slot,
                AmqpError::new(condition::WINDOW_VIOLATION, "the incoming window is closed"),
            ));
        }
        let Some(slot) = session.peer_handles.slot(transfer.handle) else {
            return Err(Violation::Session(
                session_slot,
                AmqpError::new(
                    condition::UNATTACHED_HANDLE,
                    format!(
                        "a transfer on handle {}, which is not attached",
                        transfer.handle
                    ),
                ),
            ));
        };
        let due = session.windows.is_flow_due();
        let result = self.on_link_transfer(session_slot, slot, transfer, payload);
        if due {
            self.mark_dirty(session_slot);
        }
        result
    }

    fn on_link_transfer(
        &mut self,
        session_slot: u32,
        slot: u32,
        mut transfer: Transfer,
        payload: Bytes,
    ) -> Result<(), Violation> {
        let (Some(session), Some(link)) = (
            self.sessions.get_mut(session_slot),
            self.links.get_mut(slot),
        ) else {
            return Ok(());
        };
        if link.state == LinkState::Detaching {
            return Ok(());
        }
        let violation = |condition, text: &'static str| {
            Err(Violation::Link(slot, AmqpError::new(condition, text)))
        };
        let End::Receiver(receiver) = &mut link.end else {
            return violation(
                condition::NOT_ALLOWED,
                "a transfer from the receiver of the link",
            );
        };

        // The delivery: a new one, or the one that is there in part.
        let mut partial = receiver.partial.take();
        if let Some(partial) = &partial {
            self.partial_bytes -= partial.payload.len();
        }
        let id = match delivery_id(
            partial.as_deref(),
            transfer.delivery_id,
            &mut session.peer_delivery_id,
        ) {
            Ok(id) => id,
            Err(text) => return violation(condition::INVALID_FIELD, text),
        };
        if partial.is_none() && !receiver.credit.allows_delivery() {
            return violation(
                condition::TRANSFER_LIMIT_EXCEEDED,
                "a delivery without credit for it",
            );
        }

        // Our attaches name no unsettled deliveries, so none is resumed, and one that the peer resumes all the same is to
        // be ignored (AMQP 1.0 §2.7.5).
        let resumed = transfer.resume || partial.as_ref().is_some_and(|partial| partial.resumed);
        let payload = if resumed { Bytes::new() } else { payload };
        if transfer.aborted || (resumed && !transfer.more) {
            let due = receiver.credit.count_unseen(1);
            if receiver.credit.take_drained() {
                let link = self.link_key(slot);
                self.events.push_back(Event::Drained { link });
            }
            if due {
                self.link_flow_due(slot);
            }
            return Ok(());
        }

        let size = payload.len() + partial.as_ref().map_or(0, |partial| partial.payload.len());
        let limit = receiver.max_message_size;
        if limit != 0 && size as u64 > limit {
            let settled = transfer.settled == Some(true)
                || partial.as_ref().is_some_and(|partial| partial.settled);
            let error = too_large(id, size, limit);
            // The detach alone would tell the sender of many deliveries that all of them may be lost, not which one is
            // to blame.
            if !settled {
                let outcome = Outcome::Rejected(Some(Box::new(error.clone()))).into();
                session.push_disposition(Role::Receiver, id, true, Some(outcome));
            }
            return Err(Violation::Link(slot, error));
        }
        if transfer.more {
            if self.partial_bytes + size > self.config.limits.partial_bytes {
                return violation(
                    condition::RESOURCE_LIMIT_EXCEEDED,
                    "too many bytes of incomplete deliveries",
                );
            }
            let mut partial =
                partial.unwrap_or_else(|| Partial::begin(id, resumed, size, &mut transfer));
            partial.extend(transfer, &payload);
            self.partial_bytes += size;
            receiver.partial = Some(partial);
            return Ok(());
        }

        let mut settled = transfer.settled == Some(true);
        let (tag, message_format, rcv_settle_mode, state, payload) = match partial.take() {
            None => (
                transfer.delivery_tag.unwrap_or_default(),
                transfer.message_format.unwrap_or(0),
                transfer.rcv_settle_mode,
                transfer.state,
                payload,
            ),
            Some(mut partial) => {
                settled |= partial.settled;
                partial.payload.extend_from_slice(&payload);
                (
                    partial.tag,
                    partial.message_format,
                    transfer.rcv_settle_mode.or(partial.rcv_settle_mode),
                    transfer.state.or(partial.state),
                    partial.payload.freeze(),
                )
            }
        };
        receiver.credit.count();
        let drained = receiver.credit.take_drained();
        let (delivery_slot, generation) = self.incoming.insert(Incoming {
            link: slot,
            id,
            stated: false,
        });
        if settled {
            self.incoming.remove(delivery_slot);
        } else {
            session.unsettled_in.insert(id, delivery_slot);
            self.incoming.link(&mut link.unsettled, delivery_slot);
        }
        let link = self.link_key(slot);
        self.events.push_back(Event::Delivery(IncomingDelivery {
            link,
            delivery: DeliveryKey {
                slot: delivery_slot,
                generation,
                role: Role::Receiver,
            },
            tag,
            message_format,
            settled,
            rcv_settle_mode,
            state,
            payload,
        }));
        if drained {
            self.events.push_back(Event::Drained { link });
        }
        Ok(())
    }
}

/// The delivery that a transfer begins or goes on with. `next` is one more than the highest id of the session so far.
fn delivery_id(
    partial: Option<&Partial>,
    stated: Option<u32>,
    next: &mut Option<u64>,
) -> Result<u64, &'static str> {
    match (partial, stated) {
        (Some(partial), None) => Ok(partial.id),
        (Some(partial), Some(id)) if serial::truncate(partial.id) == id => Ok(partial.id),
        (Some(_), Some(_)) => Err("a delivery begins before the last one is complete"),
        (None, None) => Err("the first transfer of a delivery has no delivery-id"),
        (None, Some(id)) => {
            // Ids are meant to grow. Senders whose threads share a session send some out of order, or twice; only the
            // senders' own dispositions could be misread for that, so there is no reason to end the session.
            let id = match *next {
                None => serial::start(id),
                Some(next) => serial::extend(next, id),
            };
            *next = (*next).max(Some(id + 1));
            Ok(id)
        }
    }
}

#[cold]
fn too_large(id: u64, size: usize, limit: u64) -> AmqpError {
    let id = serial::truncate(id);
    AmqpError::new(
        condition::MESSAGE_SIZE_EXCEEDED,
        format!(
            "The received message (delivery-id:{id}, size:{size} bytes) exceeds the limit ({limit} bytes) currently allowed \
             on the link."
        ),
    )
}
