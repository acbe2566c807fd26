use bytes::{Bytes, BytesMut};

use super::connection::{Connection, Violation};
use super::link::{End, Link, LinkState};
use super::session::Session;
use super::{DeliveryKey, Event, LinkKey, OnOutcome, RequestError, Settle, id_ring, serial, trace};
use crate::codec::encode_frame;
use crate::types::{AmqpError, DeliveryState, Disposition, Outcome, Performative, Role, condition};

/// A delivery that we sent or will send.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) link: u32,
    pub(super) stage: Stage,
    pub(super) settled: bool,
    pub(super) batchable: bool,
    pub(super) message_format: u32,
    /// 0 until the first frame is written.
    pub(super) id: u64,
    pub(super) context: u64,
    pub(super) payload: Bytes,
    pub(super) tail: Bytes,
    pub(super) tag: Option<Bytes>,
    /// Before the transfer our state, after it the peer's.
    pub(super) state: Option<DeliveryState>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// In the link's queue; the first of it may be sent in part.
    Queued,
    /// In the link's queue, sent in part, and given up.
    Aborting,
    /// Transferred.
    Unsettled,
}

/// A delivery that we received and that is not settled.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) link: u32,
    pub(super) id: u64,
    /// Whether the application stated an outcome and the peer's answer is to come.
    pub(super) stated: bool,
}

/// A disposition that grows until it is written.
#[derive(Debug)]
pub(super) struct Pending {
    role: Role,
    first: u64,
    last: u64,
    settled: bool,
    state: Option<DeliveryState>,
}

impl Session {
    /// Adds a delivery to the dispositions that are due, to a range where it can.
    pub(super) fn push_disposition(
        &mut self,
        role: Role,
        id: u64,
        settled: bool,
        state: Option<DeliveryState>,
    ) {
        if let Some(pending) = self.dispositions.back_mut()
            && pending.role == role
            && pending.settled == settled
            && pending.state == state
        {
            if id == pending.last + 1 {
                pending.last = id;
                return;
            }
            if id + 1 == pending.first {
                pending.first = id;
                return;
            }
        }
        self.dispositions.push_back(Pending {
            role,
            first: id,
            last: id,
            settled,
            state,
        });
    }

    pub(super) fn write_dispositions(&mut self, out: &mut BytesMut) {
        while let Some(pending) = self.dispositions.pop_front() {
            let disposition = Disposition {
                role: pending.role,
                first: serial::truncate(pending.first),
                last: (pending.last != pending.first).then(|| serial::truncate(pending.last)),
                settled: pending.settled,
                state: pending.state,
                batchable: false,
            };
            trace::encode(out, self.channel, &Performative::Disposition(disposition));
        }
    }
}

/// # Settling
impl Connection {
    /// States the outcome of a delivery: of one that was received, or, with [`OnOutcome::Report`], of one that was sent.
    /// Consecutive equal ones go out as one disposition.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`]: settled already (perhaps by the peer), or the link is gone.
    /// [`RequestError::WrongState`]: not transferred yet, or stated before and the peer has not answered.
    /// [`RequestError::FrameTooLarge`]: the peer takes no frame with this state.
    pub fn settle(
        &mut self,
        delivery: DeliveryKey,
        state: DeliveryState,
        settle: Settle,
    ) -> Result<(), RequestError> {
        let DeliveryKey {
            slot,
            generation,
            role,
        } = delivery;
        self.check_size(&state)?;
        let settled = settle == Settle::First;
        let (link, id) = match role {
            Role::Receiver => {
                if !self.incoming.is_current(slot, generation) {
                    return Err(RequestError::Stale);
                }
                let delivery = self.incoming.get_mut(slot).ok_or(RequestError::Stale)?;
                if delivery.stated {
                    return Err(RequestError::WrongState);
                }
                delivery.stated = true;
                (delivery.link, delivery.id)
            }
            Role::Sender => {
                if !self.outgoing.is_current(slot, generation) {
                    return Err(RequestError::Stale);
                }
                let delivery = self.outgoing.get(slot).ok_or(RequestError::Stale)?;
                if delivery.stage != Stage::Unsettled {
                    return Err(RequestError::WrongState);
                }
                (delivery.link, delivery.id)
            }
        };
        let session = self.links.get(link).ok_or(RequestError::Stale)?.session;
        if let Some(session) = self.sessions.get_mut(session) {
            session.push_disposition(role, id, settled, Some(state));
        }
        if settled {
            match role {
                Role::Receiver => self.forget_incoming(slot),
                Role::Sender => self.forget_outgoing(slot),
            }
        }
        self.mark_dirty(session);
        Ok(())
    }

