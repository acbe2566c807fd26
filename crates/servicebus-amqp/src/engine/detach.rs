use super::arena::{Arena, List, NONE};
use super::connection::{Connection, Violation};
use super::disposition::{Outgoing, Stage};
use super::link::{End, LinkState, Place};
use super::session::MAX_ABANDONED;
use super::{DeliveryKey, DetachMode, Event, LinkError, LinkKey, LinkOptions, RequestError};
use crate::types::{AmqpError, Detach, Performative, Role};

/// # Detaching
impl Connection {
    /// Takes a link down. Queued deliveries are dropped ([`Event::Unsent`]), unsettled ones forgotten.
    /// [`Event::LinkDetached`] follows once the peer answered; until then the link makes no other event.
    ///
    /// An attach that was never answered is given up this way too. If the peer answers neither, the event does not
    /// come, unless many more attaches are given up: then the oldest is forgotten, with its event.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`]
    pub fn detach(
        &mut self,
        link: LinkKey,
        mode: DetachMode,
        error: Option<AmqpError>,
    ) -> Result<(), RequestError> {
        let slot = self.link_slot(link)?;
        match self.links.get(slot).map(|link| link.state) {
            Some(LinkState::Waiting) => self.drop_link(slot, Some(LinkError::DetachedLocally)),
            _ => self.send_detach(slot, mode, error, Some(LinkError::DetachedLocally)),
        }
        Ok(())
    }

    /// Sends our detach; what belongs to the link is gone, the link waits for the peer's detach.
    ///
    /// A link that the peer asked for and that has no answer gets its answer, without termini, first: a handle is only
    /// known to the peer by an attach. Where the peer's limits leave no room for one, nothing can be sent.
    pub(super) fn send_detach(
        &mut self,
        slot: u32,
        mode: DetachMode,
        error: Option<AmqpError>,
        event: Option<LinkError>,
    ) {
        let Some((session, state)) = self.links.get(slot).map(|link| (link.session, link.state))
        else {
            return;
        };
        self.flush_dispositions(session);
        self.forget_deliveries(slot);
        let answerable = state != LinkState::Requested
            || self.answer_attach(slot, LinkOptions::default()).is_ok();
        let error = self.fitting(error);
        let (Some(link), Some(session)) =
            (self.links.get_mut(slot), self.sessions.get_mut(session))
        else {
            return;
        };
        link.state = LinkState::Detaching;
        link.ending = event.map(Box::new);
        let detach = Detach {
            handle: link.handle,
            closed: mode == DetachMode::Close,
            error,
        };
        let mut forgotten = None;
        if link.peer_handle == NONE {
            session.abandoned.push_back(slot);
            if session.abandoned.len() > MAX_ABANDONED {
                forgotten = session.abandoned.pop_front();
            }
        }
        let channel = session.channel;
        if answerable {
            self.emit(channel, &Performative::Detach(detach));
        }
        if let Some(slot) = forgotten {
            let event = self.links.get_mut(slot).and_then(|link| link.ending.take());
            self.drop_link(slot, event.map(|event| *event));
        }
    }

    /// Detaches a link because of the peer.
    pub(super) fn link_error(&mut self, slot: u32, error: AmqpError) {
        let event = LinkError::Protocol(Box::new(error.clone()));
        self.detach_with_event(slot, error, event);
    }

    /// Sends a detach and makes the event at once.
    pub(super) fn detach_with_event(&mut self, slot: u32, error: AmqpError, event: LinkError) {
        let link = self.link_key(slot);
        self.send_detach(slot, DetachMode::Close, Some(error), None);
        self.links.renew(slot);
        self.events
            .push_back(Event::LinkDetached { link, error: event });
    }

