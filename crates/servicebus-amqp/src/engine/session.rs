use std::collections::VecDeque;

use super::arena::{List, NONE};
use super::connection::{Connection, Violation};
use super::disposition::Pending;
use super::handshake::Phase;
use super::id_ring::IdRing;
use super::link::Place;
use super::serial;
use super::table::{OwnNumbers, PeerNumbers};
use super::windows::{OUTGOING_WINDOW, Windows};
use super::{Event, RequestError, SessionError, SessionKey, SessionOptions, Transmit};
use crate::types::{AmqpError, Begin, End, Performative, condition};

/// Attaches that were given up before the peer answered, per session; an older one is forgotten, so that a peer which never
/// answers costs a bounded number of handles.
pub(super) const MAX_ABANDONED: usize = 16;

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) state: SessionState,
    /// Our channel.
    pub(super) channel: u16,
    pub(super) peer_channel: Option<u16>,

    pub(super) windows: Windows,
    /// The id of our next delivery.
    pub(super) next_delivery_id: u64,
    /// One more than the highest delivery-id that the peer used; `None` before its first. Ids are read as near to it.
    pub(super) peer_delivery_id: Option<u64>,

    /// The highest handle that we take.
    pub(super) handle_max: u32,
    /// The highest handle that the peer takes; 0 until its begin is there.
    pub(super) peer_handle_max: u32,
    pub(super) handles: OwnNumbers,
    pub(super) peer_handles: PeerNumbers,
    pub(super) links: List,
    /// Links that were detached before the peer answered their attach, the oldest first.
    pub(super) abandoned: VecDeque<u32>,

    pub(super) unsettled_out: IdRing,
    pub(super) unsettled_in: IdRing,
    pub(super) dispositions: VecDeque<Pending>,
    /// Links that would send if the peer's window were open.
    pub(super) blocked: Vec<u32>,
    /// Whether the session is in the connection's list of those with something due.
    pub(super) dirty: bool,
}

#[derive(Debug)]
pub(super) enum SessionState {
    /// Our begin waits for the peer's limits.
    Waiting(Box<Begin>),
    /// Our begin was sent.
    BeginSent,
    Begun,
    /// Our end was sent. The error is for the event when the peer's end arrives, if one is still to be made.
    Ending(Option<Box<SessionError>>),
}

impl Session {
    fn new(state: SessionState, options: &SessionOptions, ids: super::InitialIds) -> Self {
        Self {
            state,
            channel: 0,
            peer_channel: None,
            windows: Windows::new(options.incoming_window, ids.next_outgoing_id),
            next_delivery_id: serial::start(ids.delivery_id),
            peer_delivery_id: None,
            // The highest number stands for no handle.
            handle_max: options.handle_max.min(NONE - 1),
            peer_handle_max: 0,
            handles: OwnNumbers::default(),
            peer_handles: PeerNumbers::default(),
            links: List::EMPTY,
            abandoned: VecDeque::new(),
            unsettled_out: IdRing::new(),
            unsettled_in: IdRing::new(),
            dispositions: VecDeque::new(),
            blocked: Vec::new(),
            dirty: false,
        }
    }

    /// Gives unused memory back.
    pub(super) fn shrink(&mut self) {
        self.unsettled_out.shrink();
        self.unsettled_in.shrink();
        self.dispositions.shrink_to_fit();
        self.blocked.shrink_to_fit();
    }

    fn is_ending(&self) -> bool {
        matches!(self.state, SessionState::Ending(_))
    }

    pub(super) fn is_begun(&self) -> bool {
        matches!(self.state, SessionState::Begun)
    }

    fn begin(&self, remote_channel: Option<u16>, options: SessionOptions) -> Box<Begin> {
        Box::new(Begin {
            remote_channel,
            next_outgoing_id: self.windows.next_outgoing_id(),
            incoming_window: self.windows.size(),
            outgoing_window: OUTGOING_WINDOW,
            handle_max: self.handle_max,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: options.properties,
        })
    }

