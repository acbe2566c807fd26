use bytestring::ByteString;

use super::arena::{Arena, List, NONE};
use super::connection::{Connection, Violation};
use super::disposition::{Outgoing, Stage};
use super::handshake::Phase;
use super::receiver::Receiver;
use super::sender::Sender;
use super::session::MAX_ABANDONED;
use super::{
    DeliveryKey, DetachMode, Event, LinkError, LinkKey, LinkOptions, LinkStatus, RequestError,
    SessionKey,
};
use crate::types::{AmqpError, Attach, Detach, Flow, Performative, Role, condition};

/// One end of a link: what both roles share.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) session: u32,
    pub(super) name: ByteString,
    pub(super) state: LinkState,
    /// Ours; [`NONE`] until we attach.
    pub(super) handle: u32,
    /// The peer's; [`NONE`] until it attaches.
    pub(super) peer_handle: u32,
    pub(super) place: Place,
    /// Whether the link is in the connection's list of flows that are due.
    pub(super) flow_due: bool,
    /// Transferred and not settled.
    pub(super) unsettled: List,
    /// 0 for no limit.
    pub(super) peer_max_message_size: u64,
    /// Our attach while it waits to be sent.
    attach: Option<Box<Attach>>,
    /// For the event when the peer's detach arrives, if one is still to be made.
    ending: Option<Box<LinkError>>,
    pub(super) end: End,
}

/// What the roles do not share.
#[derive(Debug)]
pub(super) enum End {
    Sender(Sender),
    Receiver(Receiver),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    /// The peer attached; the application owes an answer.
    Requested,
    /// Our attach waits for the peer's limits.
    Waiting,
    /// Our attach was sent.
    AttachSent,
    /// The peer answered without its terminus: its detach must follow.
    Refused,
    Attached,
    /// Our detach was sent.
    Detaching,
}

/// Where a sending link waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Nowhere,
    /// In the connection's list of links that can send.
    Ready,
    /// In the session's list of links that wait for its window.
    Blocked,
}

impl Link {
    fn new(session: u32, name: ByteString, role: Role, state: LinkState) -> Self {
        Self {
            session,
            name,
            state,
            handle: NONE,
            peer_handle: NONE,
            place: Place::Nowhere,
            flow_due: false,
            unsettled: List::EMPTY,
            peer_max_message_size: 0,
            attach: None,
            ending: None,
            end: match role {
                Role::Sender => End::Sender(Sender::default()),
                Role::Receiver => End::Receiver(Receiver::default()),
            },
        }
    }

    pub(super) fn role(&self) -> Role {
        match self.end {
            End::Sender(_) => Role::Sender,
            End::Receiver(_) => Role::Receiver,
        }
    }

    fn attach(&self, options: LinkOptions) -> Box<Attach> {
        Box::new(Attach {
            name: self.name.clone(),
            handle: self.handle,
            role: self.role(),
            snd_settle_mode: options.snd_settle_mode,
            rcv_settle_mode: options.rcv_settle_mode,
            source: options.source,
            target: options.target,
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: match self.role() {
                Role::Sender => Some(options.initial_delivery_count),
                Role::Receiver => None,
            },
            max_message_size: options.max_message_size,
            offered_capabilities: options.offered_capabilities,
            desired_capabilities: options.desired_capabilities,
            properties: options.properties,
        })
    }

    fn apply(&mut self, options: &LinkOptions) {
        match &mut self.end {
            End::Sender(sender) => sender.apply(options),
            End::Receiver(receiver) => receiver.apply(options),
        }
    }

    fn on_peer_attach(&mut self, attach: &Attach) {
        self.peer_handle = attach.handle;
        self.peer_max_message_size = attach.max_message_size.unwrap_or(0);
        if let End::Receiver(receiver) = &mut self.end {
            receiver.start(attach.initial_delivery_count.unwrap_or(0));
        }
    }
}

/// # Links
impl Connection {
    /// Attaches a link. [`Event::Attached`] or [`Event::LinkDetached`] follows; messages can be sent and credit can be given
    /// before.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`HandleMax`](RequestError::HandleMax), [`NameInUse`](RequestError::NameInUse),
    /// [`FrameTooLarge`](RequestError::FrameTooLarge).
    pub fn attach(
        &mut self,
        session: SessionKey,
        name: ByteString,
        role: Role,
        options: LinkOptions,
    ) -> Result<LinkKey, RequestError> {
        let session = self.session_slot(session)?;
        if let Some(other) = self.names.get(&(name.clone(), role)) {
            // One that only waits for the peer's detach has given its name back.
            let gone = self
                .links
                .get(*other)
                .is_none_or(|link| link.state == LinkState::Detaching && link.peer_handle != NONE);
            if !gone {
                return Err(RequestError::NameInUse);
            }
        }
        let mut link = Link::new(session, name, role, LinkState::Waiting);
        link.apply(&options);
        let (slot, generation) = self.links.insert(link);
        let handle = match self.allocate_handle(session, slot) {
            Ok(handle) => handle,
            Err(error) => {
                self.links.remove(slot);
                return Err(error);
            }
        };
        if let Some(link) = self.links.get_mut(slot) {
            link.handle = handle;
            link.attach = Some(link.attach(options));
        }
        self.enlist(slot);
        if let Err(error) = self.send_attach(slot) {
            self.remove_link(slot);
            return Err(error);
        }
        Ok(LinkKey { slot, generation })
    }