    /// Checks that a disposition with this state fits a frame of the peer.
    fn check_size(&self, state: &DeliveryState) -> Result<(), RequestError> {
        if is_small(state) {
            return Ok(());
        }
        // Rare enough to be measured by writing it.
        let disposition = Disposition {
            role: Role::Receiver,
            first: u32::MAX,
            last: Some(u32::MAX),
            settled: true,
            state: Some(state.clone()),
            batchable: false,
        };
        let mut frame = BytesMut::new();
        encode_frame(&mut frame, 0, &Performative::Disposition(disposition));
        if frame.len() > self.peer_max_frame_size as usize {
            return Err(RequestError::FrameTooLarge {
                max_frame_size: self.peer_max_frame_size,
            });
        }
        Ok(())
    }

    /// Removes an unsettled delivery that we received.
    pub(super) fn forget_incoming(&mut self, slot: u32) {
        let Some(delivery) = self.incoming.get(slot) else {
            return;
        };
        let id = delivery.id;
        if let Some(link) = self.links.get_mut(delivery.link) {
            if let Some(session) = self.sessions.get_mut(link.session) {
                session.unsettled_in.remove(id);
            }
            self.incoming.unlink(&mut link.unsettled, slot);
        }
        self.incoming.remove(slot);
    }

    /// Removes an unsettled delivery that we sent.
    pub(super) fn forget_outgoing(&mut self, slot: u32) {
        let Some(delivery) = self.outgoing.get(slot) else {
            return;
        };
        let id = delivery.id;
        if let Some(link) = self.links.get_mut(delivery.link) {
            if let Some(session) = self.sessions.get_mut(link.session) {
                session.unsettled_out.remove(id);
            }
            self.outgoing.unlink(&mut link.unsettled, slot);
        }
        self.outgoing.remove(slot);
    }

    pub(super) fn on_disposition(
        &mut self,
        channel: u16,
        disposition: Disposition,
    ) -> Result<(), Violation> {
        let Some(slot) = self.living_session(channel)? else {
            return Ok(());
        };
        let Some(session) = self.sessions.get(slot) else {
            return Ok(());
        };
        // A receiver speaks of what we sent.
        let reference = match disposition.role {
            Role::Receiver => session.next_delivery_id,
            Role::Sender => session.peer_delivery_id.unwrap_or_else(|| serial::start(0)),
        };
        let Some((mut from, last)) = id_ring::range(reference, disposition.first, disposition.last)
        else {
            return Err(Violation::Session(
                slot,
                AmqpError::new(
                    condition::INVALID_FIELD,
                    "disposition: last is before first",
                ),
            ));
        };
        loop {
            let Some(session) = self.sessions.get(slot) else {
                return Ok(());
            };
            let ring = match disposition.role {
                Role::Receiver => &session.unsettled_out,
                Role::Sender => &session.unsettled_in,
            };
            let Some((id, delivery)) = ring.find(from, last) else {
                return Ok(());
            };
            from = id + 1;
            match disposition.role {
                Role::Receiver => self.on_outcome(delivery, &disposition),
                Role::Sender => self.on_sender_disposition(delivery, &disposition),
            }
        }
    }

    /// What the receiver states about a delivery that we sent.
    fn on_outcome(&mut self, slot: u32, disposition: &Disposition) {
        let Some(delivery) = self.outgoing.get_mut(slot) else {
            return;
        };
        let terminal = disposition.state.as_ref().is_some_and(is_terminal);
        if !disposition.settled {
            if !terminal || delivery.state.is_some() {
                // How far it got, or the same again: of no use to anyone here.
                return;
            }
            if delivery.stage == Stage::Queued {
                // Stated before the delivery is complete: takes effect when it is.
                delivery.state.clone_from(&disposition.state);
                return;
            }
        }
        self.apply_outcome(slot, disposition.state.clone(), disposition.settled);
    }