    fn on_peer_begin(&mut self, peer_channel: u16, begin: &Begin) {
        self.peer_channel = Some(peer_channel);
        self.peer_handle_max = begin.handle_max;
        self.windows.on_peer_begin(begin);
    }
}

/// # Sessions
impl Connection {
    /// Begins a session. [`Event::SessionBegun`] or [`Event::SessionEnded`] follows; links can be attached before.
    ///
    /// # Errors
    ///
    /// [`RequestError::ChannelMax`]; [`FrameTooLarge`](RequestError::FrameTooLarge);
    /// [`Stale`](RequestError::Stale) when the connection is closing or closed. Before the peer's open is there its limits
    /// are not known: what they refuse then is a [`Event::SessionEnded`].
    pub fn begin(&mut self, options: SessionOptions) -> Result<SessionKey, RequestError> {
        if matches!(self.phase, Phase::Closing | Phase::Closed) {
            return Err(RequestError::Stale);
        }
        let mut session = Session::new(SessionState::BeginSent, &options, self.config.initial_ids);
        session.state = SessionState::Waiting(session.begin(None, options));
        let (slot, generation) = self.sessions.insert(session);
        let max = self.peer_channel_max;
        let Some(channel) = self.allocate_channel(slot) else {
            self.sessions.remove(slot);
            return Err(RequestError::ChannelMax { channel_max: max });
        };
        if let Some(session) = self.sessions.get_mut(slot) {
            session.channel = channel;
        }
        if let Err(error) = self.send_begin(slot) {
            self.channels.release(channel.into());
            self.sessions.remove(slot);
            return Err(error);
        }
        Ok(SessionKey { slot, generation })
    }

    fn allocate_channel(&mut self, slot: u32) -> Option<u16> {
        let max = self.peer_channel_max.into();
        let channel = self.channels.allocate(max, slot)?;
        u16::try_from(channel).ok()
    }

    /// Sends our begin if it waits and the peer is known to take its channel.
    fn send_begin(&mut self, slot: u32) -> Result<(), RequestError> {
        let open = self.phase == Phase::Open;
        let Some(session) = self.sessions.get_mut(slot) else {
            return Ok(());
        };
        let channel = session.channel;
        // Channel 0 is legal with every peer, so it need not wait for the open.
        if !self.open_sent || !(open || channel == 0) {
            return Ok(());
        }
        let state = std::mem::replace(&mut session.state, SessionState::BeginSent);
        let SessionState::Waiting(begin) = state else {
            session.state = state;
            return Ok(());
        };
        let performative = Performative::Begin(begin);
        let result = self.emit_within_limit(channel, &performative);
        if result.is_err() && !open {
            // 512 bytes are the limit only until the peer's open is there.
            if let (Some(session), Performative::Begin(begin)) =
                (self.sessions.get_mut(slot), performative)
            {
                session.state = SessionState::Waiting(begin);
            }
            return Ok(());
        }
        result
    }

    /// Sends the begins, and the attaches, that had to wait.
    pub(super) fn begin_waiting(&mut self) {
        let slots: Vec<u32> = self.sessions.slots().collect();
        for slot in slots {
            let Some(session) = self.sessions.get(slot) else {
                continue;
            };
            let channel_max = self.peer_channel_max;
            if self.phase == Phase::Open && session.channel > channel_max {
                self.drop_session(slot, Some(SessionError::ChannelMax { channel_max }));
            } else if let Err(error) = self.send_begin(slot) {
                self.drop_session(slot, Some(SessionError::Refused(error)));
            } else {
                self.attach_waiting(slot);
            }
        }
    }

    pub(super) fn session_slot(&self, session: SessionKey) -> Result<u32, RequestError> {
        let SessionKey { slot, generation } = session;
        match self.sessions.get(slot) {
            Some(session) if self.sessions.is_current(slot, generation) && !session.is_ending() => {
                Ok(slot)
            }
            _ => Err(RequestError::Stale),
        }
    }