    fn allocate_handle(&mut self, session: u32, slot: u32) -> Result<u32, RequestError> {
        let session = self.sessions.get_mut(session).ok_or(RequestError::Stale)?;
        let handle_max = if session.is_begun() {
            session.peer_handle_max
        } else {
            u32::MAX
        };
        session
            .handles
            .allocate(handle_max, slot)
            .ok_or(RequestError::HandleMax { handle_max })
    }

    /// Enters a link under its name and in its session.
    fn enlist(&mut self, slot: u32) {
        let Some(link) = self.links.get(slot) else {
            return;
        };
        self.names.insert((link.name.clone(), link.role()), slot);
        if let Some(session) = self.sessions.get_mut(link.session) {
            self.links.link(&mut session.links, slot);
        }
    }

    /// Sends our attach if it waits and the peer is known to take its handle.
    fn send_attach(&mut self, slot: u32) -> Result<(), RequestError> {
        let open = self.phase == Phase::Open;
        let Some(link) = self.links.get_mut(slot) else {
            return Ok(());
        };
        let Some(session) = self.sessions.get(link.session) else {
            return Ok(());
        };
        let sendable = match session.state {
            super::session::SessionState::Begun => true,
            // Handle 0 is legal with every peer, so it need not wait for the begin.
            super::session::SessionState::BeginSent => link.handle == 0,
            _ => false,
        };
        if link.state != LinkState::Waiting || !sendable {
            return Ok(());
        }
        let Some(attach) = link.attach.take() else {
            return Ok(());
        };
        let channel = session.channel;
        link.state = LinkState::AttachSent;
        let performative = Performative::Attach(attach);
        let result = self.emit_within_limit(channel, &performative);
        if result.is_err() && !open {
            // 512 bytes are the limit only until the peer's open is there.
            if let (Some(link), Performative::Attach(attach)) =
                (self.links.get_mut(slot), performative)
            {
                link.attach = Some(attach);
                link.state = LinkState::Waiting;
            }
            return Ok(());
        }
        result
    }

    /// Sends the attaches of a session that had to wait.
    pub(super) fn attach_waiting(&mut self, session: u32) {
        let Some(state) = self.sessions.get(session) else {
            return;
        };
        let handle_max = if state.is_begun() {
            state.peer_handle_max
        } else {
            u32::MAX
        };
        let slots: Vec<u32> = state.handles.iter().collect();
        for slot in slots {
            let over = self
                .links
                .get(slot)
                .is_some_and(|link| link.state == LinkState::Waiting && link.handle > handle_max);
            let error = if over {
                LinkError::HandleMax { handle_max }
            } else {
                match self.send_attach(slot) {
                    Err(RequestError::FrameTooLarge { max_frame_size }) => {
                        LinkError::FrameTooLarge { max_frame_size }
                    }
                    _ => continue,
                }
            };
            self.drop_link(slot, Some(error));
        }
    }

    /// Accepts a link that the peer asked for; it is usable at once. Its role here is the opposite of the peer's.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`WrongState`](RequestError::WrongState) when it is accepted already,
    /// [`HandleMax`](RequestError::HandleMax), [`FrameTooLarge`](RequestError::FrameTooLarge).
    pub fn accept_attach(
        &mut self,
        link: LinkKey,
        options: LinkOptions,
    ) -> Result<(), RequestError> {
        let slot = self.requested_link(link)?;
        self.answer_attach(slot, options)?;
        if let Some(link) = self.links.get_mut(slot) {
            link.state = LinkState::Attached;
        }
        self.start_link(slot);
        Ok(())
    }

