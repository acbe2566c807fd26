use bytes::{BufMut, Bytes, BytesMut};

use super::arena::List;
use super::connection::Connection;
use super::disposition::{Outgoing, Stage};
use super::link::{End, Link, LinkState, Place};
use super::{
    DeliveryKey, DrainPolicy, Event, LinkKey, LinkOptions, OnOutcome, OutgoingDelivery,
    RequestError, Transmit, serial, trace,
};
use crate::codec::{encode_transfer, transfer_len};
use crate::types::{Flow, Role, Transfer};

/// How much one link sends before it is another's turn.
const TURN_FRAMES: u32 = 16;
const TURN_BYTES: usize = 64 * 1024;

/// More than a transfer without a state takes beyond its payload: header, handle, ids, tag, flags.
const TRANSFER_HEAD: usize = 128;

/// The sending end of a link.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) delivery_count: u32,
    initial_delivery_count: u32,
    pub(super) credit: u32,
    /// Whether the peer asked to use the credit up and we have not.
    draining: bool,
    /// Whether the drain is complete when the queue is empty; else the application says when.
    drain_when_empty: bool,
    drain: DrainPolicy,
    pub(super) on_outcome: OnOutcome,
    /// Deliveries that wait, the first of which may be sent in part.
    pub(super) queue: List,
    /// Whether a frame of the first was sent.
    partial: bool,
    next_tag: u32,
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            delivery_count: 0,
            initial_delivery_count: 0,
            credit: 0,
            draining: false,
            drain_when_empty: false,
            drain: DrainPolicy::default(),
            on_outcome: OnOutcome::default(),
            queue: List::EMPTY,
            partial: false,
            next_tag: 0,
        }
    }
}

impl Sender {
    pub(super) fn apply(&mut self, options: &LinkOptions) {
        self.delivery_count = options.initial_delivery_count;
        self.initial_delivery_count = options.initial_delivery_count;
        self.drain = options.drain;
        self.on_outcome = options.on_outcome;
    }

    /// The link part of our flow.
    pub(super) fn fill_flow(&mut self, flow: &mut Flow) {
        flow.delivery_count = Some(self.delivery_count);
        flow.link_credit = Some(self.credit);
        flow.available = Some(self.queue.len);
        flow.drain = self.draining;
        if self.credit == 0 {
            self.draining = false;
        }
    }

    /// The peer's credit (AMQP 1.0 §2.6.7). A flow that was on its way while we sent counts from an older delivery-count.
    fn on_credit(&mut self, flow: &Flow) {
        if let Some(credit) = flow.link_credit {
            let count = flow.delivery_count.unwrap_or(self.initial_delivery_count);
            let used = serial::distance(count, self.delivery_count).max(0);
            self.credit = credit.saturating_sub(used.unsigned_abs());
        }
    }

    /// Uses the credit up without sending.
    fn give_back(&mut self) {
        self.delivery_count = self.delivery_count.wrapping_add(self.credit);
        self.credit = 0;
    }

    fn can_send(&self) -> bool {
        self.queue.len > 0 && (self.credit > 0 || self.partial)
    }
}

