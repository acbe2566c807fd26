use std::time::Instant;

use bytes::BytesMut;
use bytestring::ByteString;

use super::{
    Config, ConnectionError, CreditMode, DeliveryKey, DetachMode, Event, LinkKey, LinkOptions,
    LinkStatus, OutgoingDelivery, RequestError, SessionKey, SessionOptions, Settle, Side, Transmit,
};
use crate::types::{AmqpError, DeliveryState, Open, Role, SaslCode};

/// One connection, of either side: bytes and time in, bytes and events out.
#[derive(Debug)]
pub struct Connection {}

/// Whether [`Connection::handle_input`] wants to be called again before more bytes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "input may be left that no new bytes will announce"]
#[allow(clippy::exhaustive_enums, reason = "there is no third answer")]
pub enum Intake {
    /// All whole frames were taken: read more bytes.
    Drained,
    /// Many events wait: take them with [`Connection::poll_event`], then call again with the same buffer.
    Paused,
}

/// # Transport and time
impl Connection {
    /// A connection whose transport is established now.
    pub fn new(config: Config, side: Side, now: Instant) -> Self {
        let _ = (config, side, now);
        todo!()
    }

    /// Takes whole frames (and protocol headers) off the front of `input` and leaves the rest.
    ///
    /// Never fails: what is wrong with the input becomes an event. After the end of the connection all input is
    /// thrown away.
    pub fn handle_input(&mut self, now: Instant, input: &mut BytesMut) -> Intake {
        let _ = (now, input);
        todo!()
    }

    /// The transport is gone: [`ConnectionError::Lost`] after an orderly end of the byte stream, or what broke it.
    ///
    /// Makes the [`Closed`](Event::Closed) event, if there was none yet.
    pub fn handle_disconnect(&mut self, error: ConnectionError) {
        let _ = error;
        todo!()
    }

    /// Appends bytes for the peer, up to about the limit of `out`; what remains comes with the next call.
    ///
    /// Call it whenever `out` was written and something happened since: input, a request, a time-out.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Transmit) {
        let _ = (now, out);
        todo!()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        todo!()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout); may change with every other call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        todo!()
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
        todo!()
    }

    /// Whether the [`Closed`](Event::Closed) event has been made.
    pub fn is_closed(&self) -> bool {
        todo!()
    }

    /// The peer's open, once it is there.
    pub fn peer_open(&self) -> Option<&Open> {
        todo!()
    }

    /// Closes the connection, with an error or without. [`Event::Closed`] follows when the peer answered or the
    /// close time-out passed, at once when the connection was never open. Closing twice changes nothing.
    pub fn close(&mut self, now: Instant, error: Option<AmqpError>) {
        let _ = (now, error);
        todo!()
    }

    /// Answers an [`Event::SaslInit`].
    ///
    /// # Errors
    ///
    /// [`RequestError::WrongState`] when no client waits for a verdict.
    pub fn sasl_outcome(&mut self, code: SaslCode) -> Result<(), RequestError> {
        let _ = code;
        todo!()
    }
}

/// # Sessions and links
impl Connection {
    /// Begins a session. [`Event::SessionBegun`] or [`Event::SessionEnded`] follows; links can be attached before.
    ///
    /// # Errors
    ///
    /// [`RequestError::ChannelMax`], or [`RequestError::Stale`] when the connection is closing or closed.
    pub fn begin(&mut self, options: SessionOptions) -> Result<SessionKey, RequestError> {
        let _ = options;
        todo!()
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
        let _ = (session, error);
        todo!()
    }

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
        let _ = (session, name, role, options);
        todo!()
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
        let _ = (link, options);
        todo!()
    }

    /// Refuses a link that the peer asked for: an attach without the terminus that would be ours, then a detach with the
    /// error (AMQP 1.0 §2.6.3). The key is stale at once; no event follows.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`WrongState`](RequestError::WrongState) when it is accepted already.
    pub fn refuse_attach(&mut self, link: LinkKey, error: AmqpError) -> Result<(), RequestError> {
        let _ = (link, error);
        todo!()
    }

    /// Takes a link down. Queued deliveries are dropped, unsettled ones forgotten. [`Event::LinkDetached`] follows once the
    /// peer answered; until then the link makes no other event.
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
        let _ = (link, mode, error);
        todo!()
    }

    /// A look at a link.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`]
    pub fn link(&self, link: LinkKey) -> Result<LinkStatus, RequestError> {
        let _ = link;
        todo!()
    }
}