    /// Reports the peer's outcome of a delivery that we sent, and settles it where that is wanted.
    pub(super) fn apply_outcome(&mut self, slot: u32, state: Option<DeliveryState>, settled: bool) {
        let generation = self.outgoing.generation(slot);
        let Some(delivery) = self.outgoing.get_mut(slot) else {
            return;
        };
        let (link, id, context) = (delivery.link, delivery.id, delivery.context);
        let Some(Link {
            session,
            end: End::Sender(sender),
            ..
        }) = self.links.get(link)
        else {
            return;
        };
        let (session, on_outcome) = (*session, sender.on_outcome);
        let settle = !settled && on_outcome == OnOutcome::Settle;
        if settle {
            if let Some(session) = self.sessions.get_mut(session) {
                session.push_disposition(Role::Sender, id, true, state.clone());
            }
            self.mark_dirty(session);
        } else if !settled {
            delivery.state.clone_from(&state);
        }
        let settled = settled || settle;
        if delivery_is_reported(self.outgoing.get(slot)) {
            self.events.push_back(Event::Outcome {
                link: self.link_key(link),
                delivery: DeliveryKey {
                    slot,
                    generation,
                    role: Role::Sender,
                },
                context,
                state,
                settled,
            });
        }
        if settled {
            self.finish_outgoing(slot);
        }
    }

    /// Forgets a delivery that the peer settled; one that is sent in part is aborted.
    fn finish_outgoing(&mut self, slot: u32) {
        let Some(delivery) = self.outgoing.get_mut(slot) else {
            return;
        };
        if delivery.stage == Stage::Unsettled {
            self.forget_outgoing(slot);
        } else {
            self.abort(slot);
        }
    }

    /// What the sender states about a delivery that we received. Only that it settled is of interest.
    fn on_sender_disposition(&mut self, slot: u32, disposition: &Disposition) {
        if !disposition.settled {
            return;
        }
        let generation = self.incoming.generation(slot);
        let Some(delivery) = self.incoming.get(slot) else {
            return;
        };
        let link = delivery.link;
        if self
            .links
            .get(link)
            .is_some_and(|link| link.state == LinkState::Attached)
        {
            self.events.push_back(Event::Outcome {
                link: self.link_key(link),
                delivery: DeliveryKey {
                    slot,
                    generation,
                    role: Role::Receiver,
                },
                context: 0,
                state: disposition.state.clone(),
                settled: true,
            });
        }
        self.forget_incoming(slot);
    }

    /// Puts the dispositions of a session among the ordered frames, before an end that would overtake them.
    pub(super) fn flush_dispositions(&mut self, slot: u32) {
        if let Some(session) = self.sessions.get_mut(slot) {
            session.write_dispositions(&mut self.out);
        }
    }

    pub(super) fn flush_all_dispositions(&mut self) {
        while let Some(slot) = self.dirty.pop_front() {
            self.flush_dispositions(slot);
        }
    }

    pub(super) fn link_key(&self, slot: u32) -> LinkKey {
        LinkKey {
            slot,
            generation: self.links.generation(slot),
        }
    }
}

/// A delivery that the application cancelled is its business no longer.
fn delivery_is_reported(delivery: Option<&Outgoing>) -> bool {
    delivery.is_some_and(|delivery| delivery.stage != Stage::Aborting)
}

fn is_terminal(state: &DeliveryState) -> bool {
    state.outcome().is_some()
}

/// Whether every peer takes a disposition with this state: frames of 512 bytes are the least that there is.
fn is_small(state: &DeliveryState) -> bool {
    let small = |outcome: &Outcome| match outcome {
        Outcome::Accepted | Outcome::Released | Outcome::Rejected(None) => true,
        Outcome::Modified(modified) => modified.message_annotations.is_none(),
        Outcome::Rejected(Some(_)) | Outcome::Declared { .. } => false,
    };
    match state {
        DeliveryState::Outcome(outcome) => small(outcome),
        DeliveryState::Transactional(state) => {
            state.txn_id.len() <= 256 && state.outcome.as_ref().is_none_or(small)
        }
        DeliveryState::Received { .. } => true,
        DeliveryState::Unknown(_) => false,
    }
}