    pub(super) fn session_key(&self, slot: u32) -> SessionKey {
        SessionKey {
            slot,
            generation: self.sessions.generation(slot),
        }
    }

    /// Ends a session and all its links. [`Event::SessionEnded`] follows once the peer answered.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`]
    pub fn end(
        &mut self,
        session: SessionKey,
        error: Option<AmqpError>,
    ) -> Result<(), RequestError> {
        let slot = self.session_slot(session)?;
        match self.sessions.get(slot).map(|session| &session.state) {
            Some(SessionState::Waiting(_)) => {
                self.drop_session(slot, Some(SessionError::EndedLocally));
            }
            _ => self.send_end(slot, error, Some(SessionError::EndedLocally)),
        }
        Ok(())
    }

    /// Sends our end; what belongs to the session is gone, the session waits for the peer's end.
    fn send_end(&mut self, slot: u32, error: Option<AmqpError>, event: Option<SessionError>) {
        self.flush_dispositions(slot);
        self.forget_links(slot);
        let error = self.fitting(error);
        let Some(session) = self.sessions.get_mut(slot) else {
            return;
        };
        session.state = SessionState::Ending(event.map(Box::new));
        let channel = session.channel;
        self.emit(channel, &Performative::End(End { error }));
    }

    /// Ends a session because of the peer.
    pub(super) fn session_error(&mut self, slot: u32, error: AmqpError) {
        let key = self.session_key(slot);
        self.send_end(slot, Some(error.clone()), None);
        self.sessions.renew(slot);
        self.events.push_back(Event::SessionEnded {
            session: key,
            error: SessionError::Protocol(Box::new(error)),
        });
    }

    /// Removes a session and all that belongs to it.
    fn drop_session(&mut self, slot: u32, event: Option<SessionError>) {
        let key = self.session_key(slot);
        self.forget_links(slot);
        if let Some(session) = self.sessions.remove(slot) {
            self.channels.release(session.channel.into());
            if let Some(channel) = session.peer_channel {
                self.peer_channels.remove(channel.into());
            }
        }
        if let Some(error) = event {
            self.events.push_back(Event::SessionEnded {
                session: key,
                error,
            });
        }
    }

    /// Removes the links of a session without events.
    fn forget_links(&mut self, slot: u32) {
        let Some(session) = self.sessions.get_mut(slot) else {
            return;
        };
        session.blocked.clear();
        session.dispositions.clear();
        while let Some(first) = self
            .sessions
            .get(slot)
            .map(|session| session.links.first)
            .filter(|first| self.links.get(*first).is_some())
        {
            if let Some(link) = self.links.get_mut(first) {
                link.place = Place::Nowhere;
            }
            self.remove_link(first);
        }
    }

    /// Whether a channel of the peer has a session.
    pub(super) fn has_peer_session(&self, channel: u16) -> bool {
        self.peer_channels.slot(channel.into()).is_some()
    }

    /// The session of a channel of the peer.
    fn peer_session(&self, channel: u16) -> Result<u32, Violation> {
        self.peer_channels.slot(channel.into()).ok_or_else(|| {
            Violation::Connection(AmqpError::new(
                condition::NOT_ALLOWED,
                format!("no session was begun on channel {channel}"),
            ))
        })
    }

    /// The session of a channel of the peer; `None` while it ends and its frames are of no interest.
    pub(super) fn living_session(&self, channel: u16) -> Result<Option<u32>, Violation> {
        let slot = self.peer_session(channel)?;
        let living = self.sessions.get(slot).is_some_and(Session::is_begun);
        Ok(living.then_some(slot))
    }

