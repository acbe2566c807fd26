use bytes::{Bytes, BytesMut};

use super::connection::{Connection, Violation};
use super::disposition::Incoming;
use super::link::{End, Link, LinkState};
use super::{
    CreditMode, DeliveryKey, Event, IncomingDelivery, LinkKey, LinkOptions, RequestError, serial,
};
use crate::types::{
    AmqpError, DeliveryState, Flow, Outcome, ReceiverSettleMode, Role, Transfer, condition,
};

/// The receiving end of a link.
///
/// Credit is kept as the limit it sets: deliveries below `limit` may come. In window mode `limit` is what was last told to the
/// peer, and `places` says how far it may be moved.
#[derive(Debug)]
pub(super) struct Receiver {
    delivery_count: u32,
    /// The delivery-count up to which the peer has credit.
    limit: u32,
    /// The highest limit that the peer ever had: what is on its way when credit is taken back is no violation.
    highest_limit: u32,
    mode: CreditMode,
    /// Window mode: places that the application gave back and that no credit was given for yet.
    places: u32,
    draining: bool,
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

impl Default for Receiver {
    fn default() -> Self {
        Self {
            delivery_count: 0,
            limit: 0,
            highest_limit: 0,
            mode: CreditMode::Exact(0),
            places: 0,
            draining: false,
            max_message_size: 0,
            partial: None,
        }
    }
}

impl Receiver {
    pub(super) fn apply(&mut self, options: &LinkOptions) {
        self.max_message_size = options.max_message_size.unwrap_or(0);
        self.set_mode(options.credit);
    }

    /// The sender's attach says where the delivery-count starts.
    pub(super) fn start(&mut self, delivery_count: u32) {
        let credit = self.credit();
        self.delivery_count = delivery_count;
        self.highest_limit = delivery_count;
        self.limit = delivery_count.wrapping_add(credit);
    }

    pub(super) fn credit(&self) -> u32 {
        serial::distance(self.delivery_count, self.limit)
            .max(0)
            .unsigned_abs()
    }

    pub(super) fn delivery_count(&self) -> u32 {
        self.delivery_count
    }

    fn set_credit(&mut self, credit: u32) {
        // Serial numbers can be told apart over half of their range.
        self.limit = self
            .delivery_count
            .wrapping_add(credit.min(i32::MAX.unsigned_abs()));
    }

    fn set_mode(&mut self, mode: CreditMode) {
        let credit = match (self.mode, mode) {
            (_, CreditMode::Exact(credit)) => credit,
            // Deliveries that the application still holds keep their places.
            (CreditMode::Window(old), CreditMode::Window(new)) => {
                let held = old.saturating_sub(self.credit() + self.places);
                new.saturating_sub(held)
            }
            (CreditMode::Exact(_), CreditMode::Window(window)) => window,
        };
        self.mode = mode;
        self.places = 0;
        self.draining = false;
        self.set_credit(credit);
    }

    /// Gives places back; `true` when enough are free that a flow is worth it.
    fn release(&mut self, count: u32) -> bool {
        let CreditMode::Window(window) = self.mode else {
            return false;
        };
        let free = window.saturating_sub(self.credit());
        self.places = self.places.saturating_add(count).min(free);
        self.places > 0 && self.places >= window / 2
    }

    /// The link part of our flow.
    pub(super) fn fill_flow(&mut self, flow: &mut Flow) {
        let places = std::mem::take(&mut self.places);
        self.set_credit(self.credit() + places);
        if serial::distance(self.highest_limit, self.limit) > 0 {
            self.highest_limit = self.limit;
        }
        flow.delivery_count = Some(self.delivery_count);
        flow.link_credit = Some(self.credit());
        flow.drain = self.draining;
    }

    /// Whether the peer may send one more delivery.
    fn allows(&self) -> bool {
        serial::distance(self.delivery_count, self.highest_limit) > 0
    }

    /// Counts a delivery. `true`: it completes a drain.
    fn count(&mut self) -> bool {
        self.delivery_count = self.delivery_count.wrapping_add(1);
        if serial::distance(self.limit, self.delivery_count) > 0 {
            self.limit = self.delivery_count;
        }
        self.draining && self.credit() == 0
    }

    /// Counts deliveries that the application does not see: the credit that they took is given again. `true`: a flow is due.
    fn count_unseen(&mut self, deliveries: u32) -> bool {
        let credit = self.credit();
        self.delivery_count = self.delivery_count.wrapping_add(deliveries);
        self.count_limit();
        match self.mode {
            CreditMode::Window(_) => self.release(credit - self.credit()),
            CreditMode::Exact(_) if self.draining => false,
            CreditMode::Exact(_) => {
                self.set_credit(credit);
                credit > 0
            }
        }
    }

