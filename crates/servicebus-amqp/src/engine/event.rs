use bytes::Bytes;

use super::{ConnectionError, DeliveryKey, LinkError, LinkKey, SessionError, SessionKey};
use crate::types::{Attach, Begin, DeliveryState, Open, ReceiverSettleMode, SaslInit};

/// What the peer did, and what came of requests. In the order in which it happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// Listener: a client wants to authenticate, with one of the mechanisms that were offered. Answer with
    /// [`Connection::sasl_outcome`](super::Connection::sasl_outcome), at any time before the handshake time-out.
    SaslInit(Box<SaslInit>),
    /// The peer's open arrived. Sessions can be begun before it, and are sent then.
    Opened(Box<Open>),
    /// The connection is gone; nothing follows. See [`engine`](super) for what this covers.
    ///
    /// What [`poll_transmit`](super::Connection::poll_transmit) still gives should be written, within bounds, before
    /// the transport is closed.
    Closed(ConnectionError),

    /// The peer answered our begin.
    SessionBegun {
        /// The session.
        session: SessionKey,
        /// The peer's begin.
        begin: Box<Begin>,
    },
    /// The peer began a session. It is answered already.
    SessionRequested {
        /// The session.
        session: SessionKey,
        /// The peer's begin.
        begin: Box<Begin>,
    },
    /// The session is gone. See [`engine`](super) for what this covers.
    SessionEnded {
        /// The session; the key is stale now.
        session: SessionKey,
        /// Why.
        error: SessionError,
    },

    /// The peer answered our attach: the link is usable.
    ///
    /// A refusal in two steps (AMQP 1.0 §2.6.3: an attach without source or target, then a detach) is not announced
    /// here; it is one [`LinkDetached`](Self::LinkDetached) with the peer's error. If its detach never comes the
    /// application gives up with [`detach`](super::Connection::detach).
    Attached {
        /// The link.
        link: LinkKey,
        /// The peer's attach.
        attach: Box<Attach>,
    },
    /// The peer asks for a link. Answer, at any time, with
    /// [`accept_attach`](super::Connection::accept_attach) or [`refuse_attach`](super::Connection::refuse_attach).
    AttachRequested {
        /// The session.
        session: SessionKey,
        /// The link to be.
        link: LinkKey,
        /// The peer's attach. Its role is the peer's.
        attach: Box<Attach>,
    },
    /// The link is gone. See [`engine`](super) for what this covers.
    LinkDetached {
        /// The link; the key is stale now.
        link: LinkKey,
        /// Why.
        error: LinkError,
    },

    /// Sender: the peer's flow changed the credit of the link.
    ///
    /// Deliveries that wait in the engine go out by themselves; this is for applications that decide by credit.
    Credit {
        /// The link.
        link: LinkKey,
        /// The credit that remains for deliveries which are not yet transferred, those queued in the engine included.
        credit: u32,
    },
    /// Sender with [`DrainPolicy::Manual`](super::DrainPolicy): the peer asks to use the credit up. Send what there is, then
    /// call [`drained`](super::Connection::drained).
    DrainRequested {
        /// The link.
        link: LinkKey,
        /// The credit that there is.
        credit: u32,
    },
    /// Receiver: the drain is complete; there is no credit left. The link is in exact mode with credit 0 now.
    Drained {
        /// The link.
        link: LinkKey,
    },

    /// Receiver: a complete delivery.
    Delivery(IncomingDelivery),
    /// A delivery will never be transferred: its link ended while the delivery waited, or while a part of it was still to
    /// come. The peer has not processed it. The event that covers the link follows; deliveries that it covers without
    /// this event were transferred, and their fate is not known.
    Unsent {
        /// The link.
        link: LinkKey,
        /// The delivery; the key is stale now.
        delivery: DeliveryKey,
        /// What the application gave with [`send`](super::Connection::send).
        context: u64,
    },
    /// The peer stated what became of a delivery, or a pre-settled one was transferred.
    ///
    /// For a delivery that we sent: its outcome. For one that we received: the peer's answer to a
    /// [`Settle::Second`](super::Settle), or the peer settled on its own (as when a lock ran out).
    Outcome {
        /// The link.
        link: LinkKey,
        /// The delivery. Stale now if `settled`.
        delivery: DeliveryKey,
        /// What the application gave with [`send`](super::Connection::send); 0 for received deliveries.
        context: u64,
        /// The state; `None` where the peer settled without one, and for a pre-settled delivery.
        state: Option<DeliveryState>,
        /// Whether the delivery is settled at both ends now and forgotten.
        settled: bool,
    },
}

/// A complete delivery from the peer.
#[derive(Debug)]
#[non_exhaustive]
pub struct IncomingDelivery {
    /// The link.
    pub link: LinkKey,
    /// The delivery. Stale from the start if `settled`.
    pub delivery: DeliveryKey,
    /// The delivery-tag.
    pub tag: Bytes,
    /// The message-format; 0 for AMQP messages.
    pub message_format: u32,
    /// Whether the sender had settled it; then there is nothing to settle.
    pub settled: bool,
    /// How the sender wants this delivery settled, where that is not what the attach says (AMQP 1.0 §2.7.5): for *first*
    /// settle with [`Settle::First`](super::Settle), for *second* with [`Settle::Second`](super::Settle). *Second* is only
    /// legal where the link has it already; that is not checked.
    pub rcv_settle_mode: Option<ReceiverSettleMode>,
    /// The state that the sender gave, as the transaction it belongs to.
    pub state: Option<DeliveryState>,
    /// The encoded message. A slice of the input when it came in one frame.
    pub payload: Bytes,
}
