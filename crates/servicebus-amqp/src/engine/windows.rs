use super::connection::{Connection, Violation};
use super::link::Place;
use super::serial;
use crate::types::{Begin, Flow};

/// What is said about our own sending: more than any peer lets us have under way.
pub(super) const OUTGOING_WINDOW: u32 = 0x7fff_ffff;

/// The windows of a session: how many transfer frames each side takes (AMQP 1.0 §2.5.6).
#[derive(Debug)]
pub(super) struct Windows {
    size: u32,
    /// How many the peer may still send.
    incoming: u32,
    next_incoming_id: u32,
    initial_outgoing_id: u32,
    next_outgoing_id: u32,
    /// How many the peer still takes.
    peer: u32,
    flow_due: bool,
}

impl Windows {
    pub(super) fn new(size: u32, initial_outgoing_id: u32) -> Self {
        let size = size.max(1);
        Self {
            size,
            incoming: size,
            next_incoming_id: 0,
            initial_outgoing_id,
            next_outgoing_id: initial_outgoing_id,
            peer: 0,
            flow_due: false,
        }
    }

    /// How many transfers we take at a time.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// The id of our next transfer.
    pub(super) fn next_outgoing_id(&self) -> u32 {
        self.next_outgoing_id
    }

    pub(super) fn on_peer_begin(&mut self, begin: &Begin) {
        self.next_incoming_id = begin.next_outgoing_id;
        self.peer = begin.incoming_window;
    }

    /// Counts a transfer of the peer. `false`: the window was closed. A flow is due once half of the window is used.
    pub(super) fn count_incoming(&mut self) -> bool {
        let Some(left) = self.incoming.checked_sub(1) else {
            return false;
        };
        self.incoming = left;
        self.next_incoming_id = self.next_incoming_id.wrapping_add(1);
        if left <= self.size / 2 {
            self.flow_due = true;
        }
        true
    }

    /// Counts a transfer of ours.
    pub(super) fn count_outgoing(&mut self) {
        self.peer = self.peer.saturating_sub(1);
        self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
    }

    /// Whether the peer takes another transfer.
    pub(super) fn is_open(&self) -> bool {
        self.peer > 0
    }

    /// The session part of the peer's flow.
    pub(super) fn on_peer_flow(&mut self, flow: &Flow) {
        self.next_incoming_id = flow.next_outgoing_id;
        let expected = flow.next_incoming_id.unwrap_or(self.initial_outgoing_id);
        let under_way = serial::distance(expected, self.next_outgoing_id).max(0);
        self.peer = flow
            .incoming_window
            .saturating_sub(under_way.unsigned_abs());
    }

    pub(super) fn is_flow_due(&self) -> bool {
        self.flow_due
    }

    pub(super) fn set_flow_due(&mut self) {
        self.flow_due = true;
    }

    /// The session part of our flow, with the window opened as far as it goes.
    pub(super) fn flow(&mut self) -> Flow {
        self.flow_due = false;
        self.incoming = self.size;
        Flow {
            next_incoming_id: Some(self.next_incoming_id),
            incoming_window: self.size,
            next_outgoing_id: self.next_outgoing_id,
            outgoing_window: OUTGOING_WINDOW,
            ..Flow::default()
        }
    }
}

impl Connection {
    pub(super) fn on_flow(&mut self, channel: u16, flow: &Flow) -> Result<(), Violation> {
        let Some(slot) = self.living_session(channel)? else {
            return Ok(());
        };
        let Some(session) = self.sessions.get_mut(slot) else {
            return Ok(());
        };
        session.windows.on_peer_flow(flow);
        if session.windows.is_open() {
            for link in std::mem::take(&mut session.blocked) {
                if let Some(state) = self.links.get_mut(link)
                    && state.place == Place::Blocked
                {
                    state.place = Place::Ready;
                    self.ready.push_back(link);
                }
            }
        }
        match flow.handle {
            Some(handle) => self.on_link_flow(slot, handle, flow),
            None => {
                if flow.echo {
                    self.session_flow_due(slot);
                }
                Ok(())
            }
        }
    }

    fn session_flow_due(&mut self, slot: u32) {
        if let Some(session) = self.sessions.get_mut(slot) {
            session.windows.set_flow_due();
        }
        self.mark_dirty(slot);
    }
}