/// # Sending
impl Connection {
    /// Queues a delivery. It goes out in order as credit and windows allow; [`Event::Outcome`] gives `context` back.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`WrongRole`](RequestError::WrongRole), [`Tag`](RequestError::Tag),
    /// [`MessageTooLarge`](RequestError::MessageTooLarge).
    pub fn send(
        &mut self,
        link: LinkKey,
        delivery: OutgoingDelivery,
        context: u64,
    ) -> Result<DeliveryKey, RequestError> {
        let _ = (link, delivery, context);
        todo!()
    }

    /// Takes a delivery back: one that waits is removed without a trace, one that is partly transferred is aborted
    /// (AMQP 1.0 §2.7.5). The key is stale then and no event follows.
    ///
    /// # Errors
    ///
    /// [`RequestError::AlreadyTransferred`]: the outcome follows as if nothing was asked. [`RequestError::Stale`].
    pub fn cancel(&mut self, delivery: DeliveryKey) -> Result<(), RequestError> {
        let _ = delivery;
        todo!()
    }

    /// Answers [`Event::DrainRequested`]: gives the rest of the credit back once what is queued in the engine is sent.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`WrongRole`](RequestError::WrongRole).
    pub fn drained(&mut self, link: LinkKey) -> Result<(), RequestError> {
        let _ = link;
        todo!()
    }
}

/// # Receiving
impl Connection {
    /// Sets the credit mode: exactly so much credit from now on, or a window.
    ///
    /// Less than the peer has is taken back as far as it has not used it: deliveries that are on their way arrive.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`WrongRole`](RequestError::WrongRole).
    pub fn set_credit(&mut self, link: LinkKey, credit: CreditMode) -> Result<(), RequestError> {
        let _ = (link, credit);
        todo!()
    }

    /// Adds to the credit of a link in exact mode.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`WrongRole`](RequestError::WrongRole),
    /// [`WrongState`](RequestError::WrongState) in window mode.
    pub fn add_credit(&mut self, link: LinkKey, credit: u32) -> Result<(), RequestError> {
        let _ = (link, credit);
        todo!()
    }

    /// Reports that the application took `count` deliveries of a link in window mode out of its inbox, so that others may
    /// take their places. Without effect in exact mode.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`WrongRole`](RequestError::WrongRole).
    pub fn release(&mut self, link: LinkKey, count: u32) -> Result<(), RequestError> {
        let _ = (link, count);
        todo!()
    }

    /// Asks the peer to use the credit up. The link goes to exact mode; [`Event::Drained`] follows, after the deliveries
    /// that still come. At once when there is no credit.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`], [`WrongRole`](RequestError::WrongRole).
    pub fn drain(&mut self, link: LinkKey) -> Result<(), RequestError> {
        let _ = link;
        todo!()
    }
}

/// # Settling
impl Connection {
    /// States the outcome of a delivery: of one that was received, or, with [`OnOutcome::Report`](super::OnOutcome), of
    /// one that was sent. Consecutive equal ones go out as one disposition.
    ///
    /// # Errors
    ///
    /// [`RequestError::Stale`]: settled already (perhaps by the peer), or the link is gone.
    /// [`RequestError::WrongState`]: not transferred yet, or stated before and the peer has not answered.
    pub fn settle(
        &mut self,
        delivery: DeliveryKey,
        state: DeliveryState,
        settle: Settle,
    ) -> Result<(), RequestError> {
        let _ = (delivery, state, settle);
        todo!()
    }
}
