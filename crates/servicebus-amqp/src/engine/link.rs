use bytestring::ByteString;

use super::arena::{List, NONE};
use super::connection::{Connection, Violation};
use super::receiver::Receiver;
use super::sender::Sender;
use super::{LinkError, LinkKey, LinkOptions, LinkStatus, RequestError, Transmit};
use crate::types::{AmqpError, Attach, Flow, Performative, Role, condition};

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
    pub(super) attach: Option<Box<Attach>>,
    /// For the event when the peer's detach arrives, if one is still to be made.
    pub(super) ending: Option<Box<LinkError>>,
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
    pub(super) fn new(session: u32, name: ByteString, role: Role, state: LinkState) -> Self {
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

    pub(super) fn attach(&self, options: LinkOptions) -> Box<Attach> {
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

    pub(super) fn apply(&mut self, options: &LinkOptions) {
        match &mut self.end {
            End::Sender(sender) => sender.apply(options),
            End::Receiver(receiver) => receiver.apply(options),
        }
    }

    pub(super) fn on_peer_attach(&mut self, attach: &Attach) {
        self.peer_handle = attach.handle;
        self.peer_max_message_size = attach.max_message_size.unwrap_or(0);
        if let End::Receiver(receiver) = &mut self.end {
            receiver
                .credit
                .start(attach.initial_delivery_count.unwrap_or(0));
        }
    }
}

/// # Links
impl Connection {
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
            End::Receiver(receiver) => {
                (receiver.credit.left(), 0, receiver.credit.delivery_count())
            }
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

    /// Both ends are attached: what was given before takes effect.
    pub(super) fn start_link(&mut self, slot: u32) {
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
    pub(super) fn transmit_link_flows(&mut self, out: &mut Transmit) {
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
            let mut flow = session.windows.flow();
            flow.handle = Some(link.handle);
            match &mut link.end {
                End::Sender(sender) => sender.fill_flow(&mut flow),
                End::Receiver(receiver) => receiver.credit.fill_flow(&mut flow),
            }
            super::trace::encode(out.buffer(), session.channel, &Performative::Flow(flow));
        }
    }
}
