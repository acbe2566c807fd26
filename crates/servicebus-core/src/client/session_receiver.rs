use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use bytestring::ByteString;
use futures_util::Stream;
use servicebus_amqp::types::{Map, Symbol, Value};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::clock::{now, random};
use super::held_session::HeldSession;
use super::intake::{Intake, Settings};
use super::link::{Asked, Place, ReceivingLink};
use super::locked_message::{LockedMessage, SettleError};
use super::mode::{Mode, PeekLock};
use super::node::Node;
use super::operation::Operation;
use super::receiver::{messages, peek, peek_from, receive_deferred, settle_all};
use super::renewer::{Holder, Lock, What};
use crate::error::{Error, ErrorKind, Result};
use crate::management::{RenewSessionLock, SessionState, SetSessionState};
use crate::message::ReceivedMessage;
use crate::names;
use crate::options::SessionReceiverOptions;
use crate::session::{
    accept_timeout_millis, check_session_id, granted_session, granted_until, session_filter,
};
use crate::settlement::Settlement;

/// How much longer than it was told to the service may take to answer that there is no session.
const GRACE: Duration = Duration::from_secs(2);

/// Receives the messages of one session, which it holds: nobody else receives them meanwhile, and they come in their order.
///
/// The session is lost for good when its lock runs out or its link ends: from then on everything fails with
/// [`ErrorKind::SessionLockLost`], and the session has to be accepted again. Its lock is renewed in the background as the
/// options say. When the receiver is dropped, the session is kept for the messages in hand, and free for others once they
/// are dropped or settled too.
#[derive(Debug)]
pub struct SessionReceiver<M = PeekLock> {
    intake: Arc<Intake>,
    session: Arc<HeldSession>,
    mode: PhantomData<M>,
}

/// Which session to accept.
#[derive(Clone, Debug)]
pub(crate) enum Which {
    Named(ByteString),
    Next,
}

impl<M: Mode> SessionReceiver<M> {
    /// Accepts a session; `None` when there is no next one.
    pub(crate) async fn accept(
        node: Arc<Node>,
        which: Which,
        options: SessionReceiverOptions,
    ) -> Result<Option<Self>> {
        if let Which::Named(id) = &which {
            check_session_id(id).map_err(|error| node.about(error))?;
        }
        let span = tracing::debug_span!("accept_session", entity = %node.address, ?which);
        let mut waits_since = None;
        let mut operation = Operation::new(&node, "accept_session");
        let attempts = async {
            loop {
                operation.begin().await?;
                match accept_once::<M>(&node, &which, &options, &mut waits_since).await {
                    Ok(link) => return Ok(link),
                    Err(error) => operation.failed(error).await?,
                }
            }
        };
        let closing = &node.shared.closing;
        // Boxed, for attaching takes many steps.
        let link = Box::pin(closing.unless_closed(attempts).instrument(span)).await;
        let Some(link) = link.map_err(|error| node.about(error))? else {
            return Ok(None);
        };
        Box::pin(Self::of_link(node, Arc::new(link), options))
            .await
            .map(Some)
    }

    async fn of_link(
        node: Arc<Node>,
        link: Arc<ReceivingLink>,
        options: SessionReceiverOptions,
    ) -> Result<Self> {
        let attach = link.link.peer_attach();
        let source = attach.and_then(|attach| attach.source.as_ref());
        let id = granted_session(source.and_then(|source| source.filter.as_ref()))
            .map_err(|error| node.about(error))?;
        let granted = granted_until(attach.and_then(|attach| attach.properties.as_ref()));
        let locked_until = match granted {
            Some(until) => Some(until),
            None => {
                let request = RenewSessionLock::new(id.clone());
                node.call(&request, Some(link.name.clone())).await?
            }
        };
        let hold = locked_until.map(|locked_until| {
            let now = now();
            let ends = node.lock_end(None, locked_until, now);
            let lock = Lock {
                node: Arc::downgrade(&node),
                what: What::Session(id.clone()),
                link: Arc::downgrade(&link),
                locked_until,
                lost: Some(link.session_token()),
                holder: Holder::Present,
            };
            let renewer = &node.shared.renewer;
            renewer.hold(lock, ends, options.keep_lock, now)
        });
        tracing::debug!(entity = %node.address, session = &*id, "session accepted");
        let session = HeldSession::new(id, Arc::clone(&link), hold);
        let settings = Settings {
            mode: M::MODE,
            identifier: options.identifier,
            session: Some(Arc::clone(&session)),
            prefetch: options.prefetch,
            keep_lock: options.keep_lock,
            linger: options.linger,
        };
        Ok(Self {
            intake: Intake::of_session(node, settings, link),
            session,
            mode: PhantomData,
        })
    }