/// # Sending
impl Connection {
    /// Queues a delivery. It goes out in order as credit and windows allow; [`Event::Outcome`] gives `context` back.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`WrongRole`](RequestError::WrongRole), [`Tag`](RequestError::Tag),
    /// [`MessageTooLarge`](RequestError::MessageTooLarge),
    /// [`FrameTooLarge`](RequestError::FrameTooLarge) for a state that leaves no room for the payload.
    pub fn send(
        &mut self,
        link: LinkKey,
        delivery: OutgoingDelivery,
        context: u64,
    ) -> Result<DeliveryKey, RequestError> {
        let slot = self.link_slot(link)?;
        let state = self.links.get_mut(slot).ok_or(RequestError::Stale)?;
        let End::Sender(sender) = &mut state.end else {
            return Err(RequestError::WrongRole);
        };
        let size = (delivery.payload.len() + delivery.tail.len()) as u64;
        if state.peer_max_message_size != 0 && size > state.peer_max_message_size {
            return Err(RequestError::MessageTooLarge {
                size,
                limit: state.peer_max_message_size,
            });
        }
        if let Some(tag) = &delivery.tag
            && tag.len() > 32
        {
            return Err(RequestError::Tag { length: tag.len() });
        }
        if delivery.state.is_some() {
            let head = transfer_len(&Transfer {
                state: delivery.state.clone(),
                ..Transfer::default()
            });
            if head + TRANSFER_HEAD > self.peer_max_frame_size as usize {
                return Err(RequestError::FrameTooLarge {
                    max_frame_size: self.peer_max_frame_size,
                });
            }
        }
        let (delivery_slot, generation) = self.outgoing.insert(Outgoing {
            link: slot,
            stage: Stage::Queued,
            settled: delivery.settled,
            batchable: delivery.batchable,
            message_format: delivery.message_format,
            id: 0,
            context,
            payload: delivery.payload,
            tail: delivery.tail,
            tag: delivery.tag,
            state: delivery.state,
        });
        self.outgoing.link(&mut sender.queue, delivery_slot);
        self.make_ready(slot);
        Ok(DeliveryKey {
            slot: delivery_slot,
            generation,
            role: Role::Sender,
        })
    }

    /// Takes a delivery back: one that waits is removed without a trace, one that is partly transferred is aborted
    /// (AMQP 1.0 §2.7.5). The key is stale then and no event follows.
    ///
    /// # Errors
    ///
    /// [`RequestError::AlreadyTransferred`]: the outcome follows as if nothing was asked. [`RequestError::Stale`].
    pub fn cancel(&mut self, delivery: DeliveryKey) -> Result<(), RequestError> {
        let DeliveryKey {
            slot,
            generation,
            role,
        } = delivery;
        if role == Role::Receiver {
            return Err(RequestError::WrongRole);
        }
        if !self.outgoing.is_current(slot, generation) {
            return Err(RequestError::Stale);
        }
        let delivery = self.outgoing.get(slot).ok_or(RequestError::Stale)?;
        match (delivery.stage, delivery.id) {
            (Stage::Unsettled, _) => return Err(RequestError::AlreadyTransferred),
            (_, 0) => {
                let link = delivery.link;
                if let Some(Link {
                    end: End::Sender(sender),
                    ..
                }) = self.links.get_mut(link)
                {
                    self.outgoing.unlink(&mut sender.queue, slot);
                }
                self.outgoing.remove(slot);
                self.drain_if_done(link);
            }
            _ => self.abort(slot),
        }
        Ok(())
    }

    /// Gives up a delivery that is sent in part; the frame that says so goes out in its turn.
    pub(super) fn abort(&mut self, slot: u32) {
        self.outgoing.renew(slot);
        if let Some(delivery) = self.outgoing.get_mut(slot) {
            delivery.stage = Stage::Aborting;
            delivery.payload = Bytes::new();
            delivery.tail = Bytes::new();
            let link = delivery.link;
            self.make_ready(link);
        }
    }

    /// Answers [`Event::DrainRequested`]: gives the rest of the credit back once what is queued in the engine is sent.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`WrongRole`](RequestError::WrongRole).
    pub fn drained(&mut self, link: LinkKey) -> Result<(), RequestError> {
        let slot = self.link_slot(link)?;
        let link = self.links.get_mut(slot).ok_or(RequestError::Stale)?;
        let End::Sender(sender) = &mut link.end else {
            return Err(RequestError::WrongRole);
        };
        if sender.draining && sender.queue.len == 0 {
            sender.give_back();
            self.link_flow_due(slot);
        } else if sender.draining {
            sender.drain_when_empty = true;
        }
        Ok(())
    }