    /// Sends the attach that answers the peer's.
    fn answer_attach(&mut self, slot: u32, options: LinkOptions) -> Result<(), RequestError> {
        let answered = self.out.len();
        let link = self.links.get(slot).ok_or(RequestError::Stale)?;
        let session = link.session;
        let handle = self.allocate_handle(session, slot)?;
        let channel = self
            .sessions
            .get(session)
            .map_or(0, |session| session.channel);
        let link = self.links.get_mut(slot).ok_or(RequestError::Stale)?;
        link.handle = handle;
        link.apply(&options);
        let attach = link.attach(options);
        if let Err(error) = self.emit_within_limit(channel, &Performative::Attach(attach)) {
            if let Some(session) = self.sessions.get_mut(session) {
                session.handles.release(handle);
            }
            if let Some(link) = self.links.get_mut(slot) {
                link.handle = NONE;
            }
            return Err(error);
        }
        self.count_answer(answered);
        Ok(())
    }

    fn requested_link(&self, link: LinkKey) -> Result<u32, RequestError> {
        let slot = self.link_slot(link)?;
        match self.links.get(slot) {
            Some(link) if link.state == LinkState::Requested => Ok(slot),
            _ => Err(RequestError::WrongState),
        }
    }

    /// Refuses a link that the peer asked for: an attach without the terminus that would be ours, then a detach with the
    /// error (AMQP 1.0 §2.6.3). The key is stale at once; no event follows.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`WrongState`](RequestError::WrongState) when it is accepted already.
    pub fn refuse_attach(&mut self, link: LinkKey, error: AmqpError) -> Result<(), RequestError> {
        let slot = self.requested_link(link)?;
        let answered = self.out.len();
        self.send_detach(slot, DetachMode::Close, Some(error), None);
        self.links.renew(slot);
        self.count_answer(answered);
        Ok(())
    }

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
    fn send_detach(
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
    fn detach_with_event(&mut self, slot: u32, error: AmqpError, event: LinkError) {
        let link = self.link_key(slot);
        self.send_detach(slot, DetachMode::Close, Some(error), None);
        self.links.renew(slot);
        self.events
            .push_back(Event::LinkDetached { link, error: event });
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

    /// Removes a link and all that belongs to it, with an event or without.
    fn drop_link(&mut self, slot: u32, event: Option<LinkError>) {
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

    /// The slot of a link that is not being detached.
    pub(super) fn link_slot(&self, link: LinkKey) -> Result<u32, RequestError> {
        let LinkKey { slot, generation } = link;
        match self.links.get(slot) {
            Some(link)
                if self.links.is_current(slot, generation)
                    && link.state != LinkState::Detaching =>
            {
                Ok(slot)
            }
            _ => Err(RequestError::Stale),
        }
    }

    /// A look at a link.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`]
    pub fn link(&self, link: LinkKey) -> Result<LinkStatus, RequestError> {
        let slot = self.link_slot(link)?;
        let link = self.links.get(slot).ok_or(RequestError::Stale)?;
        let (credit, queued, delivery_count) = match &link.end {
            End::Sender(sender) => (sender.credit, sender.queue.len, sender.delivery_count),
            End::Receiver(receiver) => (receiver.credit(), 0, receiver.delivery_count()),
        };
        Ok(LinkStatus {
            role: link.role(),
            session: self.session_key(link.session),
            credit,
            queued: queued as usize,
            unsettled: link.unsettled.len as usize,
            delivery_count,
            peer_max_message_size: Some(link.peer_max_message_size).filter(|size| *size != 0),
        })
    }

    pub(super) fn on_attach(&mut self, channel: u16, attach: Box<Attach>) -> Result<(), Violation> {
        let Some(slot) = self.living_session(channel)? else {
            return Ok(());
        };
        let Some(session) = self.sessions.get(slot) else {
            return Ok(());
        };
        if attach.handle > session.handle_max {
            return Err(Violation::Connection(AmqpError::new(
                condition::FRAMING_ERROR,
                format!("handle {} is above the handle-max", attach.handle),
            )));
        }
        if session.peer_handles.slot(attach.handle).is_some() {
            return Err(Violation::Session(
                slot,
                AmqpError::new(
                    condition::HANDLE_IN_USE,
                    format!("handle {} is attached", attach.handle),
                ),
            ));
        }
        let name = (attach.name.clone(), attach.role.opposite());
        if let Some(other) = self.names.get(&name).copied() {
            let link = self
                .links
                .get(other)
                .map(|link| (link.session, link.state, link.peer_handle));
            match link {
                Some((session, LinkState::AttachSent, _)) if session == slot => {
                    self.on_attach_answer(other, attach);
                    return Ok(());
                }
                Some((session, LinkState::Detaching, NONE)) if session == slot => {
                    self.on_late_attach(other, &attach);
                    return Ok(());
                }
                // Only waits for the peer's detach: the name is free.
                Some((_, LinkState::Detaching, _)) | None => {}
                Some((_, LinkState::Waiting, _)) => self.drop_link(other, Some(LinkError::Stolen)),
                Some(_) => self.detach_with_event(
                    other,
                    AmqpError::new(condition::STOLEN, "the link was attached again"),
                    LinkError::Stolen,
                ),
            }
        }
        self.on_attach_request(slot, attach)
    }

    fn on_attach_answer(&mut self, slot: u32, attach: Box<Attach>) {
        self.map_peer_handle(slot, &attach);
        let refused = match attach.role {
            Role::Sender => attach.source.is_none(),
            Role::Receiver => attach.target.is_none(),
        };
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        link.state = if refused {
            LinkState::Refused
        } else {
            LinkState::Attached
        };
        if !refused {
            self.events.push_back(Event::Attached {
                link: self.link_key(slot),
                attach,
            });
            self.start_link(slot);
        }
    }

    /// The peer's attach for a link that we detached before it came: its detach follows.
    fn on_late_attach(&mut self, slot: u32, attach: &Attach) {
        if let Some(link) = self.links.get(slot)
            && let Some(session) = self.sessions.get_mut(link.session)
        {
            session.abandoned.retain(|other| *other != slot);
        }
        self.map_peer_handle(slot, attach);
    }

    fn map_peer_handle(&mut self, slot: u32, attach: &Attach) {
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        link.on_peer_attach(attach);
        if let Some(session) = self.sessions.get_mut(link.session) {
            session.peer_handles.insert(attach.handle, slot);
        }
    }

    fn on_attach_request(&mut self, session: u32, attach: Box<Attach>) -> Result<(), Violation> {
        if self.links.len() >= self.config.limits.links {
            return Err(Violation::Session(
                session,
                AmqpError::new(condition::RESOURCE_LIMIT_EXCEEDED, "too many links"),
            ));
        }
        // A copy: the name must not keep the input buffer alive as long as the link.
        let name = ByteString::from(&*attach.name);
        let link = Link::new(session, name, attach.role.opposite(), LinkState::Requested);
        let (slot, generation) = self.links.insert(link);
        self.enlist(slot);
        self.map_peer_handle(slot, &attach);
        self.events.push_back(Event::AttachRequested {
            session: self.session_key(session),
            link: LinkKey { slot, generation },
            attach,
        });
        Ok(())
    }

    /// Both ends are attached: what was given before takes effect.
    fn start_link(&mut self, slot: u32) {
        match self.links.get(slot).map(Link::role) {
            Some(Role::Sender) => self.start_sender(slot),
            Some(Role::Receiver) => self.start_receiver(slot),
            None => {}
        }
    }

    /// The link of a handle of the peer.
    pub(super) fn peer_link(&self, session: u32, handle: u32) -> Result<u32, Violation> {
        self.sessions
            .get(session)
            .and_then(|session| session.peer_handles.slot(handle))
            .ok_or_else(|| {
                Violation::Session(
                    session,
                    AmqpError::new(
                        condition::UNATTACHED_HANDLE,
                        format!("handle {handle} is not attached"),
                    ),
                )
            })
    }

    pub(super) fn on_detach(&mut self, channel: u16, detach: Detach) -> Result<(), Violation> {
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

    /// The link part of a flow.
    pub(super) fn on_link_flow(
        &mut self,
        session: u32,
        handle: u32,
        flow: &Flow,
    ) -> Result<(), Violation> {
        let slot = self.peer_link(session, handle)?;
        match self.links.get(slot) {
            Some(link) if link.state == LinkState::Detaching => {}
            Some(Link {
                end: End::Sender(_),
                ..
            }) => self.on_credit(slot, flow),
            Some(_) => self.on_sender_flow(slot, flow),
            None => {}
        }
        Ok(())
    }

    /// Puts a link among those whose flow is due.
    pub(super) fn link_flow_due(&mut self, slot: u32) {
        if let Some(link) = self.links.get_mut(slot)
            && !link.flow_due
        {
            link.flow_due = true;
            self.flows.push_back(slot);
        }
    }

    /// Writes the link flows that are due.
    pub(super) fn transmit_link_flows(&mut self, out: &mut super::Transmit) {
        while !out.is_full() {
            let Some(slot) = self.flows.pop_front() else {
                return;
            };
            let Some(link) = self.links.get_mut(slot) else {
                continue;
            };
            if !std::mem::take(&mut link.flow_due) || link.state != LinkState::Attached {
                continue;
            }
            let Some(session) = self.sessions.get_mut(link.session) else {
                continue;
            };
            let mut flow = session.flow();
            flow.handle = Some(link.handle);
            match &mut link.end {
                End::Sender(sender) => sender.fill_flow(&mut flow),
                End::Receiver(receiver) => receiver.fill_flow(&mut flow),
            }
            super::trace::encode(out.buffer(), session.channel, &Performative::Flow(flow));
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