    /// The path of the queue or subscription.
    pub fn entity(&self) -> &str {
        self.intake.node().address.as_str()
    }

    /// The id of the session.
    pub fn session_id(&self) -> &str {
        &self.session.id
    }

    /// When the session's lock ends, by the service's clock, as it said last.
    pub fn locked_until(&self) -> Option<SystemTime> {
        self.session.hold()?.locked_until()
    }

    /// A token that is cancelled when the session is lost. What is being done about its messages is for nothing then.
    pub fn lock_lost(&self) -> CancellationToken {
        self.session.link.session_lock_lost()
    }

    /// Receives the session's next message; waits until there is one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SessionLockLost`] when the session is lost.
    ///
    /// # Cancel safety
    ///
    /// No message is lost when the future is dropped: one that is on its way is kept for the next receive.
    pub async fn receive(&self) -> Result<M::Message> {
        loop {
            let receive = self.intake.receive_one::<M>(None);
            if let Some(message) = receive.instrument(self.span("receive")).await? {
                return Ok(message);
            }
        }
    }

    /// Receives the session's next message, or `None` when there is none within `wait`.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    ///
    /// # Cancel safety
    ///
    /// As [`receive`](Self::receive).
    pub async fn receive_within(&self, wait: Duration) -> Result<Option<M::Message>> {
        let receive = self.intake.receive_one::<M>(Some(wait));
        receive.instrument(self.span("receive")).await
    }

    /// Receives up to `max` of the session's messages. Waits for the first one for `wait`; then takes what comes until
    /// none has come for [`linger`](SessionReceiverOptions::linger).
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    ///
    /// # Cancel safety
    ///
    /// As [`receive`](Self::receive).
    pub async fn receive_batch(&self, max: usize, wait: Duration) -> Result<Vec<M::Message>> {
        self.intake
            .receive::<M>(max, Some(wait))
            .instrument(self.span("receive"))
            .await
    }