    pub(super) fn start_sender(&mut self, slot: u32) {
        let Some(Link {
            end: End::Sender(sender),
            ..
        }) = self.links.get(slot)
        else {
            return;
        };
        let (credit, draining) = (sender.credit, sender.draining);
        if credit > 0 {
            self.events.push_back(Event::Credit {
                link: self.link_key(slot),
                credit,
            });
        }
        if draining {
            self.on_drain_request(slot);
        }
        self.make_ready(slot);
    }

    /// A flow from the receiver of what we send.
    pub(super) fn on_credit(&mut self, slot: u32, flow: &Flow) {
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        let attached = link.state == LinkState::Attached;
        let End::Sender(sender) = &mut link.end else {
            return;
        };
        let before = sender.credit;
        sender.on_credit(flow);
        let credit = sender.credit;
        let asked = flow.drain && !sender.draining;
        sender.draining = flow.drain;
        if !flow.drain {
            sender.drain_when_empty = false;
        }
        if !attached {
            // Counts once the application has accepted.
            return;
        }
        if flow.echo {
            self.link_flow_due(slot);
        }
        if credit != before {
            self.events.push_back(Event::Credit {
                link: self.link_key(slot),
                credit,
            });
        }
        if flow.drain && (asked || credit != before) {
            self.on_drain_request(slot);
        }
        self.make_ready(slot);
    }

    fn on_drain_request(&mut self, slot: u32) {
        let link = self.link_key(slot);
        let Some(Link {
            end: End::Sender(sender),
            ..
        }) = self.links.get_mut(slot)
        else {
            return;
        };
        if sender.credit == 0 && !sender.partial {
            // Nothing to use up; the peer waits for an answer all the same.
            self.link_flow_due(slot);
        } else if sender.drain == DrainPolicy::Manual {
            let credit = sender.credit;
            self.events
                .push_back(Event::DrainRequested { link, credit });
        } else {
            sender.drain_when_empty = true;
            self.drain_if_done(slot);
        }
    }

    /// Completes a drain when nothing is left to send or no credit is left to send it with.
    fn drain_if_done(&mut self, slot: u32) {
        let Some(Link {
            end: End::Sender(sender),
            ..
        }) = self.links.get_mut(slot)
        else {
            return;
        };
        if !sender.draining || sender.partial {
            return;
        }
        if sender.credit == 0 || (sender.drain_when_empty && sender.queue.len == 0) {
            sender.give_back();
            sender.drain_when_empty = false;
            self.link_flow_due(slot);
        }
    }

    /// Puts a link among those that can send, if it can.
    fn make_ready(&mut self, slot: u32) {
        if let Some(link) = self.links.get_mut(slot)
            && let (End::Sender(sender), LinkState::Attached, Place::Nowhere) =
                (&link.end, link.state, link.place)
            && sender.can_send()
        {
            link.place = Place::Ready;
            self.ready.push_back(slot);
        }
    }

    /// Writes transfers, link by link in turns, as credit and windows allow.
    pub(super) fn pump(&mut self, out: &mut Transmit) {
        while !out.is_full() {
            let Some(slot) = self.ready.pop_front() else {
                return;
            };
            let Some(link) = self.links.get_mut(slot) else {
                continue;
            };
            if link.place != Place::Ready {
                continue;
            }
            link.place = Place::Nowhere;
            let end = out.len() + TURN_BYTES;
            for _ in 0..TURN_FRAMES {
                if !self.send_frame(slot, out) || out.is_full() || out.len() > end {
                    break;
                }
            }
            self.make_ready(slot);
        }
    }