    pub(super) fn on_detach(&mut self, channel: u16, detach: Detach) -> Result<(), Violation> {
        // Some clients end the session first and then detach its links: that changes nothing any more.
        if !self.has_peer_session(channel) {
            return Ok(());
        }
        let Some(session) = self.living_session(channel)? else {
            return Ok(());
        };
        let slot = self.peer_link(session, detach.handle)?;
        let by_peer = LinkError::DetachedByPeer {
            closed: detach.closed,
            error: detach.error,
        };
        let Some(link) = self.links.get_mut(slot) else {
            return Ok(());
        };
        let event = if link.state == LinkState::Detaching {
            let own = link.ending.take().map(|event| *event);
            match by_peer {
                LinkError::DetachedByPeer { error: Some(_), .. } if own.is_some() => Some(by_peer),
                _ => own,
            }
        } else {
            let mode = if detach.closed {
                DetachMode::Close
            } else {
                DetachMode::Detach
            };
            self.send_detach(slot, mode, None, None);
            Some(by_peer)
        };
        self.drop_link(slot, event);
        Ok(())
    }

    /// Removes a link and all that belongs to it, with an event or without.
    pub(super) fn drop_link(&mut self, slot: u32, event: Option<LinkError>) {
        let link = self.link_key(slot);
        self.remove_link(slot);
        if let Some(error) = event {
            self.events.push_back(Event::LinkDetached { link, error });
        }
    }

    /// Removes a link and all that belongs to it.
    pub(super) fn remove_link(&mut self, slot: u32) {
        self.forget_deliveries(slot);
        let Some(link) = self.links.get(slot) else {
            return;
        };
        let name = (link.name.clone(), link.role());
        if self.names.get(&name) == Some(&slot) {
            self.names.remove(&name);
        }
        if let Some(session) = self.sessions.get_mut(link.session) {
            session.handles.release(link.handle);
            if link.peer_handle == NONE {
                session.abandoned.retain(|other| *other != slot);
            } else {
                session.peer_handles.remove(link.peer_handle);
            }
            self.links.unlink(&mut session.links, slot);
        }
        self.links.remove(slot);
    }

    /// Drops what is queued, received in part, or unsettled on a link.
    fn forget_deliveries(&mut self, slot: u32) {
        let key = self.link_key(slot);
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        let session = self.sessions.get_mut(link.session);
        match &mut link.end {
            End::Sender(sender) => {
                let (mut ids, lists) = (session, [sender.queue, link.unsettled]);
                for mut list in lists {
                    while let Some(delivery) = self.outgoing.get(list.first) {
                        if let Some(session) = ids.as_mut().filter(|_| delivery.id != 0) {
                            session.unsettled_out.remove(delivery.id);
                        }
                        let first = list.first;
                        if let Some(unsent) = unsent(&self.outgoing, first, key) {
                            self.events.push_back(unsent);
                        }
                        self.outgoing.unlink(&mut list, first);
                        self.outgoing.remove(first);
                    }
                }
                if link.place == Place::Blocked
                    && let Some(session) = ids
                {
                    session.blocked.retain(|other| *other != slot);
                }
                sender.queue = List::EMPTY;
            }
            End::Receiver(receiver) => {
                let (mut ids, mut list) = (session, link.unsettled);
                while let Some(delivery) = self.incoming.get(list.first) {
                    if let Some(session) = ids.as_mut() {
                        session.unsettled_in.remove(delivery.id);
                    }
                    let first = list.first;
                    self.incoming.unlink(&mut list, first);
                    self.incoming.remove(first);
                }
                if let Some(partial) = receiver.partial.take() {
                    self.partial_bytes -= partial.payload.len();
                }
            }
        }
        link.unsettled = List::EMPTY;
        link.place = Place::Nowhere;
    }

    /// Makes an event for each delivery of the connection that was not transferred.
    pub(super) fn report_all_unsent(&mut self) {
        for slot in self.outgoing.slots() {
            let Some(delivery) = self.outgoing.get(slot) else {
                continue;
            };
            let link = self.link_key(delivery.link);
            if let Some(unsent) = unsent(&self.outgoing, slot, link) {
                self.events.push_back(unsent);
            }
        }
    }
}

/// The event of a delivery that waits for its transfer, or is transferred in part, when its link ends.
fn unsent(outgoing: &Arena<Outgoing>, slot: u32, link: LinkKey) -> Option<Event> {
    let delivery = outgoing
        .get(slot)
        .filter(|delivery| delivery.stage == Stage::Queued)?;
    Some(Event::Unsent {
        link,
        delivery: DeliveryKey {
            slot,
            generation: outgoing.generation(slot),
            role: Role::Sender,
        },
        context: delivery.context,
    })
}
