use bytestring::ByteString;

use super::arena::NONE;
use super::connection::{Connection, Violation};
use super::handshake::Phase;
use super::link::{Link, LinkState};
use super::session::SessionState;
use super::{DetachMode, Event, LinkError, LinkKey, LinkOptions, RequestError, SessionKey};
use crate::types::{AmqpError, Attach, Performative, Role, condition};

/// # Attaching
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
    pub(super) fn answer_attach(
        &mut self,
        slot: u32,
        options: LinkOptions,
    ) -> Result<(), RequestError> {
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
}

impl Connection {
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
            SessionState::Begun => true,
            // Handle 0 is legal with every peer, so it need not wait for the begin.
            SessionState::BeginSent => link.handle == 0,
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
}