    /// Writes the next transfer frame of a link. `false`: there is none, or the session's window is closed.
    fn send_frame(&mut self, slot: u32, out: &mut Transmit) -> bool {
        let Some(link) = self.links.get_mut(slot) else {
            return false;
        };
        let End::Sender(sender) = &mut link.end else {
            return false;
        };
        let Some(session) = self.sessions.get_mut(link.session) else {
            return false;
        };
        let delivery_slot = sender.queue.first;
        let Some(delivery) = self.outgoing.get_mut(delivery_slot) else {
            return false;
        };
        if !sender.can_send() {
            return false;
        }
        if !session.windows.is_open() {
            link.place = Place::Blocked;
            session.blocked.push(slot);
            return false;
        }
        let mut transfer = Transfer {
            handle: link.handle,
            batchable: delivery.batchable,
            ..Transfer::default()
        };
        if delivery.stage == Stage::Aborting {
            transfer.aborted = true;
        } else if !sender.partial {
            delivery.id = session.next_delivery_id;
            session.next_delivery_id += 1;
            transfer.delivery_id = Some(serial::truncate(delivery.id));
            transfer.delivery_tag = Some(delivery.tag.take().unwrap_or_else(|| {
                sender.next_tag = sender.next_tag.wrapping_add(1);
                cut_tag(&mut self.tags, sender.next_tag)
            }));
            transfer.message_format = Some(delivery.message_format);
            transfer.settled = Some(delivery.settled);
            transfer.state = delivery.state.take();
            if !delivery.settled {
                session.unsettled_out.push(delivery.id, delivery_slot);
            }
        }
        let mut length = delivery.payload.len() + delivery.tail.len();
        let limit = self.peer_max_frame_size as usize;
        if length + TRANSFER_HEAD > limit || transfer.state.is_some() {
            let room = limit.saturating_sub(transfer_len(&transfer));
            if length > room {
                transfer.more = true;
                length = limit.saturating_sub(transfer_len(&transfer));
            }
        }
        trace::transfer(session.channel, &transfer, length);
        encode_transfer(out.buffer(), session.channel, &transfer, length);
        session.windows.count_outgoing();
        sender.partial = transfer.more;
        for part in [&mut delivery.payload, &mut delivery.tail] {
            let step = length.min(part.len());
            length -= step;
            out.push_payload(part.split_to(step));
        }
        if !transfer.more {
            sender.delivery_count = sender.delivery_count.wrapping_add(1);
            sender.credit = sender.credit.saturating_sub(1);
            self.finish_transfer(slot, delivery_slot);
        }
        true
    }

    /// The last frame of a delivery was written.
    fn finish_transfer(&mut self, slot: u32, delivery_slot: u32) {
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        let End::Sender(sender) = &mut link.end else {
            return;
        };
        self.outgoing.unlink(&mut sender.queue, delivery_slot);
        let drained = sender.draining;
        let Some(delivery) = self.outgoing.get_mut(delivery_slot) else {
            return;
        };
        let aborted = delivery.stage == Stage::Aborting;
        if aborted || delivery.settled {
            let (id, settled, context) = (delivery.id, delivery.settled, delivery.context);
            if !settled && let Some(session) = self.sessions.get_mut(link.session) {
                session.unsettled_out.remove(id);
            }
            if !aborted {
                self.events.push_back(Event::Outcome {
                    link: LinkKey {
                        slot,
                        generation: self.links.generation(slot),
                    },
                    delivery: DeliveryKey {
                        slot: delivery_slot,
                        generation: self.outgoing.generation(delivery_slot),
                        role: Role::Sender,
                    },
                    context,
                    state: None,
                    settled: true,
                });
            }
            self.outgoing.remove(delivery_slot);
        } else {
            delivery.stage = Stage::Unsettled;
            delivery.payload = Bytes::new();
            delivery.tail = Bytes::new();
            let early = delivery.state.take();
            self.outgoing.link(&mut link.unsettled, delivery_slot);
            if early.is_some() {
                self.apply_outcome(delivery_slot, early, false);
            }
        }
        if drained {
            self.drain_if_done(slot);
        }
    }
}

/// A tag of four bytes, cut from a block so that it costs no allocation of its own.
fn cut_tag(block: &mut BytesMut, number: u32) -> Bytes {
    const LENGTH: usize = 4;
    if block.capacity() < LENGTH {
        *block = BytesMut::with_capacity(256 * LENGTH);
    }
    block.put_u32(number);
    block.split().freeze()
}