    fn count_limit(&mut self) {
        if serial::distance(self.limit, self.delivery_count) > 0 {
            self.limit = self.delivery_count;
        }
    }

    /// The sender may move the delivery-count on without a delivery (AMQP 1.0 §2.6.7), as it does to answer a drain: also one
    /// that was given up meanwhile, and then it used up what credit it was given since. `true`: a flow is due.
    fn on_delivery_count(&mut self, count: u32) -> bool {
        let skipped = serial::distance(self.delivery_count, count);
        if skipped <= 0 || self.partial.is_some() {
            return false;
        }
        if serial::distance(self.highest_limit, count) > 0 {
            self.highest_limit = count;
        }
        self.count_unseen(skipped.unsigned_abs())
    }

    /// Whether the sender's flow completes a drain. Some senders state that nothing is left without moving the count.
    fn completes_drain(&mut self, flow: &Flow) -> bool {
        let done = self.draining && (self.credit() == 0 || flow.link_credit == Some(0));
        if done {
            self.draining = false;
            self.limit = self.delivery_count;
        }
        done
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
        receiver.set_mode(credit);
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
        if !matches!(receiver.mode, CreditMode::Exact(_)) {
            return Err(RequestError::WrongState);
        }
        let credit = receiver.credit().saturating_add(credit);
        receiver.set_mode(CreditMode::Exact(credit));
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
        if receiver.release(count) {
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
        receiver.mode = CreditMode::Exact(0);
        receiver.places = 0;
        if receiver.credit() == 0 && receiver.partial.is_none() {
            receiver.draining = false;
            self.events.push_back(Event::Drained { link });
        } else {
            receiver.draining = true;
            self.link_flow_due(slot);
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
            && receiver.credit() > 0
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
        let due = flow
            .delivery_count
            .is_some_and(|count| receiver.on_delivery_count(count));
        if receiver.completes_drain(flow) {
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
        if !session.count_incoming() {
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
        let due = session.flow_due;
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
        transfer: Transfer,
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
        let id = match (&partial, transfer.delivery_id) {
            (Some(partial), None) => partial.id,
            (Some(partial), Some(id)) if serial::truncate(partial.id) == id => partial.id,
            (Some(_), Some(_)) => {
                return violation(
                    condition::INVALID_FIELD,
                    "a delivery begins before the last one is complete",
                );
            }
            (None, None) => {
                return violation(
                    condition::INVALID_FIELD,
                    "the first transfer of a delivery has no delivery-id",
                );
            }
            (None, Some(id)) => {
                // Ids are meant to grow. Senders whose threads share a session send some out of order, or twice; only
                // the senders' own dispositions could be misread for that, so there is no reason to end the session.
                let id = match session.peer_delivery_id {
                    None => serial::start(id),
                    Some(next) => serial::extend(next, id),
                };
                session.peer_delivery_id = session.peer_delivery_id.max(Some(id + 1));
                id
            }
        };
        if partial.is_none() && !receiver.allows() {
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
            if receiver.count_unseen(1) {
                self.link_flow_due(slot);
            } else if receiver.draining && receiver.credit() == 0 {
                receiver.draining = false;
                let link = self.link_key(slot);
                self.events.push_back(Event::Drained { link });
            }
            return Ok(());
        }

        let size = payload.len() + partial.as_ref().map_or(0, |partial| partial.payload.len());
        let limit = receiver.max_message_size;
        if limit != 0 && size as u64 > limit {
            let settled = transfer.settled == Some(true)
                || partial.as_ref().is_some_and(|partial| partial.settled);
            let error = AmqpError::new(
                condition::MESSAGE_SIZE_EXCEEDED,
                format!(
                    "The received message (delivery-id:{}, size:{size} bytes) exceeds the limit ({limit} bytes) \
                     currently allowed on the link.",
                    serial::truncate(id)
                ),
            );
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
            let mut partial = partial.unwrap_or_else(|| {
                Box::new(Partial {
                    id,
                    tag: transfer.delivery_tag.unwrap_or_default(),
                    message_format: transfer.message_format.unwrap_or(0),
                    settled: false,
                    resumed,
                    rcv_settle_mode: transfer.rcv_settle_mode,
                    state: None,
                    // What is a little larger than a frame is complete without being moved once more.
                    payload: BytesMut::with_capacity(size + size / 4),
                })
            });
            partial.settled |= transfer.settled == Some(true);
            if transfer.state.is_some() {
                partial.state = transfer.state;
            }
            partial.payload.extend_from_slice(&payload);
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
        let drained = receiver.count();
        if drained {
            receiver.draining = false;
        }
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