    /// The messages as a stream, which ends after [`ErrorKind::SessionLockLost`].
    ///
    /// # Errors
    ///
    /// The items are the results of [`receive`](Self::receive).
    ///
    /// # Cancel safety
    ///
    /// As [`receive`](Self::receive), for dropping the stream as well.
    pub fn stream(&self) -> impl Stream<Item = Result<M::Message>> + Send + Unpin + '_ {
        messages(self, |receiver| async move {
            let result = receiver.receive().await;
            (result, receiver)
        })
    }

    /// Receives deferred messages of the session by their sequence numbers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::MessageNotFound`] when one of them is not deferred in this session.
    ///
    /// # Cancel safety
    ///
    /// The messages may be locked, or deleted, when the future is dropped.
    pub async fn receive_deferred(
        &self,
        numbers: impl IntoIterator<Item = i64>,
    ) -> Result<Vec<M::Message>> {
        receive_deferred::<M>(&self.intake, numbers).await
    }

    /// Looks at up to `max` messages of the session, beginning behind the last one that this receiver looked at.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    ///
    /// # Cancel safety
    ///
    /// The next call begins at the same place when the future is dropped.
    pub async fn peek(&self, max: u32) -> Result<Vec<ReceivedMessage>> {
        peek(&self.intake, max).await
    }

    /// Looks at up to `max` messages of the session whose sequence number is `from` or more.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    ///
    /// # Cancel safety
    ///
    /// Nothing happens when the future is dropped.
    pub async fn peek_from(&self, from: i64, max: u32) -> Result<Vec<ReceivedMessage>> {
        peek_from(&self.intake, from, max).await
    }

    /// The state that was set for the session; `None` when there is none.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    ///
    /// # Cancel safety
    ///
    /// Nothing happens when the future is dropped.
    pub async fn state(&self) -> Result<Option<Bytes>> {
        self.call(&SessionState::new(self.session.id.clone()), "state")
            .await
    }

    /// Sets the session's state, which outlives its messages, to whatever bytes the application likes.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    ///
    /// # Cancel safety
    ///
    /// The state may be set when the future is dropped.
    pub async fn set_state(&self, state: impl Into<Bytes>) -> Result<()> {
        let request = SetSessionState::new(self.session.id.clone(), Some(state.into()));
        self.call(&request, "set_state").await
    }

    /// Clears the session's state. A session with a state does not go away.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    ///
    /// # Cancel safety
    ///
    /// The state may be cleared when the future is dropped.
    pub async fn clear_state(&self) -> Result<()> {
        let request = SetSessionState::new(self.session.id.clone(), None);
        self.call(&request, "clear_state").await
    }

    /// Renews the session's lock now; gives when it ends, by the service's clock.
    ///
    /// Not needed while it is renewed in the background.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive).
    ///
    /// # Cancel safety
    ///
    /// The lock may be renewed when the future is dropped.
    pub async fn renew_lock(&self) -> Result<Option<SystemTime>> {
        let request = RenewSessionLock::new(self.session.id.clone());
        let until = self.call(&request, "renew_lock").await?;
        if let Some(hold) = self.session.hold() {
            hold.renewed(self.intake.node(), until);
        }
        Ok(until)
    }

    async fn call<O: crate::management::Operation>(
        &self,
        request: &O,
        name: &'static str,
    ) -> Result<O::Output> {
        self.intake.check()?;
        let node = self.intake.node();
        let call = node.call(request, Some(self.session.link.name.clone()));
        call.instrument(self.span(name)).await
    }

    fn span(&self, operation: &'static str) -> tracing::Span {
        tracing::debug_span!(
            "session",
            operation,
            entity = self.entity(),
            session = &*self.session.id
        )
    }

    /// Whether the receiver or its client was closed.
    pub fn is_closed(&self) -> bool {
        self.intake.is_closed()
    }

    /// Gives the session up, for others to accept it: messages that wait here are given back, and the link is detached.
    /// What is asked of it, or of its messages, from now on fails with [`ErrorKind::Closed`]. Closing again does nothing.
    ///
    /// # Cancel safety
    ///
    /// No more is received when the future is dropped; close again to give the session up.
    pub async fn close(&self) {
        self.intake.close().await;
    }
}

impl SessionReceiver<PeekLock> {
    /// Settles many messages at once, in the same way; gives those back that could not be settled.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, messages may be settled or not.
    pub async fn settle_all(
        &self,
        messages: impl IntoIterator<Item = LockedMessage>,
        settlement: Settlement,
    ) -> Vec<SettleError> {
        settle_all(messages, settlement).await
    }
}

/// `None` when the service says, by its answer or by none, that there is no next session. The time to wait for one begins
/// with the first attempt and is not given again to another.
async fn accept_once<M: Mode>(
    node: &Arc<Node>,
    which: &Which,
    options: &SessionReceiverOptions,
    waits_since: &mut Option<Instant>,
) -> Result<Option<ReceivingLink>> {
    // By a task, so that nobody who needs the same waits for this future to be polled.
    let here = Arc::clone(node);
    let place = tokio::spawn(async move { Place::for_link_to(&here).await });
    let place = place.await.map_err(|error| {
        Error::new(ErrorKind::Other, "a task of the client was ended").with_source(error)
    })??;
    let mut properties = Map::new();
    let (filter, limit) = match which {
        Which::Named(id) => (session_filter(Some(id)), node.try_timeout()),
        Which::Next => {
            let waited = now().saturating_duration_since(*waits_since.get_or_insert_with(now));
            let wait = options.accept_wait.saturating_sub(waited);
            let millis = accept_timeout_millis(wait, random());
            properties.insert(
                Symbol::from_static(names::link::TIMEOUT),
                Value::Uint(millis),
            );
            (session_filter(None), wait.saturating_add(GRACE))
        }
    };
    let asked = Asked {
        mode: M::MODE,
        identifier: options.identifier.clone(),
        filter: Some(filter),
        properties,
        limit,
    };
    match ReceivingLink::attach(node, place, asked).await {
        Ok(link) => Ok(Some(link)),
        Err(error) if matches!(which, Which::Next) && error.kind() == ErrorKind::Timeout => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