    pub(super) fn on_begin(&mut self, channel: u16, begin: Box<Begin>) -> Result<(), Violation> {
        let violation =
            |condition, text: String| Err(Violation::Connection(AmqpError::new(condition, text)));
        if channel > self.config.channel_max {
            return violation(
                condition::FRAMING_ERROR,
                format!("channel {channel} is above the channel-max"),
            );
        }
        if self.peer_channels.slot(channel.into()).is_some() {
            return violation(
                condition::NOT_ALLOWED,
                format!("a session was begun on channel {channel} already"),
            );
        }
        if let Some(own) = begin.remote_channel {
            let asked = self.channels.slot(own.into()).filter(|slot| {
                self.sessions.get(*slot).is_some_and(|session| {
                    session.peer_channel.is_none()
                        && !matches!(session.state, SessionState::Waiting(_))
                })
            });
            let Some(slot) = asked else {
                return violation(
                    condition::NOT_ALLOWED,
                    format!("a begin for channel {own}, where none was asked for"),
                );
            };
            self.on_begin_answer(slot, channel, begin);
            return Ok(());
        }
        self.on_begin_request(channel, begin)
    }

    fn on_begin_answer(&mut self, slot: u32, channel: u16, begin: Box<Begin>) {
        self.peer_channels.insert(channel.into(), slot);
        let key = self.session_key(slot);
        let Some(session) = self.sessions.get_mut(slot) else {
            return;
        };
        session.on_peer_begin(channel, &begin);
        if session.is_ending() {
            return;
        }
        session.state = SessionState::Begun;
        self.events.push_back(Event::SessionBegun {
            session: key,
            begin,
        });
        self.attach_waiting(slot);
    }

    fn on_begin_request(&mut self, channel: u16, begin: Box<Begin>) -> Result<(), Violation> {
        let options = self.config.accepted_sessions.clone();
        let mut session = Session::new(SessionState::Begun, &options, self.config.initial_ids);
        session.on_peer_begin(channel, &begin);
        let answer = session.begin(Some(channel), options);
        let (slot, generation) = self.sessions.insert(session);
        let Some(own) = self.allocate_channel(slot) else {
            self.sessions.remove(slot);
            return Err(Violation::Connection(AmqpError::new(
                condition::RESOURCE_LIMIT_EXCEEDED,
                "no channel is left to answer a begin",
            )));
        };
        if let Some(session) = self.sessions.get_mut(slot) {
            session.channel = own;
        }
        self.peer_channels.insert(channel.into(), slot);
        self.emit(own, &Performative::Begin(answer));
        self.events.push_back(Event::SessionRequested {
            session: SessionKey { slot, generation },
            begin,
        });
        Ok(())
    }

    pub(super) fn on_end(&mut self, channel: u16, end: End) -> Result<(), Violation> {
        let slot = self.peer_session(channel)?;
        let Some(session) = self.sessions.get_mut(slot) else {
            return Ok(());
        };
        let own = session.channel;
        let event = match &mut session.state {
            SessionState::Ending(event) => event.take().map(|event| *event).map(|event| match end
                .error
            {
                Some(error) => SessionError::EndedByPeer(Some(error)),
                None => event,
            }),
            _ => {
                self.emit(own, &Performative::End(End::default()));
                Some(SessionError::EndedByPeer(end.error))
            }
        };
        self.drop_session(slot, event);
        Ok(())
    }

    /// Puts a session among those with a flow or dispositions to send.
    pub(super) fn mark_dirty(&mut self, slot: u32) {
        if let Some(session) = self.sessions.get_mut(slot)
            && !session.dirty
        {
            session.dirty = true;
            self.dirty.push_back(slot);
        }
    }

    /// Writes the dispositions and session flows that are due.
    pub(super) fn transmit_session_state(&mut self, out: &mut Transmit) {
        while !out.is_full() {
            let Some(slot) = self.dirty.pop_front() else {
                return;
            };
            let Some(session) = self.sessions.get_mut(slot) else {
                continue;
            };
            session.dirty = false;
            if !session.is_begun() {
                continue;
            }
            session.write_dispositions(out.buffer());
            if session.windows.is_flow_due() {
                let flow = session.windows.flow();
                super::trace::encode(out.buffer(), session.channel, &Performative::Flow(flow));
            }
        }
    }
}
